//! The records of a topic, from somewhere on, as they come.

use super::query::{From, LogQuery};
use super::render;
use super::{Answer, Parts, Role};
use anyhow::{Context, Result, bail};
use forebay_schemas::topic::Topic;
use forebay_stores::log::{Log, Reader, Record, TopicPartition};
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
        readers.push((at, parts.log.reader(at, from)?));
    }
    let mut left = query.count.unwrap_or(u64::MAX);
    let mut shown_at = Instant::now();
    while left > 0 {
        let mut read = false;
        for (at, reader) in &mut readers {
            for record in reader.read(READ_BYTES, READ_RECORDS)? {
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
        let idle = query.until_idle.is_some_and(|s| shown_at.elapsed().as_secs_f64() >= s);
        if !read && (!parts.live || idle || !out.is_open()) {
            return Ok(());
        }
        if !read {
            let positions: Vec<_> = readers.iter().map(|(at, reader)| (*at, reader.position())).collect();
            parts.log.wait_past(&positions, WAIT);
        } else if idle {
            // Ticks alone came: they do not break idleness.
            return Ok(());
        }
    }
    Ok(())
}

fn chosen(log: &dyn Log, query: &LogQuery) -> Result<Vec<i32>> {
    let partitions = log.partitions(query.topic);
    match query.partition {
        None => Ok((0..partitions).collect()),
        Some(partition) if (0..partitions).contains(&partition) => Ok(vec![partition]),
        Some(partition) => bail!("{} has partitions 0 to {}, not {partition}", query.topic.word(), partitions - 1),
    }
}

/// Visits what a topic holds now, partition by partition.
pub fn each(log: &dyn Log, topic: Topic, visit: &mut dyn FnMut(i32, &Record) -> Result<ControlFlow<()>>) -> Result<()> {
    for partition in 0..log.partitions(topic) {
        let at = TopicPartition { topic, partition };
        let bounds = log.bounds(at)?;
        let mut reader: Box<dyn Reader> =
            log.reader(at, bounds.start).with_context(|| format!("{}, partition {partition}", topic.word()))?;
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
