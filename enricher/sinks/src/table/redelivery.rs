//! Records that the table may have already, recognised by their provenance.
//!
//! The offsets keep a record from being read twice. A topic that is read again from its start, or an enricher that
//! emits the same input again, brings the same records under other offsets: their harvested offset is at or below the
//! highest that the table has seen of the partition, and only then is the table itself asked.
//!
//! Owns: that question. Does not own: the mark (`offsets`). Invariant: only a record with the same event id, request,
//! partition and offset as a row is left out.

use super::error::SinkError;
use super::file;
use super::manifests;
use super::offsets::Offsets;
use super::stored::Stored;
use super::warehouse::Warehouse;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use forebay_schemas::wire::trusted::Trusted;
use iceberg::spec::{DataFile, Datum, PrimitiveLiteral};
use parquet::arrow::ProjectionMask;
use std::collections::{BTreeMap, BTreeSet};

/// What makes two records the same: harvested partition and offset, request, event id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Mark {
    partition: i32,
    offset: i64,
    request_id: String,
    event_id: String,
}

impl Mark {
    pub(super) fn of(event: &Trusted) -> Mark {
        Mark {
            partition: event.provenance.partition,
            offset: event.provenance.offset,
            request_id: event.provenance.request_id.to_string(),
            event_id: event.event_id.as_str().to_owned(),
        }
    }
}

/// Whether a record that is read from `partition` may be in the table, or in the batch, already.
pub(super) fn is_suspect(event: &Trusted, partition: i32, offsets: &Offsets) -> bool {
    offsets.seen.get(&partition).is_some_and(|seen| event.provenance.offset <= *seen)
}

/// Those of `marks` that are rows of the table.
pub(super) fn in_table(marks: &BTreeSet<Mark>, table: &Stored, warehouse: &Warehouse) -> Result<BTreeSet<Mark>, SinkError> {
    // Harvested partition → lowest and highest offset in question.
    let mut ranges: BTreeMap<i32, (i64, i64)> = BTreeMap::new();
    for mark in marks {
        let range = ranges.entry(mark.partition).or_insert((mark.offset, mark.offset));
        *range = (range.0.min(mark.offset), range.1.max(mark.offset));
    }
    let schema = table.metadata.current_schema();
    let ids = ["provenance.partition", "provenance.offset"].map(|name| schema.field_id_by_name(name));
    let mut found = BTreeSet::new();
    for manifest in manifests::of_table(table, warehouse)? {
        for entry in manifests::live(&manifest, warehouse)? {
            if may_hold(entry.data_file(), ids, &ranges) {
                look(warehouse, entry.file_path(), marks, &mut found)?;
            }
        }
    }
    Ok(found)
}

/// Whether the file's bounds overlap a range. A file without bounds may hold anything.
fn may_hold(file: &DataFile, [partition, offset]: [Option<i32>; 2], ranges: &BTreeMap<i32, (i64, i64)>) -> bool {
    let bounds = |id: Option<i32>| Some((number(file.lower_bounds().get(&id?)?)?, number(file.upper_bounds().get(&id?)?)?));
    let Some((partitions, offsets)) = bounds(partition).zip(bounds(offset)) else { return true };
    ranges.iter().any(|(partition, (low, high))| {
        let partition = i64::from(*partition);
        partitions.0 <= partition && partition <= partitions.1 && offsets.0 <= *high && *low <= offsets.1
    })
}

fn number(datum: &Datum) -> Option<i64> {
    match datum.literal() {
        PrimitiveLiteral::Int(number) => Some(i64::from(*number)),
        PrimitiveLiteral::Long(number) => Some(*number),
        _ => None,
    }
}

fn look(warehouse: &Warehouse, location: &str, marks: &BTreeSet<Mark>, found: &mut BTreeSet<Mark>) -> Result<(), SinkError> {
    let builder = file::open(warehouse, location)?;
    let names = ["event_id", "provenance.request_id", "provenance.partition", "provenance.offset"];
    let projection = ProjectionMask::columns(builder.parquet_schema(), names);
    for batch in builder.with_projection(projection).build()? {
        let batch = batch?;
        let column = |name| batch.column_by_name(name);
        let Some((event_ids, provenance)) = column("event_id").zip(column("provenance").and_then(|p| p.as_struct_opt())) else {
            continue;
        };
        let inner = |name| provenance.column_by_name(name);
        let (Some(requests), Some(partitions), Some(offsets)) = (inner("request_id"), inner("partition"), inner("offset")) else {
            continue;
        };
        let (event_ids, requests) = (event_ids.as_string::<i32>(), requests.as_string::<i32>());
        let (partitions, offsets) = (partitions.as_primitive::<Int32Type>(), offsets.as_primitive::<Int64Type>());
        for row in 0..batch.num_rows() {
            let mark = Mark {
                partition: partitions.value(row),
                offset: offsets.value(row),
                request_id: requests.value(row).to_owned(),
                event_id: event_ids.value(row).to_owned(),
            };
            if marks.contains(&mark) {
                found.insert(mark);
            }
        }
    }
    Ok(())
}
