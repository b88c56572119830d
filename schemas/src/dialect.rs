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
}

impl Dialect {
    pub const ALL: [Dialect; 6] =
        [Dialect::Native, Dialect::Segment, Dialect::Snowplow, Dialect::Posthog, Dialect::Amplitude, Dialect::Mixpanel];
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Native => "native",
            Dialect::Segment => "segment",
            Dialect::Snowplow => "snowplow",
            Dialect::Posthog => "posthog",
            Dialect::Amplitude => "amplitude",
            Dialect::Mixpanel => "mixpanel",
        }
    }
    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|d| d.name() == name)
    }
}
