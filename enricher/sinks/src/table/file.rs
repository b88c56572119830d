//! A Parquet file of one day, zstd; and what Iceberg wants to know of it.
//!
//! Owns: encoding, the file's name and place, its metrics. Does not own: which rows (`batch`, `compact`), naming it in
//! the table (`commit`). Invariants: bounds are given for short columns alone, exact; a file that is not `close`d was
//! never there; a closed file is durable.

use super::error::SinkError;
use super::ranged::Ranged;
use super::shape::Shape;
use super::stored::Stored;
use super::warehouse::Warehouse;
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, new_null_array};
use arrow_schema::{ArrowError, DataType, Fields, SchemaRef};
use forebay_schemas::{limit, time::Micros};
use iceberg::arrow::schema_to_arrow_schema;
use iceberg::spec::{DataContentType, DataFile, DataFileBuilder, DataFileFormat, Datum, Literal, PrimitiveType, Schema, Struct};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

const READ_ROWS: usize = 4_096;

/// What all files of a table's current schema share.
#[derive(Clone)]
pub(super) struct Format {
    location: String,
    day: &'static str,
    spec_id: i32,
    pub arrow: SchemaRef,
    schema: Arc<Schema>,
    properties: WriterProperties,
}

impl Format {
    pub(super) fn of(table: &Stored, shape: &Shape) -> Result<Format, SinkError> {
        let schema = table.metadata.current_schema();
        let mut properties = WriterProperties::builder()
            .set_created_by(concat!("forebay ", env!("CARGO_PKG_VERSION")).into())
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_max_row_group_bytes(Some(limit::SINK_ROW_GROUP_BYTES))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_statistics_truncate_length(None);
        for column in shape.bounded {
            properties = properties.set_column_statistics_enabled(path_in_file(column), EnabledStatistics::Chunk);
        }
        for column in shape.unique {
            properties = properties.set_column_dictionary_enabled(path_in_file(column), false);
        }
        Ok(Format {
            location: table.metadata.location().to_owned(),
            day: shape.day,
            spec_id: table.metadata.default_partition_spec_id(),
            arrow: Arc::new(schema_to_arrow_schema(schema)?),
            schema: schema.clone(),
            properties: properties.build(),
        })
    }
}

fn path_in_file(column: &str) -> ColumnPath {
    ColumnPath::new(column.split('.').map(str::to_owned).collect())
}

/// Days since the Unix epoch, as Iceberg's `day` counts them.
pub(super) fn day_of(instant: Micros) -> i32 {
    let day = instant.0.div_euclid(86_400_000_000);
    i32::try_from(day).expect("an i64 of microseconds has fewer than 2^31 days")
}

pub(super) struct FileWriter {
    format: Arc<Format>,
    day: i32,
    location: String,
    /// Encodes into memory: a commit's files are bounded by what is read for it, and an object is put whole.
    writer: ArrowWriter<Vec<u8>>,
}

impl FileWriter {
    pub(super) fn create(format: &Arc<Format>, day: i32) -> Result<FileWriter, SinkError> {
        let date = Micros(i64::from(day) * 86_400_000_000).datetime().format("%Y-%m-%d");
        let location = format!("{}/data/{}={date}/{}.parquet", format.location, format.day, Uuid::now_v7());
        let writer = ArrowWriter::try_new(Vec::new(), format.arrow.clone(), Some(format.properties.clone()))?;
        Ok(FileWriter { format: format.clone(), day, location, writer })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), SinkError> {
        Ok(self.writer.write(batch)?)
    }

    pub(super) fn close(mut self, warehouse: &Warehouse) -> Result<DataFile, SinkError> {
        let metadata = self.writer.finish()?;
        let bytes = self.writer.inner();
        warehouse.put(&self.location, bytes)?;
        let length = bytes.len() as u64;
        Ok(self.describe(&metadata, length))
    }

    fn describe(&self, metadata: &ParquetMetaData, bytes: u64) -> DataFile {
        let mut metrics = Metrics::default();
        for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
            metrics.add(chunk, &self.format.schema);
        }
        let file = DataFileBuilder::default()
            .content(DataContentType::Data)
            .file_path(self.location.clone())
            .file_format(DataFileFormat::Parquet)
            .partition(Struct::from_iter([Some(Literal::date(self.day))]))
            .partition_spec_id(self.format.spec_id)
            .record_count(u64::try_from(metadata.file_metadata().num_rows()).expect("a count"))
            .file_size_in_bytes(bytes)
            .column_sizes(metrics.sizes)
            .value_counts(metrics.values)
            .null_value_counts(metrics.nulls)
            .lower_bounds(metrics.lower)
            .upper_bounds(metrics.upper)
            .split_offsets(Some(metadata.row_groups().iter().filter_map(|group| group.file_offset()).collect()))
            .build();
        file.expect("every field without a default is set")
    }
}

