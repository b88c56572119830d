//! Rows as Arrow columns, in the shape of the table's current schema.
//!
//! Owns: what rows of any table are to the other modules; putting filled columns in the table's order. Does not own:
//! which field fills which column (`shape`), how many rows are held (`batch`). Invariant: a column that the table has
//! and a row has not is null; none is dropped, since `columns` adds what is missing.

use super::error::SinkError;
use super::redelivery::Mark;
use super::shape::Shape;
use arrow_array::builder::{NullBufferBuilder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch, StructArray, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Fields, SchemaRef};
use forebay_schemas::time::Micros;
use forebay_schemas::wire::avro::DecodeError;
use forebay_stores::log::Record;
use std::borrow::Cow;
use std::sync::Arc;

/// As Iceberg names UTC in Arrow.
const UTC: &str = "+00:00";

/// Rows of one table on their way into a file.
pub(super) trait Rows: Default {
    const SHAPE: &'static Shape;
    type Row<'a>: Row;

    fn read(partition: i32, record: &Record) -> Result<Self::Row<'_>, DecodeError>;
    fn push(&mut self, row: &Self::Row<'_>);
    fn len(&self) -> usize;
    /// The rows as a batch of `schema` (the table's, in Arrow); none are left.
    fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, SinkError>;
}

pub(super) trait Row {
    /// Of whose day's partition it is.
    fn instant(&self) -> Micros;
    /// What `Offsets::seen` speaks of.
    fn seen(&self) -> i64;
    fn mark(&self) -> Mark;
}

/// A record of texts.
pub(super) struct Texts<const N: usize> {
    nulls: NullBufferBuilder,
    texts: [StringBuilder; N],
}

impl<const N: usize> Default for Texts<N> {
    fn default() -> Self {
        Texts { nulls: NullBufferBuilder::new(0), texts: std::array::from_fn(|_| StringBuilder::new()) }
    }
}

impl<const N: usize> Texts<N> {
    pub(super) fn push(&mut self, values: Option<[&Option<Cow<'_, str>>; N]>) {
        self.nulls.append(values.is_some());
        for (i, text) in self.texts.iter_mut().enumerate() {
            text.append_option(values.and_then(|values| values[i].as_deref()));
        }
    }
    pub(super) fn finish(&mut self, names: [&'static str; N]) -> Columns {
        let arrays = names.into_iter().zip(self.texts.iter_mut().map(text)).map(|(name, array)| (name, Column::Array(array)));
        Columns { columns: arrays.collect(), nulls: self.nulls.finish() }
    }
}

/// Filled columns by name, to be put in the table's order.
#[derive(Default)]
pub(super) struct Columns {
    columns: Vec<(&'static str, Column)>,
    nulls: Option<NullBuffer>,
}
enum Column {
    Array(ArrayRef),
    Record(Columns),
}

impl Columns {
    pub(super) fn with<const N: usize>(mut self, arrays: [(&'static str, ArrayRef); N]) -> Columns {
        self.columns.extend(arrays.map(|(name, array)| (name, Column::Array(array))));
        self
    }
    pub(super) fn with_records<const N: usize>(mut self, records: [(&'static str, Columns); N]) -> Columns {
        self.columns.extend(records.map(|(name, record)| (name, Column::Record(record))));
        self
    }
    /// A batch of `schema` (the table's, in Arrow).
    pub(super) fn batch(self, schema: &SchemaRef, rows: usize) -> Result<RecordBatch, SinkError> {
        Ok(RecordBatch::try_new(schema.clone(), self.fit(schema.fields(), rows)?)?)
    }
    fn fit(mut self, fields: &Fields, rows: usize) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut arrays = Vec::with_capacity(fields.len());
        for field in fields {
            let place = self.columns.iter().position(|(name, _)| name == field.name());
            arrays.push(match (place.map(|place| self.columns.swap_remove(place).1), field.data_type()) {
                (Some(Column::Record(mut record)), DataType::Struct(fields)) => {
                    let nulls = record.nulls.take();
                    Arc::new(StructArray::try_new(fields.clone(), record.fit(fields, rows)?, nulls)?)
                }
                (Some(Column::Array(array)), _) => array,
                (Some(Column::Record(_)) | None, kind) => new_null_array(kind, rows),
            });
        }
        Ok(arrays)
    }
}

pub(super) fn text(builder: &mut StringBuilder) -> ArrayRef {
    Arc::new(builder.finish())
}
pub(super) fn instant(builder: &mut TimestampMicrosecondBuilder) -> ArrayRef {
    Arc::new(builder.finish().with_timezone(UTC))
}
