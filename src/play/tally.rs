//! What happened: counts, latencies, and the files that say which events and bodies went out.

use super::template::Built;
use super::wire::Answer;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Latencies are recorded up to this many microseconds.
const LATENCY_US_MAX: u64 = 600_000_000;

/// The end of a run, as `--json` prints it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Recorded requests played, each counted once.
    pub requests: u64,
    /// Events in them.
    pub events: u64,
    /// Final answers by status.
    pub answers: BTreeMap<u16, u64>,
    /// Requests that ended without an answer.
    pub unanswered: u64,
    /// Requests that were cut on purpose and not sent again.
    pub cut: u64,
    /// Further attempts.
    pub retries: u64,
    pub latency_ms: Latency,
    pub requests_per_second: f64,
    pub seconds: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Latency {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

pub struct Tally {
    started: Instant,
    requests: u64,
    events: u64,
    answers: BTreeMap<u16, u64>,
    unanswered: u64,
    cut: u64,
    pub retries: u64,
    latency_us: Histogram<u64>,
    acked: Option<std::io::BufWriter<std::fs::File>>,
    sent: Option<PathBuf>,
    unanswered_bodies: u64,
    /// The last cause of a missing answer, for the person who waits.
    pub trouble: Option<String>,
}

impl Tally {
    pub fn new(acked: Option<&Path>, sent: Option<&Path>) -> Result<Tally> {
        let create = |path: &Path| std::fs::File::create(path).with_context(|| format!("{}: cannot be written", path.display()));
        if let Some(folder) = sent {
            std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
        }
        Ok(Tally {
            started: Instant::now(),
            requests: 0,
            events: 0,
            answers: BTreeMap::new(),
            unanswered: 0,
            cut: 0,
            retries: 0,
            latency_us: Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("bounds of a histogram"),
            acked: acked.map(create).transpose()?.map(std::io::BufWriter::new),
            sent: sent.map(Path::to_owned),
            unanswered_bodies: 0,
            trouble: None,
        })
    }

    pub fn request(&mut self, events: usize) {
        self.requests += 1;
        self.events += events as u64;
    }

    /// One attempt was answered.
    pub fn answered(&mut self, built: &Built, native: bool, answer: &Answer, took: Duration) -> Result<()> {
        self.latency_us.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if let (Some(folder), Some(id)) = (&self.sent, &answer.request_id) {
            write_body(&folder.join(file_name(id)), &built.body)?;
        }
        if let Some(acked) = self.acked.as_mut().filter(|_| (200..300).contains(&answer.status)) {
            for id in native.then(|| ids_of(&answer.body)).flatten().as_ref().unwrap_or(&built.ids) {
                writeln!(acked, "{id}").context("the file of acknowledged ids")?;
            }
        }
        Ok(())
    }

    /// One attempt was sent and not answered.
    pub fn not_answered(&mut self, built: &Built) -> Result<()> {
        if let Some(folder) = &self.sent {
            write_body(&folder.join(format!("unanswered-{}", self.unanswered_bodies)), &built.body)?;
            self.unanswered_bodies += 1;
        }
        Ok(())
    }

    /// A request is done with.
    pub fn ended(&mut self, status: Option<u16>) {
        match status {
            Some(status) => *self.answers.entry(status).or_default() += 1,
            None => self.unanswered += 1,
        }
    }
    pub fn ended_cut(&mut self) {
        self.cut += 1;
    }

    pub fn finish(mut self) -> Result<Summary> {
        if let Some(acked) = &mut self.acked {
            acked.flush().context("the file of acknowledged ids")?;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let ms = |us: u64| us as f64 / 1_000.0;
        Ok(Summary {
            requests: self.requests,
            events: self.events,
            answers: self.answers,
            unanswered: self.unanswered,
            cut: self.cut,
            retries: self.retries,
            latency_ms: Latency {
                p50: ms(self.latency_us.value_at_quantile(0.5)),
                p99: ms(self.latency_us.value_at_quantile(0.99)),
                max: ms(self.latency_us.max()),
            },
            requests_per_second: if seconds > 0.0 { self.requests as f64 / seconds } else { 0.0 },
            seconds,
        })
    }
}

fn write_body(path: &Path, body: &[u8]) -> Result<()> {
    std::fs::write(path, body).with_context(|| format!("{}: cannot be written", path.display()))
}

/// A server's id is not trusted to be a file name.
fn file_name(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Ids that the native API's answer names, of the events that it accepted.
fn ids_of(answer: &[u8]) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Native {
        events: Vec<Event>,
    }
    #[derive(serde::Deserialize)]
    struct Event {
        event_id: Option<String>,
        #[serde(default)]
        status: String,
    }
    let native: Native = serde_json::from_slice(answer).ok()?;
    Some(native.events.into_iter().filter(|e| e.status == "accepted").filter_map(|e| e.event_id).collect())
}

impl Summary {
    /// Requests whose last answer was no 2xx.
    pub fn refused(&self) -> u64 {
        self.answers.iter().filter(|(status, _)| !(200..300).contains(*status)).map(|(_, n)| n).sum()
    }
}