/// Column metrics of a file by field id.
#[derive(Default)]
struct Metrics {
    sizes: HashMap<i32, u64>,
    values: HashMap<i32, u64>,
    nulls: HashMap<i32, u64>,
    lower: HashMap<i32, Datum>,
    upper: HashMap<i32, Datum>,
}

impl Metrics {
    fn add(&mut self, chunk: &ColumnChunkMetaData, schema: &Schema) {
        let info = chunk.column_descr().self_type().get_basic_info();
        let Some(field) = info.has_id().then(|| schema.field_by_id(info.id())).flatten() else { return };
        *self.sizes.entry(field.id).or_default() += u64::try_from(chunk.compressed_size()).unwrap_or(0);
        *self.values.entry(field.id).or_default() += u64::try_from(chunk.num_values()).unwrap_or(0);
        let Some(statistics) = chunk.statistics() else { return };
        if let Some(nulls) = statistics.null_count_opt() {
            *self.nulls.entry(field.id).or_default() += nulls;
        }
        let Some((low, high)) = field.field_type.as_primitive_type().and_then(|kind| bounds(kind, statistics)) else { return };
        let lower = self.lower.entry(field.id).or_insert_with(|| low.clone());
        if low < *lower {
            *lower = low;
        }
        let upper = self.upper.entry(field.id).or_insert_with(|| high.clone());
        if high > *upper {
            *upper = high;
        }
    }
}

fn bounds(kind: &PrimitiveType, statistics: &Statistics) -> Option<(Datum, Datum)> {
    match (kind, statistics) {
        (PrimitiveType::Timestamptz, Statistics::Int64(s)) => {
            Some((Datum::timestamptz_micros(*s.min_opt()?), Datum::timestamptz_micros(*s.max_opt()?)))
        }
        (PrimitiveType::Long, Statistics::Int64(s)) => Some((Datum::long(*s.min_opt()?), Datum::long(*s.max_opt()?))),
        (PrimitiveType::Int, Statistics::Int32(s)) => Some((Datum::int(*s.min_opt()?), Datum::int(*s.max_opt()?))),
        (PrimitiveType::String, Statistics::ByteArray(s)) => {
            Some((Datum::string(s.min_opt()?.as_utf8().ok()?), Datum::string(s.max_opt()?.as_utf8().ok()?)))
        }
        _ => None,
    }
}

/// A file of the table, read in parts.
pub(super) fn open(warehouse: &Warehouse, location: &str) -> Result<ParquetRecordBatchReaderBuilder<Ranged>, SinkError> {
    let (objects, name) = warehouse.object(location)?;
    let ranged = Ranged::open(objects, name).map_err(|source| SinkError::Objects { location: location.to_owned(), source })?;
    Ok(ParquetRecordBatchReaderBuilder::try_new(ranged)?.with_batch_size(READ_ROWS))
}

/// Reads a file of the table in the shape of `schema`, whatever schema it was written with.
pub(super) fn read(
    warehouse: &Warehouse,
    location: &str,
    schema: SchemaRef,
) -> Result<impl Iterator<Item = Result<RecordBatch, SinkError>> + use<>, SinkError> {
    let reader = open(warehouse, location)?.build()?;
    Ok(reader.map(move |batch| {
        let batch = batch?;
        let arrays = by_id(batch.schema().fields(), batch.columns(), schema.fields(), batch.num_rows())?;
        Ok(RecordBatch::try_new(schema.clone(), arrays)?)
    }))
}

/// Columns in another order and number, matched by field id; what is not there is null.
fn by_id(have: &Fields, arrays: &[ArrayRef], want: &Fields, rows: usize) -> Result<Vec<ArrayRef>, ArrowError> {
    let find = |id: Option<&String>| have.iter().position(|field| id.is_some() && field.metadata().get(PARQUET_FIELD_ID_META_KEY) == id);
    let fit = |field: &arrow_schema::FieldRef| {
        let Some(place) = find(field.metadata().get(PARQUET_FIELD_ID_META_KEY)) else {
            return Ok(new_null_array(field.data_type(), rows));
        };
        match (field.data_type(), arrays[place].as_any().downcast_ref::<StructArray>()) {
            (DataType::Struct(fields), Some(record)) => {
                let inner = by_id(record.fields(), record.columns(), fields, rows)?;
                Ok(Arc::new(StructArray::try_new(fields.clone(), inner, record.nulls().cloned())?) as ArrayRef)
            }
            _ => Ok(arrays[place].clone()),
        }
    };
    want.iter().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_the_epoch_and_before_it() {
        for (micros, day) in [(0, 0), (86_399_999_999, 0), (86_400_000_000, 1), (-1, -1), (-86_400_000_001, -2)] {
            assert_eq!(day_of(Micros(micros)), day);
        }
    }
}
