//! A line for each reject while a person watches: source, dialect, stage, reason, known path. Never a value or an unknown name.

use forebay_schemas::topic::Topic;
use forebay_schemas::wire::bad;
use forebay_stores::log::{Log, LogError, Reader, TopicPartition};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// More than a person reads; the rest is counted.
const LINES_PER_SECOND: u64 = 20;
const WAIT: Duration = Duration::from_millis(200);
const READ_BYTES: usize = 1 << 20;

pub struct RejectPrinter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RejectPrinter {
    pub fn start(log: Arc<dyn Log>) -> anyhow::Result<RejectPrinter> {
        let places: Vec<_> = (0..log.partitions(Topic::Bad)).map(|partition| TopicPartition { topic: Topic::Bad, partition }).collect();
        let readers = places.iter().map(|at| log.reader(*at, log.bounds(*at)?.end)).collect::<Result<Vec<_>, LogError>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || watch(&*log, &places, readers, &stopped);
        Ok(RejectPrinter { stop, thread: Some(std::thread::Builder::new().name("forebay-rejects".to_owned()).spawn(run)?) })
    }
}

impl Drop for RejectPrinter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(log: &dyn Log, places: &[TopicPartition], mut readers: Vec<Box<dyn Reader>>, stop: &AtomicBool) {
    let (mut printed, mut silent, mut second) = (0, 0, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let mut idle = true;
        for reader in &mut readers {
            let records = match reader.read(READ_BYTES, 1_000) {
                Ok(records) => records,
                Err(error) => {
                    tracing::warn!(%error, "rejects are no longer printed; `forebay bad ls` lists them");
                    return;
                }
            };
            for clear in records.iter().filter_map(|r| bad::decode(r.value.as_ref()?).ok()).map(|bad| bad.clear) {
                idle = false;
                if printed >= LINES_PER_SECOND {
                    silent += 1;
                    continue;
                }
                printed += 1;
                say(&line(&clear));
            }
        }
        if second.elapsed() >= Duration::from_secs(1) {
            if silent > 0 {
                say(&format!("rejected  {silent} more; `forebay bad ls` lists them"));
            }
            (printed, silent, second) = (0, 0, Instant::now());
        }
        if idle {
            let positions: Vec<_> = places.iter().zip(&readers).map(|(at, reader)| (*at, reader.position())).collect();
            log.wait_past(&positions, WAIT);
        }
    }
}

fn line(clear: &bad::Clear) -> String {
    let detail = if clear.detail.is_empty() { String::new() } else { format!(": {}", clear.detail) };
    format!("rejected  source {}, {}, at {}, {}{detail}", clear.source, clear.dialect.name(), clear.stage.name(), clear.reason.name())
}

/// Nobody may be listening any more; that stops nothing.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}
