//! State in RocksDB: one database a task, one column family, no write-ahead log.
//!
//! Owns: the options, and what all tasks share (cache, write buffers, threads). Does not own: when to flush (`commit`).
//! Invariants: with one column family and no log, what a crash leaves is a prefix of the batches written, so the position
//! in it is the position of the rest (E5, recovery.md H33).

use super::{Backend, Each, Meta, StateError, key};
use crate::format::Format;
use forebay_schemas::limit;
use forebay_schemas::wire::delta::Op;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, Error, ErrorKind, LogLevel, Options, ReadOptions, WriteBatch, WriteBufferManager,
    WriteOptions,
};
use std::path::Path;

/// The one column family.
const FAMILY: &str = "default";
const BLOOM_BITS_PER_KEY: f64 = 10.0;

/// What the tasks of a process share.
pub struct Shared {
    cache: Cache,
    buffers: WriteBufferManager,
    buffer_bytes: usize,
    format: Format,
}

impl Shared {
    pub fn new(tasks: usize, format: Format) -> Shared {
        // Half of a task's share: one buffer fills while the other is being written out.
        let buffer_bytes = (limit::STATE_BUFFER_BYTES / tasks.max(1) / 2).clamp(1 << 20, 8 << 20);
        Shared {
            cache: Cache::new_lru_cache(limit::STATE_CACHE_BYTES),
            buffers: WriteBufferManager::new_write_buffer_manager(limit::STATE_BUFFER_BYTES, false),
            buffer_bytes,
            format,
        }
    }

    pub fn open(&self, folder: &Path) -> Result<Rocks, StateError> {
        std::fs::create_dir_all(folder).map_err(|error| StateError::Io(error.to_string()))?;
        let db = DB::open_cf_with_opts(&self.options(), folder, [(FAMILY, self.options())]).map_err(|error| {
            // Both of RocksDB's texts, of a lock in this process and in another one, end with the lock's name and a cause.
            if error.as_ref().contains("LOCK: ") { StateError::Held(folder.display().to_string()) } else { state_error(error) }
        })?;
        let store = Rocks { db, format: self.format };
        store.meta()?;
        Ok(store)
    }

    fn options(&self) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_bloom_filter(BLOOM_BITS_PER_KEY, false);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        table.set_optimize_filters_for_memory(true);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_paranoid_checks(true);
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_manager(&self.buffers);
        options.set_write_buffer_size(self.buffer_bytes);
        options.set_max_write_buffer_number(3);
        // Most dedup probes miss: without this each one walks the memtable's skip list.
        options.set_memtable_prefix_bloom_ratio(0.05);
        options.set_memtable_whole_key_filtering(true);
        // Keys are hashes and values are fingerprints: nothing to compress.
        options.set_compression_type(DBCompressionType::None);
        options.set_level_compaction_dynamic_level_bytes(true);
        options.set_max_background_jobs(2);
        options.set_max_open_files(256);
        options.set_keep_log_file_num(2);
        options.set_log_level(LogLevel::Warn);
        options.set_stats_dump_period_sec(0);
        options
    }
}

pub struct Rocks {
    db: DB,
    format: Format,
}

impl Rocks {
    fn write(&self, batch: WriteBatch) -> Result<(), StateError> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(batch, &options).map_err(state_error)
    }
}

impl Backend for Rocks {
    fn meta(&self) -> Result<Option<Meta>, StateError> {
        self.db.get(key::meta_key()).map_err(state_error)?.map(|value| Meta::decode(&value, self.format)).transpose()
    }
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StateError> {
        self.db.get(key).map_err(state_error)
    }
    fn get_many(&self, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), StateError> {
        let family = self.db.cf_handle(FAMILY).expect("opened with this column family");
        for (place, value) in self.db.batched_multi_get_cf(family, keys.iter().copied(), true).into_iter().enumerate() {
            if let Some(value) = value.map_err(state_error)? {
                found(place, &value);
            }
        }
        Ok(())
    }
    fn scan(&self, from: &[u8], to: &[u8], each: &mut Each<'_>) -> Result<(), StateError> {
        let mut options = ReadOptions::default();
        options.set_iterate_range(from..to);
        let mut iterator = self.db.raw_iterator_opt(options);
        iterator.seek(from);
        while let Some((key, value)) = iterator.item() {
            if each(key, value).is_break() {
                return Ok(());
            }
            iterator.next();
        }
        iterator.status().map_err(state_error)
    }
    fn apply(&self, ops: &[Op], meta: &Meta) -> Result<(), StateError> {
        let mut batch = WriteBatch::default();
        for op in ops {
            match &op.value {
                Some(value) => batch.put(&op.key, value),
                None => batch.delete(&op.key),
            }
        }
        batch.put(key::meta_key(), meta.encode(self.format));
        self.write(batch)
    }
    fn reclaim(&self, ranges: &[(Vec<u8>, Vec<u8>)]) -> Result<(), StateError> {
        let mut batch = WriteBatch::default();
        for (from, to) in ranges {
            batch.delete_range(from, to);
        }
        self.write(batch)
    }
    fn flush(&self) -> Result<(), StateError> {
        self.db.flush().map_err(state_error)
    }
    fn bytes(&self) -> u64 {
        let read = |name: &str| self.db.property_int_value(name).ok().flatten().unwrap_or(0);
        read("rocksdb.live-sst-files-size") + read("rocksdb.cur-size-all-mem-tables")
    }
}

/// A missing file is corruption too: someone took it away, and waiting does not bring it back.
fn state_error(error: Error) -> StateError {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::Corruption => StateError::Corrupt(text),
        _ if text.contains("No such file or directory") => StateError::Corrupt(text),
        _ => StateError::Io(text),
    }
}
