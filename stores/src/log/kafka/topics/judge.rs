//! One topic as it is, against what it must be. Asks nobody.

use super::KafkaOptions;
use forebay_schemas::topic::{self, Topic};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a topic must be: the table, and what the configuration says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    pub topic: Topic,
    pub name: String,
    pub partitions: i32,
    pub replicas: i32,
    min_insync_replicas: i32,
    retention: Duration,
    /// Shorter than this is not borne.
    retention_min: Duration,
    /// Over all partitions.
    bytes_max: Option<u64>,
}

/// What was found of one setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    pub topic: Topic,
    /// On the brokers.
    pub name: String,
    /// Kafka's name; `partitions`, `replicas`; `topic` for one that is not there; `schema` for its values' in the registry.
    pub setting: &'static str,
    /// `None`: there is no such topic.
    pub found: Option<String>,
    pub wanted: String,
    pub verdict: Verdict,
    /// Whether `apply` may make it what is wanted.
    pub changeable: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Good,
    /// Other than wanted, and nothing breaks.
    Differs,
    /// Not to be read with these rights.
    Unknown,
    /// No part may start on it: what goes wrong.
    Refused(&'static str),
}

pub(super) struct Found {
    pub partitions: usize,
    pub replicas: usize,
    /// `None`: they may not be read.
    pub settings: Option<BTreeMap<String, String>>,
}

/// A setting of a plan.
pub(super) struct Wanted {
    pub name: &'static str,
    pub value: String,
    rule: Rule,
    changeable: bool,
}

