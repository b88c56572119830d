//! `forebay.windows`: every result that a window told, each revision a row.
//!
//! Owns: which field of a result fills which column; that a redelivery is told by all that the result says, wherever it
//! stands on the log, so that another result of the same revision is never taken for it.

use super::Shape;
use crate::table::columns::Kind::{Bool, Instant, Int, Long, Text};
use crate::table::columns::{Column, required};
use crate::table::error::SinkError;
use crate::table::redelivery::{Mark, MarkColumns};
use crate::table::rows::{Columns, Row, Rows, instant, text};
use arrow_array::RecordBatch;
use arrow_array::builder::{BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder};
use arrow_schema::SchemaRef;
use forebay_schemas::time::Micros;
use forebay_schemas::topic::Topic;
use forebay_schemas::wire::avro::DecodeError;
use forebay_schemas::wire::window::{self, WindowResult};
use forebay_stores::log::Record;
use std::sync::Arc;

pub(in crate::table) static SHAPE: Shape = Shape {
    name: "windows",
    sink: "windows",
    topic: Topic::Windows,
    columns: COLUMNS,
    instant: "start",
    day: "start_day",
    bounded: &["window", "start", "end", "revision", "partition", "offset"],
    unique: &[],
    mark: MarkColumns {
        partition: "partition",
        number: "start",
        rest: &["window", "key", "end", "values", "revision", "final", "fingerprint"],
    },
};

const COLUMNS: &[Column] = &[
    required(1, "window", Text, "uid of the window"),
    required(2, "key", Text, "JSON object: the key's fields"),
    required(3, "start", Instant, "the table is partitioned by its day"),
    required(4, "end", Instant, "first instant after the window; a session that became part of another ends where it starts"),
    required(5, "values", Text, "JSON object: the declared values"),
    required(6, "revision", Long, "from 1; the highest of a window, key and start counts"),
    required(7, "final", Bool, "no later revision comes"),
    required(8, "fingerprint", Text, "of the window's declaration and the time zone database that bounded it"),
    required(9, "partition", Int, "partition of the windows topic"),
    required(10, "offset", Long, "offset in that partition"),
];

/// A result, and where it stands on the log.
pub(in crate::table) struct WindowRow<'a> {
    partition: i32,
    offset: i64,
    result: WindowResult<'a>,
}

#[derive(Default)]
pub(in crate::table) struct WindowRows {
    count: usize,
    window: StringBuilder,
    key: StringBuilder,
    start: TimestampMicrosecondBuilder,
    end: TimestampMicrosecondBuilder,
    values: StringBuilder,
    revision: Int64Builder,
    is_final: BooleanBuilder,
    fingerprint: StringBuilder,
    partition: Int32Builder,
    offset: Int64Builder,
}

impl Rows for WindowRows {
    const SHAPE: &'static Shape = &SHAPE;
    type Row<'a> = WindowRow<'a>;

    fn read(partition: i32, record: &Record) -> Result<WindowRow<'_>, DecodeError> {
        let result = window::decode(record.value.as_deref().unwrap_or_default())?;
        Ok(WindowRow { partition, offset: record.offset, result })
    }

    fn len(&self) -> usize {
        self.count
    }

    fn push(&mut self, row: &WindowRow<'_>) {
        self.count += 1;
        let WindowRow { partition, offset, result } = row;
        let WindowResult { window, key, start, end, values, revision, is_final, fingerprint } = result;
        self.window.append_value(window);
        self.key.append_value(key);
        self.start.append_value(start.0);
        self.end.append_value(end.0);
        self.values.append_value(values);
        self.revision.append_value(*revision);
        self.is_final.append_value(*is_final);
        self.fingerprint.append_value(fingerprint);
        self.partition.append_value(*partition);
        self.offset.append_value(*offset);
    }

    fn finish(&mut self, schema: &SchemaRef) -> Result<RecordBatch, SinkError> {
        let count = std::mem::take(&mut self.count);
        Columns::default()
            .with([
                ("window", text(&mut self.window)),
                ("key", text(&mut self.key)),
                ("start", instant(&mut self.start)),
                ("end", instant(&mut self.end)),
                ("values", text(&mut self.values)),
                ("revision", Arc::new(self.revision.finish())),
                ("final", Arc::new(self.is_final.finish())),
                ("fingerprint", text(&mut self.fingerprint)),
                ("partition", Arc::new(self.partition.finish())),
                ("offset", Arc::new(self.offset.finish())),
            ])
            .batch(schema, count)
    }
}

impl Row for WindowRow<'_> {
    fn instant(&self) -> Micros {
        self.result.start
    }
    fn seen(&self) -> i64 {
        self.offset
    }
    fn mark(&self) -> Mark {
        let WindowResult { window, key, start, end, values, revision, is_final, fingerprint } = &self.result;
        let rest = [&**window, key, &end.0.to_string(), values, &revision.to_string(), &is_final.to_string(), fingerprint];
        Mark { partition: self.partition, number: start.0, rest: rest.map(str::to_owned).into() }
    }
}
