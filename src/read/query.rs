//! Questions, and their form as a path with parameters.

use super::Role;
use forebay_schemas::id::RequestId;
use forebay_schemas::reason::Reason;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use std::collections::BTreeMap;

#[derive(Clone, PartialEq, Debug)]
pub enum Query {
    Log(LogQuery),
    Explain(ExplainQuery),
    RawSegments { from: Option<Micros>, to: Option<Micros> },
    RawRequests { segment: String, request: Option<RequestId> },
    Bad { reason: Option<Reason>, event_id: Option<String>, sealed: bool },
    Unclassified,
    Config,
}

#[derive(Clone, PartialEq, Debug)]
pub struct LogQuery {
    pub topic: Topic,
    pub from: From,
    pub partition: Option<i32>,
    pub count: Option<u64>,
    /// Seconds without a shown record after which the answer ends.
    pub until_idle: Option<f64>,
    pub ticks: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct ExplainQuery {
    pub event_id: String,
    pub source: Option<String>,
    pub from: Option<Micros>,
    pub to: Option<Micros>,
}

/// Where in each partition to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    Earliest,
    Latest,
    Offset(i64),
}

impl From {
    pub fn parse(text: &str) -> Result<From, String> {
        match text {
            "earliest" => Ok(From::Earliest),
            "latest" => Ok(From::Latest),
            number => {
                number.parse().ok().filter(|n| *n >= 0).map(From::Offset).ok_or_else(|| "expected earliest, latest or an offset".to_owned())
            }
        }
    }
}

impl std::fmt::Display for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            From::Earliest => f.write_str("earliest"),
            From::Latest => f.write_str("latest"),
            From::Offset(offset) => write!(f, "{offset}"),
        }
    }
}

type Parameters = BTreeMap<String, String>;

impl Query {
    /// The least role that may ask this.
    pub fn needs(&self) -> Role {
        match self {
            Query::Log(log) => match log.topic {
                Topic::Trusted | Topic::Bad | Topic::Windows | Topic::Late | Topic::Repartition => Role::View,
                Topic::Harvested | Topic::Delta => Role::Reveal,
            },
            Query::Explain(_) | Query::Unclassified => Role::View,
            Query::Bad { sealed, .. } => {
                if *sealed {
                    Role::Reveal
                } else {
                    Role::View
                }
            }
            Query::RawSegments { .. } | Query::RawRequests { .. } | Query::Config => Role::Reveal,
        }
    }

    /// What the audit log calls it: no ids.
    pub fn action(&self) -> String {
        match self {
            Query::Log(log) => format!("log {}", log.topic.word()),
            Query::Explain(_) => "explain".to_owned(),
            Query::RawSegments { .. } => "raw ls".to_owned(),
            Query::RawRequests { .. } => "raw cat".to_owned(),
            Query::Bad { sealed: true, .. } => "bad show".to_owned(),
            Query::Bad { sealed: false, .. } => "bad ls".to_owned(),
            Query::Unclassified => "unclassified".to_owned(),
            Query::Config => "config".to_owned(),
        }
    }

