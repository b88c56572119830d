//! Records that the table may have already, recognised by what they say.
//!
//! The offsets keep a record from being read twice. A topic that is read again from its start, or an enricher that
//! emits the same input again, brings the same records under other offsets: their `seen` is at or below the highest that
//! the table has of the partition, and only then is the table itself asked.
//!
//! Owns: that question. Does not own: what makes two records the same (`shape`), the offsets (`offsets`). Invariant: only
//! a record with the same mark as a row is left out.

use super::error::SinkError;
use super::file;
use super::manifests;
use super::offsets::Offsets;
use super::rows::Row;
use super::stored::Stored;
use super::warehouse::Warehouse;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch};
use iceberg::spec::{DataFile, Datum, PrimitiveLiteral};
use parquet::arrow::ProjectionMask;
use std::collections::{BTreeMap, BTreeSet};

/// What makes two records the same.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Mark {
    pub partition: i32,
    /// Files are chosen by it.
    pub number: i64,
    /// Numbers as decimal text.
    pub rest: Vec<String>,
}

/// The columns that hold a mark.
pub(super) struct MarkColumns {
    pub partition: &'static str,
    pub number: &'static str,
    pub rest: &'static [&'static str],
}

/// Whether a record that is read from `partition` may be in the table, or in the batch, already.
pub(super) fn is_suspect(row: &impl Row, partition: i32, offsets: &Offsets) -> bool {
    offsets.seen.get(&partition).is_some_and(|seen| row.seen() <= *seen)
}

/// Those of `marks` that are rows of the table.
pub(super) fn in_table(marks: &BTreeSet<Mark>, table: &Stored, warehouse: &Warehouse) -> Result<BTreeSet<Mark>, SinkError> {
    // Partition → lowest and highest number in question.
    let mut ranges: BTreeMap<i32, (i64, i64)> = BTreeMap::new();
    for mark in marks {
        let range = ranges.entry(mark.partition).or_insert((mark.number, mark.number));
        *range = (range.0.min(mark.number), range.1.max(mark.number));
    }
    let columns = &warehouse.shape.mark;
    let schema = table.metadata.current_schema();
    let ids = [columns.partition, columns.number].map(|name| schema.field_id_by_name(name));
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
fn may_hold(file: &DataFile, [partition, number]: [Option<i32>; 2], ranges: &BTreeMap<i32, (i64, i64)>) -> bool {
    let bounds = |id: Option<i32>| Some((integer(file.lower_bounds().get(&id?)?)?, integer(file.upper_bounds().get(&id?)?)?));
    let Some((partitions, numbers)) = bounds(partition).zip(bounds(number)) else { return true };
    ranges.iter().any(|(partition, (low, high))| {
        let partition = i64::from(*partition);
        partitions.0 <= partition && partition <= partitions.1 && numbers.0 <= *high && *low <= numbers.1
    })
}

fn integer(datum: &Datum) -> Option<i64> {
    match datum.literal() {
        PrimitiveLiteral::Int(number) => Some(i64::from(*number)),
        PrimitiveLiteral::Long(number) => Some(*number),
        _ => None,
    }
}

fn look(warehouse: &Warehouse, location: &str, marks: &BTreeSet<Mark>, found: &mut BTreeSet<Mark>) -> Result<(), SinkError> {
    let columns = &warehouse.shape.mark;
    let builder = file::open(warehouse, location)?;
    let names = [columns.partition, columns.number].into_iter().chain(columns.rest.iter().copied());
    let projection = ProjectionMask::columns(builder.parquet_schema(), names);
    let places: BTreeSet<_> = marks.iter().map(|mark| (mark.partition, mark.number)).collect();
    for batch in builder.with_projection(projection).build()? {
        let batch = batch?;
        let Some(partitions) = column(&batch, columns.partition) else { continue };
        let Some(numbers) = column(&batch, columns.number).and_then(integers) else { continue };
        let rest: Option<Vec<_>> = columns.rest.iter().map(|name| column(&batch, name)).collect();
        let (Some(partitions), Some(rest)) = (partitions.as_primitive_opt::<Int32Type>(), rest) else { continue };
        for (row, place) in partitions.values().iter().copied().zip(numbers.iter().copied()).enumerate() {
            if !places.contains(&place) {
                continue;
            }
            let Some(rest) = rest.iter().map(|array| word(array, row)).collect() else { continue };
            let mark = Mark { partition: place.0, number: place.1, rest };
            if marks.contains(&mark) {
                found.insert(mark);
            }
        }
    }
    Ok(())
}

/// A column by its path.
fn column<'a>(batch: &'a RecordBatch, path: &str) -> Option<&'a ArrayRef> {
    let mut names = path.split('.');
    let top = batch.column_by_name(names.next()?);
    names.fold(top, |array, name| array?.as_struct_opt()?.column_by_name(name))
}

fn integers(array: &ArrayRef) -> Option<&[i64]> {
    let instants = || array.as_primitive_opt::<TimestampMicrosecondType>().map(|array| &array.values()[..]);
    array.as_primitive_opt::<Int64Type>().map(|array| &array.values()[..]).or_else(instants)
}

/// A value as a mark has it.
fn word(array: &ArrayRef, row: usize) -> Option<String> {
    if array.is_null(row) {
        return None;
    }
    let text = array.as_string_opt::<i32>().map(|array| array.value(row).to_owned());
    let flag = || array.as_boolean_opt().map(|array| array.value(row).to_string());
    text.or_else(|| integers(array).map(|numbers| numbers[row].to_string())).or_else(flag)
}
