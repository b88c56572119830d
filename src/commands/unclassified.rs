//! `forebay unclassified`: what was left out, and the line that would classify it.

use crate::failure::{Exit, Failure};
use crate::print;
use crate::read::Query;
use crate::system::Where;
use clap::Args;

/// List fields that were left out because no schema classifies them, with the line that would
#[derive(Args)]
#[command(after_help = "Example:\n  forebay unclassified --data ./forebay-data")]
pub struct Arguments {
    /// One JSON object a field
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    system: Where,
}

pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let fields = arguments.system.find()?.answers(&Query::Unclassified)?;
    let mut rows = vec![["EVENT TYPE", "COUNT", "FIELD", "LINE THAT WOULD CLASSIFY IT"].map(str::to_owned).to_vec()];
    for field in &fields {
        if arguments.json {
            if print::line(&field.to_string())?.is_break() {
                return Ok(Exit::Done);
            }
            continue;
        }
        let text = |name: &str| field[name].as_str().unwrap_or_default();
        let path = if field["in_clear"].is_string() { text("in_clear") } else { text("path") };
        rows.push(vec![text("event_type").to_owned(), field["count"].to_string(), path.to_owned(), line(path)]);
    }
    if rows.len() > 1 {
        print::table(&rows)?;
    }
    Ok(Exit::Done)
}

/// A member of the schema at that place. The type and the choice are a person's to make.
fn line(path: &str) -> String {
    let name = path.trim_end_matches("[]").rsplit('.').next().unwrap_or(path);
    if name.starts_with('{') {
        return "(its name is in none of the newest events)".to_owned();
    }
    format!("\"{name}\": {{ \"type\": \"string\", \"x-privacy\": \"drop\" }}")
}