    /// The path below `/api/` and its parameters.
    pub fn to_path(&self) -> (String, Parameters) {
        let mut parameters = Parameters::new();
        let mut put = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                parameters.insert(name.to_owned(), value);
            }
        };
        let path = match self {
            Query::Log(log) => {
                put("from", Some(log.from.to_string()));
                put("partition", log.partition.map(|p| p.to_string()));
                put("count", log.count.map(|c| c.to_string()));
                put("until_idle", log.until_idle.map(|s| s.to_string()));
                put("ticks", log.ticks.then(|| "true".to_owned()));
                format!("log/{}", log.topic.word())
            }
            Query::Explain(explain) => {
                put("event_id", Some(explain.event_id.clone()));
                put("source", explain.source.clone());
                put("from", explain.from.map(Micros::to_rfc3339));
                put("to", explain.to.map(Micros::to_rfc3339));
                "explain".to_owned()
            }
            Query::RawSegments { from, to } => {
                put("from", from.map(Micros::to_rfc3339));
                put("to", to.map(Micros::to_rfc3339));
                "raw".to_owned()
            }
            Query::RawRequests { segment, request } => {
                put("segment", Some(segment.clone()));
                put("request", request.map(|r| r.to_string()));
                "raw/requests".to_owned()
            }
            Query::Bad { reason, event_id, sealed } => {
                put("reason", reason.map(|r| r.name().to_owned()));
                put("event_id", event_id.clone());
                put("sealed", sealed.then(|| "true".to_owned()));
                "bad".to_owned()
            }
            Query::Unclassified => "unclassified".to_owned(),
            Query::Config => "config".to_owned(),
        };
        (path, parameters)
    }

    /// `Ok(None)`: there is no such path.
    pub fn from_path(path: &str, parameters: &Parameters) -> Result<Option<Query>, String> {
        let mut left = Left(parameters.clone());
        let query = match path {
            "explain" => Query::Explain(ExplainQuery {
                event_id: left.text("event_id")?.ok_or("event_id is missing")?,
                source: left.text("source")?,
                from: left.time("from")?,
                to: left.time("to")?,
            }),
            "raw" => Query::RawSegments { from: left.time("from")?, to: left.time("to")? },
            "raw/requests" => Query::RawRequests {
                segment: left.text("segment")?.ok_or("segment is missing")?,
                request: left.parsed("request", |t| t.parse().ok())?,
            },
            "bad" => Query::Bad {
                reason: left.parsed("reason", Reason::from_name)?,
                event_id: left.text("event_id")?,
                sealed: left.flag("sealed")?,
            },
            "unclassified" => Query::Unclassified,
            "config" => Query::Config,
            _ => match path.strip_prefix("log/").and_then(Topic::from_word) {
                Some(topic) => Query::Log(LogQuery {
                    topic,
                    from: left.parsed("from", |t| From::parse(t).ok())?.unwrap_or(From::Earliest),
                    partition: left.parsed("partition", |t| t.parse().ok())?,
                    count: left.parsed("count", |t| t.parse().ok())?,
                    until_idle: left.parsed("until_idle", |t| t.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0))?,
                    ticks: left.flag("ticks")?,
                }),
                None => return Ok(None),
            },
        };
        left.end()?;
        Ok(Some(query))
    }
}

/// Parameters that are not read yet.
struct Left(Parameters);

impl Left {
    fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        Ok(self.0.remove(name))
    }
    fn parsed<T>(&mut self, name: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, String> {
        self.0.remove(name).map(|text| parse(&text).ok_or_else(|| format!("{name} is not readable"))).transpose()
    }
    fn time(&mut self, name: &str) -> Result<Option<Micros>, String> {
        self.parsed(name, Micros::parse_rfc3339)
    }
    fn flag(&mut self, name: &str) -> Result<bool, String> {
        Ok(self.parsed(name, |t| t.parse().ok())?.unwrap_or(false))
    }
    fn end(self) -> Result<(), String> {
        self.0.keys().next().map_or(Ok(()), |name| Err(format!("unknown parameter {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_survives_its_path() {
        let time = Micros::parse_rfc3339("2026-11-30T10:00:00.123456Z");
        let request = "01a22b36-5a4c-75de-8aa0-e225cefea702".parse().ok();
        for (query, role) in [
            (
                Query::Log(LogQuery {
                    topic: Topic::Trusted,
                    from: From::Offset(7),
                    partition: Some(2),
                    count: Some(1),
                    until_idle: Some(0.3),
                    ticks: true,
                }),
                Role::View,
            ),
            (
                Query::Log(LogQuery {
                    topic: Topic::Harvested,
                    from: From::Latest,
                    partition: None,
                    count: None,
                    until_idle: None,
                    ticks: false,
                }),
                Role::Reveal,
            ),
            (Query::Explain(ExplainQuery { event_id: "a & b".to_owned(), source: Some("s".to_owned()), from: time, to: time }), Role::View),
            (Query::RawSegments { from: time, to: None }, Role::Reveal),
            (Query::RawRequests { segment: "raw/x".to_owned(), request }, Role::Reveal),
            (Query::Bad { reason: Some(Reason::Malformed), event_id: None, sealed: false }, Role::View),
            (Query::Bad { reason: None, event_id: Some("e".to_owned()), sealed: true }, Role::Reveal),
            (Query::Unclassified, Role::View),
            (Query::Config, Role::Reveal),
        ] {
            let (path, parameters) = query.to_path();
            assert_eq!(query.needs(), role, "{path}");
            assert_eq!(Query::from_path(&path, &parameters), Ok(Some(query)), "{path}");
        }
        for (path, parameters, answer) in [
            ("log/nothing", "", Ok(None)),
            ("nothing", "", Ok(None)),
            ("explain", "", Err("event_id is missing".to_owned())),
            ("log/bad", "count=x", Err("count is not readable".to_owned())),
            ("log/bad", "cuont=1", Err("unknown parameter cuont".to_owned())),
        ] {
            let parameters = parameters.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
            assert_eq!(Query::from_path(path, &parameters), answer, "{path}");
        }
    }
}
