//! Trusted events as Arrow columns, in the shape of the table's current schema.
//!
//! Owns: which field of an event fills which column. Does not own: how many rows are held (`batch`). Invariant: a
//! column that the table has and an event has not is null; none is dropped, since `columns` adds what is missing.

use super::error::SinkError;
use arrow_array::builder::{Int32Builder, Int64Builder, NullBufferBuilder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch, StructArray, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Fields, SchemaRef};
use forebay_schemas::wire::trusted::{Campaign, Device, Geo, Page, Provenance, Trusted};
use std::borrow::Cow;
use std::sync::Arc;

/// As Iceberg names UTC in Arrow.
const UTC: &str = "+00:00";

#[derive(Default)]
pub(super) struct Rows {
    count: usize,
    event_id: StringBuilder,
    original_event_id: StringBuilder,
    event_type: StringBuilder,
    schema_version: StringBuilder,
    event_time: TimestampMicrosecondBuilder,
    time_origin: StringBuilder,
    received_at: TimestampMicrosecondBuilder,
    source: StringBuilder,
    user_id: StringBuilder,
    anonymous_id: StringBuilder,
    session_id: StringBuilder,
    seq: Int64Builder,
    session_index: Int64Builder,
    page: Texts<4>,
    device: Texts<6>,
    screen: [Int64Builder; 2],
    geo: Texts<3>,
    campaign: Texts<5>,
    properties: StringBuilder,
    entities: StringBuilder,
    request_id: StringBuilder,
    partition: Int32Builder,
    offset: Int64Builder,
    pipeline: StringBuilder,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn push(&mut self, event: &Trusted) {
        self.count += 1;
        self.event_id.append_value(event.event_id.as_str());
        self.original_event_id.append_option(event.original_event_id.as_deref());
        self.event_type.append_value(&event.event_type);
        self.schema_version.append_value(&event.schema_version);
        self.event_time.append_value(event.event_time.0);
        self.time_origin.append_value(event.time_origin.name());
        self.received_at.append_value(event.received_at.0);
        self.source.append_value(&event.source);
        self.user_id.append_option(event.user_id.as_deref());
        self.anonymous_id.append_option(event.anonymous_id.as_deref());
        self.session_id.append_option(event.session_id.as_deref());
        self.seq.append_option(event.seq);
        self.session_index.append_option(event.session_index);
        self.page.push(event.page.as_ref().map(|Page { url, path, title, referrer }| [url, path, title, referrer]));
        self.push_device(event.device.as_ref());
        self.geo.push(event.geo.as_ref().map(|Geo { country, region, city }| [country, region, city]));
        let campaign = event.campaign.as_ref();
        self.campaign.push(campaign.map(|Campaign { source, medium, name, term, content }| [source, medium, name, term, content]));
        self.properties.append_value(&event.properties);
        self.entities.append_value(&event.entities);
        let Provenance { request_id, partition, offset, pipeline } = &event.provenance;
        self.request_id.append_value(request_id.0.hyphenated().encode_lower(&mut [0; 36]));
        self.partition.append_value(*partition);
        self.offset.append_value(*offset);
        self.pipeline.append_value(pipeline);
    }

    fn push_device(&mut self, device: Option<&Device>) {
        let texts = device.map(|Device { kind, os, browser, locale, timezone, library, screen_width: _, screen_height: _ }| {
            [kind, os, browser, locale, timezone, library]
        });
        self.device.push(texts);
        self.screen[0].append_option(device.and_then(|device| device.screen_width));
        self.screen[1].append_option(device.and_then(|device| device.screen_height));
    }

    /// The rows as a batch of `schema` (the table's, in Arrow); none are left.
    pub(super) fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, SinkError> {
        let count = std::mem::take(&mut self.count);
        let [width, height] = &mut self.screen;
        let device = self
            .device
            .finish(["type", "os", "browser", "locale", "timezone", "library"])
            .with([("screen_width", Arc::new(width.finish()) as ArrayRef), ("screen_height", Arc::new(height.finish()))]);
        let provenance = Columns::default().with([
            ("request_id", text(&mut self.request_id)),
            ("partition", Arc::new(self.partition.finish())),
            ("offset", Arc::new(self.offset.finish())),
            ("pipeline", text(&mut self.pipeline)),
        ]);
        let all = Columns::default()
            .with([
                ("event_id", text(&mut self.event_id)),
                ("original_event_id", text(&mut self.original_event_id)),
                ("event_type", text(&mut self.event_type)),
                ("schema_version", text(&mut self.schema_version)),
                ("event_time", instant(&mut self.event_time)),
                ("time_origin", text(&mut self.time_origin)),
                ("received_at", instant(&mut self.received_at)),
                ("source", text(&mut self.source)),
                ("user_id", text(&mut self.user_id)),
                ("anonymous_id", text(&mut self.anonymous_id)),
                ("session_id", text(&mut self.session_id)),
                ("seq", Arc::new(self.seq.finish())),
                ("session_index", Arc::new(self.session_index.finish())),
                ("properties", text(&mut self.properties)),
                ("entities", text(&mut self.entities)),
            ])
            .with_records([
                ("page", self.page.finish(["url", "path", "title", "referrer"])),
                ("device", device),
                ("geo", self.geo.finish(["country", "region", "city"])),
                ("campaign", self.campaign.finish(["source", "medium", "name", "term", "content"])),
                ("provenance", provenance),
            ]);
        Ok(RecordBatch::try_new(schema.clone(), all.fit(schema.fields(), count)?)?)
    }
}

