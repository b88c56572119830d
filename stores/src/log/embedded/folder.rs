//! The folder as RocksDB keeps it: which column families there are, what `meta` says of them, where each partition ends.
//!
//! Owns: making a new log, checking an old one, reading the ends. Does not own: appending (`shared`).
//! Invariant: a folder of another format, of other partitions or with a record missing at an end is refused, not mended.

use super::meta::{Begin, FORMAT, FORMAT_KEY, TopicMeta, begin_key, topic_key};
use super::{EmbeddedOptions, record, tuning};
use crate::durable;
use crate::log::{LogError, TopicPartition};
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use rocksdb::{ColumnFamily, ColumnFamilyDescriptor, DB, Options, ReadOptions, WriteBatch};
use std::collections::BTreeSet;
use std::path::Path;
use uuid::Uuid;

pub(super) const META: &str = "meta";

/// Where the next record of a partition goes, and what it must follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tail {
    pub end: i64,
    pub timestamp: Micros,
    pub position: u64,
}

/// An open folder. `topics` in the order of `Topic::ALL`; `None`: not in a folder that is only read.
pub(super) struct Folder {
    pub db: DB,
    pub topics: [Option<TopicMeta>; Topic::ALL.len()],
}

pub(super) fn io(error: rocksdb::Error) -> LogError {
    LogError::Io(error.into_string())
}

pub(super) fn damaged(what: impl std::fmt::Display) -> LogError {
    LogError::Io(format!("the log's folder is damaged: {what}"))
}

pub(super) fn family_name(at: TopicPartition) -> String {
    format!("{}-{}", at.topic.word(), at.partition)
}

/// # Errors
/// Only when the folder was opened without a family that `meta` names.
pub(super) fn family<'a>(db: &'a DB, name: &str) -> Result<&'a ColumnFamily, LogError> {
    db.cf_handle(name).ok_or_else(|| damaged(format_args!("no column family {name}")))
}

impl Folder {
    pub fn open(dir: &Path, options: &EmbeddedOptions) -> Result<Folder, LogError> {
        let db_options = tuning::db(options);
        let there = families_of(dir, &db_options)?;
        let mut wanted = BTreeSet::from([META.to_owned()]);
        for topic in Topic::ALL {
            wanted.extend((0..options.partitions).map(|partition| family_name(TopicPartition { topic, partition })));
        }
        // An old folder is opened as it is, families of a newer version among them, and checked before it is changed.
        let opened = if there.is_empty() { wanted.clone() } else { there.into_iter().collect() };
        let shared = tuning::Families::new(options);
        let families = opened.iter().map(|name| ColumnFamilyDescriptor::new(name, shared.options()));
        durable::make_dirs(dir, durable::Access::Owner).map_err(|e| LogError::Io(format!("{}: {e}", dir.display())))?;
        let mut db = DB::open_cf_descriptors(&db_options, dir, families).map_err(io)?;
        check_topics(&db, options.partitions)?;
        for name in wanted.difference(&opened) {
            db.create_cf(name, &shared.options()).map_err(io)?;
        }
        let topics = make_topics(&db, options.partitions)?.map(Some);
        Ok(Folder { db, topics })
    }

    pub fn open_read_only(dir: &Path, options: &EmbeddedOptions) -> Result<Folder, LogError> {
        let mut db_options = tuning::db(options);
        db_options.create_if_missing(false);
        db_options.create_missing_column_families(false);
        let there = families_of(dir, &db_options)?;
        if there.is_empty() {
            return Err(LogError::Io(format!("no log in {}", dir.display())));
        }
        let shared = tuning::Families::new(options);
        let families = there.into_iter().map(|name| ColumnFamilyDescriptor::new(name, shared.options()));
        let db = DB::open_cf_descriptors_read_only(&db_options, dir, families, false).map_err(io)?;
        check_format(&db)?;
        let mut topics = [None; Topic::ALL.len()];
        for (meta, topic) in topics.iter_mut().zip(Topic::ALL) {
            *meta = topic_meta(&db, topic)?;
        }
        Ok(Folder { db, topics })
    }

