//! How RocksDB is set up for a log: keys only grow, each record is read a few times soon after it was written, and
//! goes when everything below it goes.
//!
//! Owns: every RocksDB setting of the log; `examples/log_bench.rs` measures them. Levelled and without blob files: files
//! never overlap, so compaction moves them down without reading them, and there is nothing that blobs could save
//! (docs/decisions/0002-log-without-blob-files.md).

use super::EmbeddedOptions;
use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, InfoLogger, LogLevel, Options, WriteOptions};

/// A memtable of one column family; the budget of all together may be spent before.
const MEMTABLE_BYTES: usize = 8 << 20;
/// Memory that a column family takes before its first record: with 18 of them, RocksDB's 1 MiB would be a lot.
const ARENA_BYTES: usize = 256 << 10;
/// What a restart may have to read again.
const WAL_BYTES_MAX: u64 = 128 << 20;
const OPEN_FILES_MAX: i32 = 512;
/// Read in order: large blocks compress better and cost no more.
const BLOCK_BYTES: usize = 32 << 10;
const TABLE_BYTES: u64 = 64 << 20;
/// So that file writes reach the disk evenly and a WAL sync does not wait for a flush.
const BYTES_PER_SYNC: u64 = 1 << 20;

pub(super) fn db(options: &EmbeddedOptions) -> Options {
    let mut db = Options::default();
    db.create_if_missing(true);
    db.create_missing_column_families(true);
    db.set_db_write_buffer_size(options.memtable_bytes);
    db.set_max_total_wal_size(WAL_BYTES_MAX);
    db.set_max_open_files(OPEN_FILES_MAX);
    db.set_max_background_jobs(2);
    db.set_bytes_per_sync(BYTES_PER_SYNC);
    db.set_skip_stats_update_on_db_open(true);
    db.set_stats_dump_period_sec(0);
    db.set_stats_persist_period_sec(0);
    // Its own log file would also be made in a folder that is only read.
    db.set_info_logger(InfoLogger::new_callback_logger(LogLevel::Warn, |level, text| match level {
        LogLevel::Debug | LogLevel::Info | LogLevel::Header => {}
        LogLevel::Warn => tracing::debug!(text, "rocksdb"),
        LogLevel::Error | LogLevel::Fatal => tracing::warn!(text, "rocksdb"),
    }));
    db
}

/// Options of the column families of one log, which share its block cache.
pub(super) struct Families {
    table: BlockBasedOptions,
}

impl Families {
    pub fn new(options: &EmbeddedOptions) -> Families {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(options.cache_bytes));
        table.set_block_size(BLOCK_BYTES);
        Families { table }
    }

    pub fn options(&self) -> Options {
        let mut family = Options::default();
        family.set_write_buffer_size(MEMTABLE_BYTES);
        family.set_arena_block_size(ARENA_BYTES);
        family.set_block_based_table_factory(&self.table);
        family.set_target_file_size_base(TABLE_BYTES);
        family.set_compression_type(DBCompressionType::Lz4);
        family
    }
}

pub(super) fn synced() -> WriteOptions {
    let mut write = WriteOptions::default();
    write.set_sync(true);
    write
}