/// A record of texts.
struct Texts<const N: usize> {
    nulls: NullBufferBuilder,
    texts: [StringBuilder; N],
}

impl<const N: usize> Default for Texts<N> {
    fn default() -> Self {
        Texts { nulls: NullBufferBuilder::new(0), texts: std::array::from_fn(|_| StringBuilder::new()) }
    }
}

impl<const N: usize> Texts<N> {
    fn push(&mut self, values: Option<[&Option<Cow<'_, str>>; N]>) {
        self.nulls.append(values.is_some());
        for (i, text) in self.texts.iter_mut().enumerate() {
            text.append_option(values.and_then(|values| values[i].as_deref()));
        }
    }
    fn finish(&mut self, names: [&'static str; N]) -> Columns {
        let arrays = names.into_iter().zip(self.texts.iter_mut().map(text)).map(|(name, array)| (name, Column::Array(array)));
        Columns { columns: arrays.collect(), nulls: self.nulls.finish() }
    }
}

/// Filled columns by name, to be put in the table's order.
#[derive(Default)]
struct Columns {
    columns: Vec<(&'static str, Column)>,
    nulls: Option<NullBuffer>,
}
enum Column {
    Array(ArrayRef),
    Record(Columns),
}

impl Columns {
    fn with<const N: usize>(mut self, arrays: [(&'static str, ArrayRef); N]) -> Columns {
        self.columns.extend(arrays.map(|(name, array)| (name, Column::Array(array))));
        self
    }
    fn with_records<const N: usize>(mut self, records: [(&'static str, Columns); N]) -> Columns {
        self.columns.extend(records.map(|(name, record)| (name, Column::Record(record))));
        self
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

fn text(builder: &mut StringBuilder) -> ArrayRef {
    Arc::new(builder.finish())
}
fn instant(builder: &mut TimestampMicrosecondBuilder) -> ArrayRef {
    Arc::new(builder.finish().with_timezone(UTC))
}

#[cfg(test)]
mod tests {
    use super::super::{columns, tests::trusted};
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use iceberg::arrow::schema_to_arrow_schema;

    #[test]
    fn every_column_of_a_new_table_is_filled() {
        let schema = Arc::new(schema_to_arrow_schema(&columns::schema().expect("schema")).expect("arrow"));
        let mut rows = Rows::default();
        let mut bare = trusted(1, 5, "bare");
        (bare.page, bare.device, bare.geo, bare.campaign) = (None, None, None, None);
        (bare.original_event_id, bare.user_id, bare.anonymous_id, bare.session_id) = (None, None, None, None);
        (bare.seq, bare.session_index) = (None, None);
        rows.push(&trusted(0, 4, "full"));
        rows.push(&bare);
        let batch = rows.finish(&schema).expect("batch");
        assert_eq!((batch.num_rows(), rows.len()), (2, 0));
        check_full(batch.columns(), schema.fields());
    }

    /// Row 0 has a value in each column; row 1 is null where it may be.
    fn check_full(arrays: &[ArrayRef], fields: &Fields) {
        for (array, field) in arrays.iter().zip(fields) {
            assert!(array.is_valid(0), "{}", field.name());
            assert_eq!(array.is_null(1), field.is_nullable(), "{}", field.name());
            if let DataType::Struct(fields) = field.data_type() {
                check_full(array.as_struct().columns(), fields);
            }
        }
    }

    #[test]
    fn a_column_of_a_newer_table_is_null() {
        let schema = schema_to_arrow_schema(&columns::schema().expect("schema")).expect("arrow");
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        fields.insert(0, Arc::new(arrow_schema::Field::new("newer", DataType::Boolean, true)));
        let mut rows = Rows::default();
        rows.push(&trusted(0, 4, "e"));
        let batch = rows.finish(&Arc::new(arrow_schema::Schema::new(fields))).expect("batch");
        assert!(batch.column(0).is_null(0) && batch.column(1).is_valid(0));
    }
}
