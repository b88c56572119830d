//! `forebay.trusted_events`: every field of a trusted event, once in the table.
//!
//! Owns: which field of an event fills which column; that a redelivery is told by the harvested offset and the ids.

use super::Shape;
use crate::table::columns::Kind::{Instant, Int, Long, Record as Struct, Text};
use crate::table::columns::{Column, optional, required};
use crate::table::error::SinkError;
use crate::table::redelivery::{Mark, MarkColumns};
use crate::table::rows::{Columns, Row, Rows, Texts, instant, text};
use arrow_array::builder::{Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::SchemaRef;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::avro::DecodeError;
use forebay_schemas::wire::trusted::{self, Campaign, Device, Geo, Page, Provenance, Trusted};
use forebay_stores::log::Record;
use std::sync::Arc;

pub(in crate::table) static SHAPE: Shape = Shape {
    name: "trusted_events",
    sink: "table",
    topic: Topic::Trusted,
    columns: COLUMNS,
    instant: "received_at",
    day: "received_at_day",
    bounded: &["event_type", "schema_version", "event_time", "received_at", "source", "provenance.partition", "provenance.offset"],
    unique: &["event_id", "properties"],
    mark: MarkColumns { partition: "provenance.partition", number: "provenance.offset", rest: &["provenance.request_id", "event_id"] },
};

const COLUMNS: &[Column] = &[
    required(1, "event_id", Text, "id of the fact; once in the table"),
    optional(2, "original_event_id", Text, "the id as it came, when two facts shared it"),
    required(3, "event_type", Text, "type in the event catalogue"),
    required(4, "schema_version", Text, "version of the type's schema"),
    required(5, "event_time", Instant, "when it happened"),
    required(6, "time_origin", Text, "what event_time stands on: corrected, client, clamped, received"),
    required(7, "received_at", Instant, "when the gateway received it; the table is partitioned by its day"),
    required(8, "source", Text, "source by configuration"),
    optional(9, "user_id", Text, "masked"),
    optional(10, "anonymous_id", Text, "masked"),
    optional(11, "session_id", Text, "masked"),
    optional(12, "seq", Long, "the client's number of the event"),
    optional(13, "session_index", Long, "number of the session"),
    optional(14, "page", Struct(PAGE), ""),
    optional(15, "device", Struct(DEVICE), ""),
    optional(16, "geo", Struct(GEO), ""),
    optional(17, "campaign", Struct(CAMPAIGN), ""),
    required(18, "properties", Text, "JSON object: the classified, masked fields"),
    required(19, "entities", Text, "JSON object: joined fields"),
    required(20, "provenance", Struct(PROVENANCE), "where the event came from"),
];
const PAGE: &[Column] =
    &[optional(21, "url", Text, ""), optional(22, "path", Text, ""), optional(23, "title", Text, ""), optional(24, "referrer", Text, "")];
const DEVICE: &[Column] = &[
    optional(25, "type", Text, ""),
    optional(26, "os", Text, ""),
    optional(27, "browser", Text, ""),
    optional(28, "locale", Text, ""),
    optional(29, "timezone", Text, ""),
    optional(30, "screen_width", Long, ""),
    optional(31, "screen_height", Long, ""),
    optional(32, "library", Text, ""),
];
const GEO: &[Column] = &[optional(33, "country", Text, ""), optional(34, "region", Text, ""), optional(35, "city", Text, "")];
const CAMPAIGN: &[Column] = &[
    optional(36, "source", Text, ""),
    optional(37, "medium", Text, ""),
    optional(38, "name", Text, ""),
    optional(39, "term", Text, ""),
    optional(40, "content", Text, ""),
];
const PROVENANCE: &[Column] = &[
    required(41, "request_id", Text, "the HTTP request in the raw landing"),
    required(42, "partition", Int, "partition of the harvested topic"),
    required(43, "offset", Long, "offset in that partition"),
    required(44, "pipeline", Text, "fingerprint of the code, catalogue and keys that made the row"),
];

#[derive(Default)]
pub(in crate::table) struct TrustedRows {
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

impl Rows for TrustedRows {
    const SHAPE: &'static Shape = &SHAPE;
    type Row<'a> = Trusted<'a>;

    fn read(_: i32, record: &Record) -> Result<Trusted<'_>, DecodeError> {
        trusted::decode(record.value.as_deref().unwrap_or_default())
    }

    fn len(&self) -> usize {
        self.count
    }

    fn push(&mut self, event: &Trusted<'_>) {
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

    fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, SinkError> {
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
        Columns::default()
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
            ])
            .batch(schema, count)
    }
}

impl TrustedRows {
    fn push_device(&mut self, device: Option<&Device>) {
        let texts = device.map(|Device { kind, os, browser, locale, timezone, library, screen_width: _, screen_height: _ }| {
            [kind, os, browser, locale, timezone, library]
        });
        self.device.push(texts);
        self.screen[0].append_option(device.and_then(|device| device.screen_width));
        self.screen[1].append_option(device.and_then(|device| device.screen_height));
    }
}

impl Row for Trusted<'_> {
    fn instant(&self) -> Micros {
        self.received_at
    }
    fn seen(&self) -> i64 {
        self.provenance.offset
    }
    fn mark(&self) -> Mark {
        let Provenance { request_id, partition, offset, pipeline: _ } = &self.provenance;
        Mark { partition: *partition, number: *offset, rest: vec![request_id.to_string(), self.event_id.as_str().to_owned()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{columns, tests::trusted};
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_schema::{DataType, Fields};
    use iceberg::arrow::schema_to_arrow_schema;

    #[test]
    fn every_column_of_a_new_table_is_filled() {
        let schema = Arc::new(schema_to_arrow_schema(&columns::schema(&SHAPE).expect("schema")).expect("arrow"));
        let mut rows = TrustedRows::default();
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
        let schema = schema_to_arrow_schema(&columns::schema(&SHAPE).expect("schema")).expect("arrow");
        let mut fields: Vec<_> = schema.fields().iter().cloned().collect();
        fields.insert(0, Arc::new(arrow_schema::Field::new("newer", DataType::Boolean, true)));
        let mut rows = TrustedRows::default();
        rows.push(&trusted(0, 4, "e"));
        let batch = rows.finish(&Arc::new(arrow_schema::Schema::new(fields))).expect("batch");
        assert!(batch.column(0).is_null(0) && batch.column(1).is_valid(0));
    }
}