    /// Where each partition begins, and its tail.
    pub fn ends(&self, at: TopicPartition) -> Result<(i64, Tail), LogError> {
        let begin = match self.db.get_cf(family(&self.db, META)?, begin_key(at)).map_err(io)? {
            Some(stored) => Begin::decode(&stored).ok_or_else(|| damaged(format_args!("where {} begins", family_name(at))))?,
            None => Begin::NEW,
        };
        let mut tail = Tail { end: begin.end, timestamp: begin.timestamp, position: begin.position };
        let missing = || damaged(format_args!("a record of {} is missing", family_name(at)));
        let mut from_start = ReadOptions::default();
        from_start.set_iterate_lower_bound(record::offset_key(begin.start));
        let mut records = self.db.raw_iterator_cf_opt(family(&self.db, &family_name(at))?, from_start);
        records.seek_to_first();
        records.status().map_err(io)?;
        match records.key().map(record::key_offset) {
            None if begin.start == begin.end => return Ok((begin.start, tail)),
            Some(Some(first)) if first == begin.start => {}
            None | Some(_) => return Err(missing()),
        }
        records.seek_to_last();
        records.status().map_err(io)?;
        let last = records.key().and_then(record::key_offset).ok_or_else(missing)?;
        let stored = records.value().ok_or_else(missing)?;
        let whole = record::decode(last, bytes::Bytes::copy_from_slice(stored)).ok_or_else(missing)?;
        if last + 1 < begin.end {
            return Err(missing());
        }
        let stamp = record::stamp(stored).ok_or_else(missing)?;
        tail.end = last + 1;
        tail.timestamp = stamp.timestamp;
        tail.position = stamp.position + record::size(&whole.key, &whole.value, &whole.headers) as u64;
        Ok((begin.start, tail))
    }
}

/// The column families that are there; none when there is no log.
fn families_of(dir: &Path, options: &Options) -> Result<Vec<String>, LogError> {
    // `CURRENT` is the last file of a new database: without it nothing was ever acknowledged.
    if !dir.join("CURRENT").exists() {
        return Ok(Vec::new());
    }
    DB::list_cf(options, dir).map_err(io)
}

fn check_format(db: &DB) -> Result<(), LogError> {
    let stored = db.get_cf(family(db, META)?, FORMAT_KEY).map_err(io)?;
    match stored.as_deref().map(|stored| stored.try_into().map(u32::from_be_bytes)) {
        Some(Ok(FORMAT)) => Ok(()),
        Some(Ok(other)) => Err(LogError::Io(format!("the log's folder has format {other}, this version reads {FORMAT}"))),
        Some(Err(_)) => Err(damaged("its format version")),
        None => Err(damaged("it has no format version")),
    }
}

fn topic_meta(db: &DB, topic: Topic) -> Result<Option<TopicMeta>, LogError> {
    let stored = db.get_cf(family(db, META)?, topic_key(topic)).map_err(io)?;
    stored.map(|stored| TopicMeta::decode(&stored).ok_or_else(|| damaged(format_args!("topic {}", topic.word())))).transpose()
}

/// Refuses a folder of another format or of other partitions.
fn check_topics(db: &DB, partitions: i32) -> Result<(), LogError> {
    if !begun(db)? {
        return Ok(());
    }
    check_format(db)?;
    for topic in Topic::ALL {
        if let Some(has) = topic_meta(db, topic)?.map(|meta| meta.partitions).filter(|has| *has != partitions) {
            let word = topic.word();
            return Err(LogError::Io(format!(
                "topic {word} was made with {has} partitions and {partitions} are configured: keys would change their \
                 partition and leave their state behind; set log.partitions = {has}"
            )));
        }
    }
    Ok(())
}

/// Whether the folder was made to its end: `meta` is written last.
fn begun(db: &DB) -> Result<bool, LogError> {
    let Some(meta) = db.cf_handle(META) else { return Ok(false) };
    Ok(db.get_cf(meta, FORMAT_KEY).map_err(io)?.is_some())
}

/// Gives each topic that is not there yet its id: all of them in a new folder, a new version's in an old one.
fn make_topics(db: &DB, partitions: i32) -> Result<[TopicMeta; Topic::ALL.len()], LogError> {
    let meta = family(db, META)?;
    let mut batch = WriteBatch::default();
    if !begun(db)? {
        batch.put_cf(meta, FORMAT_KEY, FORMAT.to_be_bytes());
    }
    let mut topics = [TopicMeta { id: Uuid::nil(), partitions }; Topic::ALL.len()];
    for (made, topic) in topics.iter_mut().zip(Topic::ALL) {
        if let Some(there) = topic_meta(db, topic)? {
            *made = there;
            continue;
        }
        for partition in 0..partitions {
            check_empty(db, &family_name(TopicPartition { topic, partition }))?;
        }
        made.id = Uuid::new_v4();
        batch.put_cf(meta, topic_key(topic), made.encode());
    }
    if !batch.is_empty() {
        db.write_opt(batch, &tuning::synced()).map_err(io)?;
    }
    Ok(topics)
}

fn check_empty(db: &DB, name: &str) -> Result<(), LogError> {
    let mut records = db.raw_iterator_cf(family(db, name)?);
    records.seek_to_first();
    records.status().map_err(io)?;
    if records.valid() { Err(damaged(format_args!("{name} holds records of a topic without id"))) } else { Ok(()) }
}
