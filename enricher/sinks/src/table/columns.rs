//! The table's columns: every field of a trusted event, records as structs, JSON as text.
//!
//! Owns: names, types and first field ids; what is added to an older table. Does not own: filling them (`rows`).
//! Invariants: a table's field ids never change (a column is found by its name, an added one gets the next free id);
//! a table may have columns that this version does not know, which it leaves null.

use super::error::{Refusal, SinkError};
use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, StructType, Transform, Type, UnboundPartitionSpec};
use std::sync::Arc;

/// The partition field of the one partition spec that is written.
pub(super) const DAY: &str = "received_at_day";
/// Top-level name of the column that the days are taken from.
pub(super) const RECEIVED_AT: &str = "received_at";

enum Kind {
    Text,
    Long,
    Int,
    Instant,
    Record(&'static [Column]),
}
use Kind::{Instant, Int, Long, Record, Text};

struct Column {
    id: i32,
    name: &'static str,
    kind: Kind,
    required: bool,
    doc: &'static str,
}

const fn required(id: i32, name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column { id, name, kind, required: true, doc }
}
const fn optional(id: i32, name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column { id, name, kind, required: false, doc }
}

/// Ids are those that a new table gets: all of one level, then the levels below, in order.
const COLUMNS: &[Column] = &[
    required(1, "event_id", Text, "id of the fact; once in the table"),
    optional(2, "original_event_id", Text, "the id as it came, when two facts shared it"),
    required(3, "event_type", Text, "type in the event catalogue"),
    required(4, "schema_version", Text, "version of the type's schema"),
    required(5, "event_time", Instant, "when it happened"),
    required(6, "time_origin", Text, "what event_time stands on: corrected, client, clamped, received"),
    required(7, RECEIVED_AT, Instant, "when the gateway received it; the table is partitioned by its day"),
    required(8, "source", Text, "source by configuration"),
    optional(9, "user_id", Text, "masked"),
    optional(10, "anonymous_id", Text, "masked"),
    optional(11, "session_id", Text, "masked"),
    optional(12, "seq", Long, "the client's number of the event"),
    optional(13, "session_index", Long, "number of the session"),
    optional(14, "page", Record(PAGE), ""),
    optional(15, "device", Record(DEVICE), ""),
    optional(16, "geo", Record(GEO), ""),
    optional(17, "campaign", Record(CAMPAIGN), ""),
    required(18, "properties", Text, "JSON object: the classified, masked fields"),
    required(19, "entities", Text, "JSON object: joined fields"),
    required(20, "provenance", Record(PROVENANCE), "where the event came from"),
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

/// The schema of a new table.
pub(super) fn schema() -> Result<Schema, SinkError> {
    let fields = COLUMNS.iter().map(|column| field(column, &mut |column| column.id, false)).collect::<Vec<_>>();
    Ok(Schema::builder().with_fields(fields).build()?)
}

/// The partitions of a new table: `day(received_at)`.
pub(super) fn partitions(schema: &Schema) -> Result<UnboundPartitionSpec, SinkError> {
    let source = schema.field_id_by_name(RECEIVED_AT).expect("a column of ours");
    Ok(UnboundPartitionSpec::builder().add_partition_field(source, DAY, Transform::Day)?.build())
}

/// The schema of a table with the columns that it lacks; `None` when it has all of them.
pub(super) fn with_missing(table: &Schema, last_column_id: i32) -> Result<Option<Schema>, SinkError> {
    let mut last_id = last_column_id;
    let Some(fields) = merged(COLUMNS, table.as_struct().fields(), "", &mut last_id)? else { return Ok(None) };
    let schema = Schema::builder()
        .with_schema_id(table.schema_id() + 1)
        .with_fields(fields)
        .with_identifier_field_ids(table.identifier_field_ids())
        .build()?;
    Ok(Some(schema))
}

fn merged(ours: &[Column], theirs: &[NestedFieldRef], path: &str, last_id: &mut i32) -> Result<Option<Vec<NestedFieldRef>>, Refusal> {
    let mut fields = theirs.to_vec();
    let mut changed = false;
    for column in ours {
        let path = format!("{path}{}", column.name);
        let Some(place) = fields.iter().position(|field| field.name == column.name) else {
            // Older rows have no value, so an added column is optional whatever it is in a new table.
            fields.push(field(column, &mut |_| next(last_id), true));
            changed = true;
            continue;
        };
        match (&column.kind, &*fields[place].field_type) {
            (Record(columns), Type::Struct(inner)) => {
                if let Some(inner) = merged(columns, inner.fields(), &format!("{path}."), last_id)? {
                    let mut field = NestedField::clone(&fields[place]);
                    field.field_type = Box::new(Type::Struct(StructType::new(inner)));
                    fields[place] = Arc::new(field);
                    changed = true;
                }
            }
            (kind, Type::Primitive(found)) if primitive(kind).as_ref() == Some(found) => {}
            (kind, found) => {
                let expected = primitive(kind).map_or_else(|| "a struct".to_owned(), |kind| kind.to_string());
                return Err(Refusal::Column { column: path, found: found.to_string(), expected });
            }
        }
    }
    Ok(changed.then_some(fields))
}

fn next(last_id: &mut i32) -> i32 {
    *last_id += 1;
    *last_id
}

fn field(column: &Column, id: &mut dyn FnMut(&Column) -> i32, added: bool) -> NestedFieldRef {
    let own = id(column);
    let kind = match &column.kind {
        Record(columns) => Type::Struct(StructType::new(columns.iter().map(|column| field(column, id, added)).collect())),
        kind => Type::Primitive(primitive(kind).expect("not a record")),
    };
    let field = NestedField::new(own, column.name, kind, column.required && !added);
    Arc::new(if column.doc.is_empty() { field } else { field.with_doc(column.doc) })
}

fn primitive(kind: &Kind) -> Option<PrimitiveType> {
    match kind {
        Text => Some(PrimitiveType::String),
        Long => Some(PrimitiveType::Long),
        Int => Some(PrimitiveType::Int),
        Instant => Some(PrimitiveType::Timestamptz),
        Record(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iceberg::spec::{FormatVersion, SortOrder, TableMetadataBuilder};
    use std::collections::HashMap;

    #[test]
    fn a_new_table_keeps_the_ids_that_are_written_here() {
        let schema = schema().expect("schema");
        let spec = partitions(&schema).expect("partitions");
        let sort = SortOrder::unsorted_order();
        let table = TableMetadataBuilder::new(schema.clone(), spec, sort, "/t".into(), FormatVersion::V2, HashMap::new())
            .and_then(TableMetadataBuilder::build)
            .expect("table")
            .metadata;
        assert_eq!(**table.current_schema(), schema);
        assert_eq!(table.last_column_id(), 44);
    }

    #[test]
    fn missing_columns_are_added_with_new_ids_and_unknown_ones_stay() {
        let full = schema().expect("schema");
        assert_eq!(with_missing(&full, 44).expect("fits"), None);
        let mut fields: Vec<_> = full.as_struct().fields().iter().filter(|f| f.name != "seq").cloned().collect();
        fields.push(Arc::new(NestedField::optional(50, "team", Type::Primitive(PrimitiveType::Boolean))));
        let mut geo = NestedField::clone(full.field_by_name("geo").expect("geo"));
        geo.field_type = Box::new(Type::Struct(StructType::new(vec![full.field_by_name("geo.city").expect("city").clone()])));
        let place = fields.iter().position(|f| f.name == "geo").expect("geo");
        fields[place] = Arc::new(geo);
        let older = Schema::builder().with_schema_id(4).with_fields(fields).build().expect("schema");
        let grown = with_missing(&older, 60).expect("fits").expect("grown");
        assert_eq!(grown.schema_id(), 5);
        let id = |name: &str| grown.field_id_by_name(name);
        assert_eq!(
            [id("seq"), id("geo.country"), id("geo.region"), id("geo.city"), id("team")],
            [Some(61), Some(62), Some(63), Some(35), Some(50)].map(|x| x).map(|x| x)
        );
        assert!(!grown.field_by_name("seq").expect("seq").required);
        assert_eq!(with_missing(&grown, 63).expect("fits"), None);
    }

    #[test]
    fn another_type_refuses() {
        let fields = vec![NestedField::required(1, "event_id", Type::Primitive(PrimitiveType::Long)).into()];
        let other = Schema::builder().with_fields(fields).build().expect("schema");
        let error = with_missing(&other, 1).expect_err("another type");
        assert!(error.to_string().starts_with("column event_id of the table is long, this version writes string"), "{error}");
    }
}
