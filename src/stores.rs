//! The log and the object store that the configuration names, opened for whoever stands on them.
//!
//! Owns: which form is opened, to run on or to read. Does not own: the forms (`forebay_stores`).
//! Invariant: to read is to change nothing, also in a folder that no process holds.

use crate::config::Config;
use crate::failure::{Failure, Next};
use anyhow::{Context, anyhow};
use forebay_sinks::table::place::Warehouse;
use forebay_stores::config::{LogKind, ObjectsKind};
use forebay_stores::log::Log;
use forebay_stores::log::embedded::EmbeddedLog;
use forebay_stores::log::kafka::KafkaLog;
use forebay_stores::objects::Objects;
use forebay_stores::objects::folder::Folder;
use forebay_stores::objects::s3::{S3, S3Options};
use std::sync::Arc;

#[derive(Clone)]
pub struct Stores {
    pub log: Arc<dyn Log>,
    pub objects: Arc<dyn Objects>,
    /// What the table's files lie in.
    pub warehouse: Arc<dyn Objects>,
    /// The log again, where it is this process's own and so in need of housekeeping.
    pub embedded: Option<Arc<EmbeddedLog>>,
}

/// To run on: an embedded log is made where there is none. Of Kafka and S3 nobody is asked yet.
pub fn open(config: &Config) -> Result<Stores, Failure> {
    match config.log.kind {
        LogKind::Kafka => kafka(config),
        LogKind::Embedded => {
            let dir = config.log_dir();
            let log = EmbeddedLog::open(&dir, config.embedded_options())
                .with_context(|| format!("the log in {} cannot be opened", dir.display()));
            let kept = "a log that another version wrote, or that is damaged, is kept as it is: give a new folder by --data";
            embedded(config, log.or_next(|| kept.to_owned())?)
        }
    }
}

/// To read, beside whoever writes; an embedded log only when nobody does.
pub fn open_to_read(config: &Config) -> Result<Stores, Failure> {
    match config.log.kind {
        LogKind::Kafka => kafka(config),
        LogKind::Embedded => {
            let missing =
                || format!("`forebay dev --data {}` makes one; or name another by --data, --config or --admin", config.data.display());
            let dir = config.log_dir();
            if !dir.is_dir() {
                return Err(Failure::failed(anyhow!("there is no system in {}", config.data.display())).next(missing()));
            }
            let log = EmbeddedLog::open_read_only(&dir).with_context(|| format!("the log in {} cannot be read", dir.display()));
            embedded(config, log.or_next(missing)?)
        }
    }
}

fn kafka(config: &Config) -> Result<Stores, Failure> {
    let options = config.kafka_options().map_err(|e| Failure::configuration(&e))?;
    let log = KafkaLog::connect(options).context("the log on Kafka cannot be set up")?;
    Ok(Stores { log: Arc::new(log), objects: objects(config)?, warehouse: warehouse(config)?, embedded: None })
}

fn embedded(config: &Config, log: EmbeddedLog) -> Result<Stores, Failure> {
    let log = Arc::new(log);
    Ok(Stores { log: log.clone(), objects: objects(config)?, warehouse: warehouse(config)?, embedded: Some(log) })
}

fn objects(config: &Config) -> Result<Arc<dyn Objects>, Failure> {
    match config.objects.kind {
        ObjectsKind::Folder => Ok(Arc::new(Folder::new(config.objects_dir()))),
        ObjectsKind::S3 => s3(config, |options| options),
    }
}

fn warehouse(config: &Config) -> Result<Arc<dyn Objects>, Failure> {
    match &config.table.warehouse {
        Warehouse::Folder(path) => Ok(Arc::new(Folder::new(path.clone()))),
        Warehouse::Bucket { bucket, prefix } => s3(config, |options| options.at(bucket, prefix)),
    }
}

fn s3(config: &Config, at: impl FnOnce(S3Options) -> S3Options) -> Result<Arc<dyn Objects>, Failure> {
    let options = config.s3_options().map_err(|e| Failure::configuration(&e))?;
    Ok(Arc::new(S3::new(at(options)).context("the object store on S3 cannot be set up")?))
}
