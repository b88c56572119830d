//! May a reader that knows one Avro schema read what was written with another?
//!
//! Owns: Avro 1.12's resolution: promotions, defaults, aliases, unions, enums with a default, sizes, types that refer
//! to themselves; logical types do not count. The oracle is Java's `SchemaCompatibility` (`compatibility/tests.rs`);
//! docs/decisions/0005 says why this is not the `apache-avro` crate's.
//! Does not own: which schemas are compared (`registry`).

mod schema;

pub use schema::Schema;

use schema::{Id, Kind, Names};

/// Where in the reader's schema it fails, as `Record.field.field`, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct Incompatible {
    pub path: String,
    pub why: String,
}

/// Everything that `writer` describes can be read as `reader`, or the first place where it cannot.
pub fn can_read(reader: &Schema, writer: &Schema) -> Result<(), Incompatible> {
    Check { reader, writer, seen: Vec::new() }.pair(reader.root(), writer.root(), "")
}

struct Check<'a> {
    reader: &'a Schema,
    writer: &'a Schema,
    /// Pairs that are good, or good unless what is being checked around them is not.
    seen: Vec<(Id, Id)>,
}

impl Check<'_> {
    fn pair(&mut self, reader: Id, writer: Id, path: &str) -> Result<(), Incompatible> {
        if self.seen.contains(&(reader, writer)) {
            return Ok(());
        }
        let outside = self.seen.len();
        self.seen.push((reader, writer));
        let checked = self.kinds(reader, writer, path);
        if checked.is_err() {
            // What was found good within may have leaned on this pair.
            self.seen.truncate(outside);
        }
        checked
    }

    fn kinds(&mut self, reader: Id, writer: Id, path: &str) -> Result<(), Incompatible> {
        let (read, written) = (self.reader.kind(reader), self.writer.kind(writer));
        let fail = |why: String| Err(Incompatible { path: if path.is_empty() { "the schema" } else { path }.to_owned(), why });
        match (read, written) {
            (_, Kind::Union(branches)) => branches.iter().try_for_each(|branch| self.pair(reader, *branch, path)),
            (Kind::Union(branches), _) => {
                let mut told_deepest = Incompatible { path: String::new(), why: String::new() };
                for branch in branches {
                    match self.pair(*branch, writer, path) {
                        Ok(()) => return Ok(()),
                        Err(e) if e.path.len() > told_deepest.path.len() => told_deepest = e,
                        Err(_) => {}
                    }
                }
                // A branch that fails deep within is the one that was meant.
                if told_deepest.path.len() > path.len() && !path.is_empty() {
                    return Err(told_deepest);
                }
                fail(format!("no branch of the union reads {}", told(written)))
            }
            (Kind::Array(read), Kind::Array(written)) => self.pair(*read, *written, &format!("{path}[]")),
            (Kind::Map(read), Kind::Map(written)) => self.pair(*read, *written, &format!("{path}{{}}")),
            (Kind::Primitive(read), Kind::Primitive(written)) if promotes(written, read) => Ok(()),
            (Kind::Fixed(read, size), Kind::Fixed(written, other)) if same(read, written) => {
                if size == other {
                    Ok(())
                } else {
                    fail(format!("{size} bytes cannot read {other}"))
                }
            }
            (Kind::Enum(read, known, default), Kind::Enum(written, symbols, _)) if same(read, written) => {
                match symbols.iter().find(|symbol| !known.contains(symbol)) {
                    Some(symbol) if default.is_none() => fail(format!("the enum has no symbol {symbol:?} and no default")),
                    _ => Ok(()),
                }
            }
            (Kind::Record(read, fields), Kind::Record(written, of_writer)) if same(read, written) => {
                for field in fields {
                    let path = format!("{}.{}", if path.is_empty() { &read.name } else { path }, field.name);
                    let mut from = of_writer.iter().filter(|w| w.name == field.name || field.aliases.contains(&w.name));
                    match (from.next(), from.next()) {
                        (Some(from), None) => self.pair(field.of, from.of, &path)?,
                        (None, _) if field.has_default => {}
                        (None, _) => return Err(Incompatible { path, why: "was not written, and has no default".to_owned() }),
                        (Some(one), Some(two)) => {
                            return Err(Incompatible { path, why: format!("may be {:?} or {:?} of what was written", one.name, two.name) });
                        }
                    }
                }
                Ok(())
            }
            _ => fail(format!("{} cannot read {}", told(read), told(written))),
        }
    }
}

/// Names are compared without their namespace, or by the reader's aliases.
fn same(reader: &Names, writer: &Names) -> bool {
    let simple = |name: &str| name.rsplit('.').next().map(str::to_owned);
    simple(&reader.name) == simple(&writer.name) || reader.aliases.contains(&writer.name)
}

fn promotes(from: &str, to: &str) -> bool {
    from == to
        || match from {
            "int" => matches!(to, "long" | "float" | "double"),
            "long" => matches!(to, "float" | "double"),
            "float" => to == "double",
            "string" => to == "bytes",
            "bytes" => to == "string",
            _ => false,
        }
}

fn told(kind: &Kind) -> String {
    match kind.names() {
        Some(names) => format!("{} {}", kind.word(), names.name),
        None => kind.word().to_owned(),
    }
}

#[cfg(test)]
mod tests;