enum Rule {
    /// This text; else the reason, or no harm.
    Is(Option<&'static str>),
    /// At least the value, −1 being endless. Below `least`: the reason; else no harm.
    AtLeast { least: i64, why: &'static str },
    /// At most the value; more does no harm.
    AtMost,
}

const ENDLESS: i64 = -1;
const HOUR_MS: u64 = 3_600_000;

impl Plan {
    pub fn new(options: &KafkaOptions, topic: Topic) -> Plan {
        let kept = options.topic(topic);
        let least = Duration::from_millis(topic.retention_hours_min() * HOUR_MS);
        Plan {
            topic,
            name: kept.name.clone(),
            partitions: options.partitions,
            replicas: options.replicas,
            min_insync_replicas: options.min_insync_replicas,
            retention: kept.retention.max(least),
            // Recovery needs every delta for as long as it was told that they are kept.
            retention_min: if topic == Topic::Delta { kept.retention.max(least) } else { least },
            bytes_max: kept.bytes_max,
        }
    }

    /// In Kafka's words.
    pub(super) fn settings(&self) -> Vec<Wanted> {
        let at_least = |name, value: i64, least: i64, why| Wanted {
            name,
            value: value.to_string(),
            rule: Rule::AtLeast { least, why },
            changeable: true,
        };
        let min_insync = i64::from(self.min_insync_replicas);
        let batch = to_i64(topic::BATCH_BYTES as u128);
        let bytes =
            self.bytes_max.map_or(ENDLESS, |bytes| to_i64(u128::from(bytes.div_ceil(self.partitions.unsigned_abs().max(1).into()))));
        let retention = to_i64(self.retention.as_millis());
        let retention_min = to_i64(self.retention_min.as_millis());
        let fixed = topic::SETTINGS.iter().map(|setting| Wanted {
            name: setting.name,
            value: setting.value.to_owned(),
            rule: Rule::Is(setting.why),
            changeable: setting.changeable,
        });
        let mut settings: Vec<Wanted> = fixed.collect();
        settings.extend([
            at_least("max.message.bytes", batch, batch, "a batch with a large record would be refused for ever"),
            at_least("min.insync.replicas", min_insync, min_insync, "what was acknowledged could be lost with one broker"),
            at_least("retention.ms", retention, retention_min, "what a reader or a recovery still needs would be gone"),
            at_least("retention.bytes", bytes, bytes, "what a reader or a recovery still needs would be gone"),
            Wanted { name: "segment.ms", value: (topic::SEGMENT_HOURS * HOUR_MS).to_string(), rule: Rule::AtMost, changeable: true },
        ]);
        settings
    }
}

impl Wanted {
    fn judge(&self, found: &str) -> Verdict {
        let numbers = || Some((found.parse::<i64>().ok()?, self.value.parse::<i64>().ok()?));
        match self.rule {
            Rule::Is(_) if found == self.value => Verdict::Good,
            Rule::Is(why) => why.map_or(Verdict::Differs, Verdict::Refused),
            Rule::AtLeast { least, why } => match numbers() {
                Some((found, wanted)) if at_least(found, wanted) => Verdict::Good,
                Some((found, _)) if at_least(found, least) => Verdict::Differs,
                _ => Verdict::Refused(why),
            },
            Rule::AtMost => match numbers() {
                Some((found, wanted)) if found <= wanted => Verdict::Good,
                _ => Verdict::Differs,
            },
        }
    }
}

fn at_least(found: i64, wanted: i64) -> bool {
    found == ENDLESS || (wanted != ENDLESS && found >= wanted)
}

pub(super) fn missing(plan: &Plan) -> Finding {
    let wanted = format!("{} partitions, {} replicas", plan.partitions, plan.replicas);
    finding(plan, "topic", None, wanted, Verdict::Refused("there is no such topic"), true)
}

pub(super) fn judge(plan: &Plan, found: &Found) -> Vec<Finding> {
    let count = |setting, found: usize, wanted: i32, good: bool, why| {
        let verdict = if good { Verdict::Good } else { Verdict::Refused(why) };
        finding(plan, setting, Some(found.to_string()), wanted.to_string(), verdict, false)
    };
    let (partitions, replicas) = (to_i64(found.partitions as u128), to_i64(found.replicas as u128));
    let mut findings = vec![
        count(
            "partitions",
            found.partitions,
            plan.partitions,
            partitions == i64::from(plan.partitions),
            "a key's events would go to another task: give log.partitions as it is, or the topic another name and make it new",
        ),
        count(
            "replicas",
            found.replicas,
            plan.replicas,
            replicas >= i64::from(plan.replicas),
            "what was acknowledged could be lost with one broker: kafka-reassign-partitions adds replicas",
        ),
    ];
    let Some(settings) = &found.settings else {
        let wanted = "the right DescribeConfigs".to_owned();
        findings.push(finding(plan, "settings", Some("not readable".to_owned()), wanted, Verdict::Unknown, false));
        return findings;
    };
    findings.extend(plan.settings().into_iter().map(|wanted| {
        let found = settings.get(wanted.name).cloned().unwrap_or_default();
        let verdict = wanted.judge(&found);
        finding(plan, wanted.name, Some(found), wanted.value, verdict, wanted.changeable)
    }));
    findings
}

fn finding(plan: &Plan, setting: &'static str, found: Option<String>, wanted: String, verdict: Verdict, changeable: bool) -> Finding {
    Finding { topic: plan.topic, name: plan.name.clone(), setting, found, wanted, verdict, changeable }
}

fn to_i64(value: u128) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            topic: Topic::Harvested,
            name: "site.harvested".to_owned(),
            partitions: 4,
            replicas: 3,
            min_insync_replicas: 2,
            retention: Duration::from_secs(7 * 86_400),
            retention_min: Duration::from_secs(86_400),
            bytes_max: None,
        }
    }

    /// As `plan` wants it, with one setting other.
    fn found(setting: &str, value: &str) -> Found {
        let mut settings: BTreeMap<String, String> =
            plan().settings().into_iter().map(|wanted| (wanted.name.to_owned(), wanted.value)).collect();
        settings.insert(setting.to_owned(), value.to_owned());
        Found { partitions: 4, replicas: 3, settings: Some(settings) }
    }

    fn verdict(plan: &Plan, setting: &'static str, value: &str) -> (Verdict, bool) {
        let findings = judge(plan, &found(setting, value));
        let of = findings.iter().find(|finding| finding.setting == setting).unwrap();
        let others = findings.iter().filter(|finding| finding.setting != setting);
        assert!(others.into_iter().all(|finding| finding.verdict == Verdict::Good), "{findings:?}");
        (of.verdict, of.changeable)
    }

    #[test]
    fn each_setting_is_judged_by_what_it_breaks() {
        let good = |setting, value| assert_eq!(verdict(&plan(), setting, value).0, Verdict::Good, "{setting} {value}");
        let differs = |setting, value| assert_eq!(verdict(&plan(), setting, value), (Verdict::Differs, true), "{setting} {value}");
        let refused = |setting, value, changeable| {
            let (verdict, may_change) = verdict(&plan(), setting, value);
            assert!(matches!(verdict, Verdict::Refused(_)), "{setting} {value}");
            assert_eq!(may_change, changeable, "{setting}");
        };
        for policy in ["compact", "compact,delete", ""] {
            refused("cleanup.policy", policy, false);
        }
        refused("message.timestamp.type", "CreateTime", true);
        refused("unclean.leader.election.enable", "true", true);
        differs("compression.type", "zstd");
        refused("max.message.bytes", "1048588", true);
        good("max.message.bytes", "16777216");
        refused("min.insync.replicas", "1", true);
        good("min.insync.replicas", "3");
        good("retention.ms", "-1");
        good("retention.ms", "604800001");
        differs("retention.ms", "604799999");
        differs("retention.ms", "86400000");
        refused("retention.ms", "86399999", true);
        refused("retention.bytes", "1000000", true);
        differs("segment.ms", "604800000");
        good("segment.ms", "3600000");
    }

    #[test]
    fn a_bound_on_bytes_is_over_all_partitions_and_longer_is_good() {
        let bounded = Plan { bytes_max: Some(10), ..plan() };
        let bytes = |value| verdict(&bounded, "retention.bytes", value).0;
        assert_eq!((bytes("3"), bytes("-1"), bytes("4")), (Verdict::Good, Verdict::Good, Verdict::Good));
        assert!(matches!(bytes("2"), Verdict::Refused(_)));
    }

    #[test]
    fn a_retention_below_the_least_is_raised_to_it_and_of_deltas_all_is_needed() {
        let options = |seconds| {
            let text = format!(
                "kind = \"kafka\"\nbrokers = [\"a:1\"]\ntopics.delta.retention = \"{seconds}s\"\ntopics.harvested.retention = \"{seconds}s\""
            );
            toml::from_str::<crate::config::LogConfig>(&text).unwrap().kafka().unwrap()
        };
        let kept = |topic, seconds| {
            let plan = Plan::new(&options(seconds), topic);
            (plan.retention.as_secs(), plan.retention_min.as_secs())
        };
        let day = 86_400;
        assert_eq!(kept(Topic::Harvested, 1), (day, day));
        assert_eq!(kept(Topic::Harvested, 9 * day), (9 * day, day));
        assert_eq!(kept(Topic::Delta, 1), (2 * day, 2 * day));
        assert_eq!(kept(Topic::Delta, 9 * day), (9 * day, 9 * day));
    }

    #[test]
    fn partitions_and_replicas_are_never_changed() {
        let judged = |partitions, replicas| {
            let findings = judge(&plan(), &Found { partitions, replicas, ..found("segment.ms", "1") });
            assert!(findings.iter().take(2).all(|finding| !finding.changeable));
            findings.iter().filter(|finding| finding.verdict != Verdict::Good).map(|finding| finding.setting).collect::<Vec<_>>()
        };
        assert_eq!(judged(4, 3), Vec::<&str>::new());
        assert_eq!(judged(4, 4), Vec::<&str>::new());
        assert_eq!(judged(5, 3), ["partitions"]);
        assert_eq!(judged(3, 2), ["partitions", "replicas"]);
    }

    #[test]
    fn what_may_not_be_read_is_unknown_and_not_good() {
        let findings = judge(&plan(), &Found { settings: None, ..found("segment.ms", "1") });
        let verdicts: Vec<Verdict> = findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts, [Verdict::Good, Verdict::Good, Verdict::Unknown]);
    }
}
