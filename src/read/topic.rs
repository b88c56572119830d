//! The records of a topic, from somewhere on, as they come.

use super::query::{From, LogQuery};
use super::render;
use super::{Answer, Parts, Role};
use anyhow::{Context, Result, bail};
use forebay_enricher::seek;
use forebay_schemas::topic::Topic;
use forebay_stores::log::{Log, LogError, Reader, Record, TopicPartition};
use serde_json::Value;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

const READ_BYTES: usize = 512 << 10;
const READ_RECORDS: usize = 1_000;
/// Between two looks at whether anybody still listens.
const WAIT: Duration = Duration::from_millis(100);

pub fn follow(parts: &Parts, query: &LogQuery, role: Role, out: &mut dyn Answer) -> Result<()> {
    let topic = query.topic;
    let mut readers = Vec::new();
    for partition in chosen(&*parts.log, query)? {
        let at = TopicPartition { topic, partition };
        let bounds = parts.log.bounds(at)?;
        let from = match query.from {
            From::Earliest => bounds.start,
            From::Latest => bounds.end,
            From::Offset(offset) => offset.clamp(bounds.start, bounds.end),
        };
        // What was there when somebody asked is waited for, however long a broker takes to give it.
        readers.push(Following { at, reader: parts.log.reader(at, from)?, there: Some(bounds.end) });
    }
    let mut left = query.count.unwrap_or(u64::MAX);
    let mut shown_at = Instant::now();
    while left > 0 {
        let mut read = false;
        for following in &mut readers {
            let at = following.at;
            for record in following.next()? {
                read = true;
                if record.value.is_none() && !query.ticks {
                    continue;
                }
                shown_at = Instant::now();
                let line = Value::Object(render::record(topic, at.partition, &record, role)?).to_string();
                left -= 1;
                if out.line(line).is_break() || left == 0 {
                    return Ok(());
                }
            }
        }
        if readers.iter().any(|following| following.there.is_some()) && out.is_open() {
            shown_at = Instant::now();
            continue;
        }
        let idle = query.until_idle.is_some_and(|s| shown_at.elapsed().as_secs_f64() >= s);
        if !read && (!parts.live || idle || !out.is_open()) {
            return Ok(());
        }
        if !read {
            let positions: Vec<_> = readers.iter().map(|f| (f.at, f.reader.position())).collect();
            parts.log.wait_past(&positions, WAIT);
        } else if idle {
            // Ticks alone came: they do not break idleness.
            return Ok(());
        }
    }
    Ok(())
}

struct Following {
    at: TopicPartition,
    reader: Box<dyn Reader>,
    /// The end as it was at the beginning, until it is reached; idleness begins then.
    there: Option<i64>,
}

impl Following {
    fn next(&mut self) -> Result<Vec<Record>, LogError> {
        let Some(end) = self.there else { return self.reader.read(READ_BYTES, READ_RECORDS) };
        let records = self.reader.read_to(end, READ_BYTES, READ_RECORDS)?;
        if records.is_empty() {
            self.there = None;
        }
        Ok(records)
    }
}

fn chosen(log: &dyn Log, query: &LogQuery) -> Result<Vec<i32>> {
    let partitions = log.partitions(query.topic);
    match query.partition {
        None => Ok((0..partitions).collect()),
        Some(partition) if (0..partitions).contains(&partition) => Ok(vec![partition]),
        Some(partition) => bail!("{} has partitions 0 to {}, not {partition}", query.topic.word(), partitions - 1),
    }
}

/// Visits what a topic holds now, partition by partition; with `newest`, from so long before each partition's last record on.
pub fn each(
    log: &dyn Log,
    topic: Topic,
    newest: Option<Duration>,
    visit: &mut dyn FnMut(i32, &Record) -> Result<ControlFlow<()>>,
) -> Result<()> {
    for partition in 0..log.partitions(topic) {
        let at = TopicPartition { topic, partition };
        let bounds = log.bounds(at)?;
        let begin = newest.map_or(Ok(bounds.start), |span| begin_of_newest(log, at, span))?;
        let mut reader: Box<dyn Reader> = log.reader(at, begin).with_context(|| format!("{}, partition {partition}", topic.word()))?;
        loop {
            let records = reader.read_to(bounds.end, READ_BYTES, READ_RECORDS)?;
            if records.is_empty() {
                break;
            }
            for record in &records {
                if visit(partition, record)?.is_break() {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

fn begin_of_newest(log: &dyn Log, at: TopicPartition, span: Duration) -> Result<i64, LogError> {
    let Some(last) = seek::last(log, at)? else { return Ok(log.bounds(at)?.start) };
    let from = last.timestamp.saturating_add_micros(-i64::try_from(span.as_micros()).unwrap_or(i64::MAX));
    seek::first_past(log, at, |record| Ok(record.timestamp >= from))
}
