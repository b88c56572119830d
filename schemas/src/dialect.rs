//! The languages that SDKs speak. The name is a metric label, an Avro enum symbol and the suffix in `x-names`.

/// Order is persisted (Avro enum): append only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Dialect {
    Native,
    Segment,
    Snowplow,
    Posthog,
    Amplitude,
    Mixpanel,
    /// Google Analytics 4, Measurement Protocol.
    Ga4,
    /// CloudEvents 1.0 over HTTP.
    CloudEvents,
}

impl Dialect {
    pub const ALL: [Dialect; 8] = [
        Dialect::Native,
        Dialect::Segment,
        Dialect::Snowplow,
        Dialect::Posthog,
        Dialect::Amplitude,
        Dialect::Mixpanel,
        Dialect::Ga4,
        Dialect::CloudEvents,
    ];
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Native => "native",
            Dialect::Segment => "segment",
            Dialect::Snowplow => "snowplow",
            Dialect::Posthog => "posthog",
            Dialect::Amplitude => "amplitude",
            Dialect::Mixpanel => "mixpanel",
            Dialect::Ga4 => "ga4",
            Dialect::CloudEvents => "cloudevents",
        }
    }
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|d| d.name() == name)
    }
}
