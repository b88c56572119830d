//! A table's columns: records as structs, JSON as text.
//!
//! Owns: the schema of a new table; what is added to an older one. Does not own: which columns there are (`shape`),
//! filling them (`rows`).
//! Invariants: a table's field ids never change (a column is found by its name, an added one gets the next free id);
//! a table may have columns that this version does not know, which it leaves null.

use super::error::{Refusal, SinkError};
use super::shape::Shape;
use iceberg::spec::{NestedField, NestedFieldRef, PrimitiveType, Schema, StructType, Transform, Type, UnboundPartitionSpec};
use std::sync::Arc;

pub(super) enum Kind {
    Text,
    Long,
    Int,
    Bool,
    Instant,
    Record(&'static [Column]),
}

/// `id` is the one that a new table gives it: all of one level, then the levels below, in order.
pub(super) struct Column {
    id: i32,
    name: &'static str,
    kind: Kind,
    required: bool,
    doc: &'static str,
}

pub(super) const fn required(id: i32, name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column { id, name, kind, required: true, doc }
}
pub(super) const fn optional(id: i32, name: &'static str, kind: Kind, doc: &'static str) -> Column {
    Column { id, name, kind, required: false, doc }
}

/// The schema of a new table.
pub(super) fn schema(shape: &Shape) -> Result<Schema, SinkError> {
    let fields = shape.columns.iter().map(|column| field(column, &mut |column| column.id, false)).collect::<Vec<_>>();
    Ok(Schema::builder().with_fields(fields).build()?)
}

/// The partitions of a new table: its days.
pub(super) fn partitions(shape: &Shape, schema: &Schema) -> Result<UnboundPartitionSpec, SinkError> {
    let source = schema.field_id_by_name(shape.instant).expect("a column of ours");
    Ok(UnboundPartitionSpec::builder().add_partition_field(source, shape.day, Transform::Day)?.build())
}

/// The schema of a table with the columns that it lacks; `None` when it has all of them.
pub(super) fn with_missing(shape: &Shape, table: &Schema, last_column_id: i32) -> Result<Option<Schema>, SinkError> {
    let mut last_id = last_column_id;
    let Some(fields) = merged(shape.columns, table.as_struct().fields(), "", &mut last_id)? else { return Ok(None) };
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
            (Kind::Record(columns), Type::Struct(inner)) => {
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
        Kind::Record(columns) => Type::Struct(StructType::new(columns.iter().map(|column| field(column, id, added)).collect())),
        kind => Type::Primitive(primitive(kind).expect("not a record")),
    };
    let field = NestedField::new(own, column.name, kind, column.required && !added);
    Arc::new(if column.doc.is_empty() { field } else { field.with_doc(column.doc) })
}

fn primitive(kind: &Kind) -> Option<PrimitiveType> {
    match kind {
        Kind::Text => Some(PrimitiveType::String),
        Kind::Long => Some(PrimitiveType::Long),
        Kind::Int => Some(PrimitiveType::Int),
        Kind::Bool => Some(PrimitiveType::Boolean),
        Kind::Instant => Some(PrimitiveType::Timestamptz),
        Kind::Record(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Table;
    use super::super::shape::trusted::SHAPE;
    use super::*;
    use iceberg::spec::{FormatVersion, SortOrder, TableMetadataBuilder};
    use std::collections::HashMap;

    #[test]
    fn a_new_table_keeps_the_ids_that_its_shape_says() {
        for (table, last) in [(Table::TrustedEvents, 44), (Table::Windows, 10)] {
            let schema = schema(table.shape()).expect("schema");
            let spec = partitions(table.shape(), &schema).expect("partitions");
            let sort = SortOrder::unsorted_order();
            let made = TableMetadataBuilder::new(schema.clone(), spec, sort, "/t".into(), FormatVersion::V2, HashMap::new())
                .and_then(TableMetadataBuilder::build)
                .expect("table")
                .metadata;
            assert_eq!((&**made.current_schema(), made.last_column_id()), (&schema, last), "{table:?}");
        }
    }

    #[test]
    fn missing_columns_are_added_with_new_ids_and_unknown_ones_stay() {
        let full = schema(&SHAPE).expect("schema");
        assert_eq!(with_missing(&SHAPE, &full, 44).expect("fits"), None);
        let mut fields: Vec<_> = full.as_struct().fields().iter().filter(|f| f.name != "seq").cloned().collect();
        fields.push(Arc::new(NestedField::optional(50, "team", Type::Primitive(PrimitiveType::Boolean))));
        let mut geo = NestedField::clone(full.field_by_name("geo").expect("geo"));
        geo.field_type = Box::new(Type::Struct(StructType::new(vec![full.field_by_name("geo.city").expect("city").clone()])));
        let place = fields.iter().position(|f| f.name == "geo").expect("geo");
        fields[place] = Arc::new(geo);
        let older = Schema::builder().with_schema_id(4).with_fields(fields).build().expect("schema");
        let grown = with_missing(&SHAPE, &older, 60).expect("fits").expect("grown");
        assert_eq!(grown.schema_id(), 5);
        let id = |name: &str| grown.field_id_by_name(name);
        assert_eq!(
            [id("seq"), id("geo.country"), id("geo.region"), id("geo.city"), id("team")],
            [Some(61), Some(62), Some(63), Some(35), Some(50)].map(|x| x).map(|x| x)
        );
        assert!(!grown.field_by_name("seq").expect("seq").required);
        assert_eq!(with_missing(&SHAPE, &grown, 63).expect("fits"), None);
    }

    #[test]
    fn another_type_refuses() {
        let fields = vec![NestedField::required(1, "event_id", Type::Primitive(PrimitiveType::Long)).into()];
        let other = Schema::builder().with_fields(fields).build().expect("schema");
        let error = with_missing(&SHAPE, &other, 1).expect_err("another type");
        assert!(error.to_string().starts_with("column event_id of the table is long, this version writes string"), "{error}");
    }
}
