//! Schemas with keywords that are not ours: `jsonschema` judges them.
//!
//! Invariant: what is told comes from the schema's own location and text; its messages, which quote values, are not.

use super::brief;
use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

pub(super) struct Foreign {
    validator: Validator,
    schema: Value,
}

impl Foreign {
    pub fn compile(schema: &Value) -> Result<Foreign, String> {
        let validator = jsonschema::draft202012::options().should_validate_formats(true).build(schema).map_err(|e| e.to_string())?;
        Ok(Foreign { validator, schema: schema.clone() })
    }

    /// `{path}` stands in the message where the path to this value belongs.
    pub fn judge(&self, value: &Value) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let Some(error) = self.validator.iter_errors(value).next() else { return Err("{path}: expected another value".to_owned()) };
        let pointer = error.schema_path().to_string();
        let below = data_path(&pointer);
        if let ValidationErrorKind::Required { property } = error.kind() {
            // A name that the schema asks for, not one that the event has.
            return Err(format!("{{path}}{below}.{}: missing", property.as_str().unwrap_or_default()));
        }
        let keyword = pointer.rsplit('/').next().unwrap_or_default();
        let asked = self.schema.pointer(&pointer).map(brief).unwrap_or_default();
        Err(format!("{{path}}{below}: expected {keyword} {asked}"))
    }
}

/// The path of the value that a keyword judges, as far as the schema's location tells it:
/// `/properties/items/items/properties/price/type` → `.items[].price`.
fn data_path(pointer: &str) -> String {
    let mut path = String::new();
    let mut steps = pointer.split('/').skip(1);
    while let Some(step) = steps.next() {
        match step {
            "properties" => {
                path.push('.');
                path.push_str(&steps.next().unwrap_or_default().replace("~1", "/").replace("~0", "~"));
            }
            "items" => path.push_str("[]"),
            _ => {}
        }
    }
    path
}
