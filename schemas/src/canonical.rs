//! Canonical JSON (design §4.5): decoded strings, sorted keys, the last of repeated keys, number text.
//! Two copies of a fact that differ only in white space, escapes or key order have one canonical form.

use crate::json::{Json, write_string};

/// The order of so few members needs no memory of its own.
const FEW: usize = 32;

/// Appends the canonical form of `value`. Members whose key `skip` accepts are left out at the top level only.
pub fn write(value: &Json<'_>, skip: &dyn Fn(&str) -> bool, out: &mut String) {
    match value {
        Json::Object(members) => {
            let mut few = [0; FEW];
            let mut many = Vec::new();
            let order = match few.get_mut(..members.len()) {
                Some(few) => few,
                None => {
                    many.resize(members.len(), 0);
                    many.as_mut_slice()
                }
            };
            order.iter_mut().enumerate().for_each(|(at, place)| *place = at);
            // Of repeated keys the last in the text comes last.
            order.sort_unstable_by(|a, b| members[*a].0.cmp(&members[*b].0).then(a.cmp(b)));
            out.push('{');
            let mut first = true;
            for (i, at) in order.iter().enumerate() {
                let (key, value) = &members[*at];
                if skip(key) || order.get(i + 1).is_some_and(|next| members[*next].0 == *key) {
                    continue;
                }
                if !first {
                    out.push(',');
                }
                first = false;
                write_string(key, out);
                out.push(':');
                write(value, &|_| false, out);
            }
            out.push('}');
        }
        Json::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(item, &|_| false, out);
            }
            out.push(']');
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.write(out),
    }
}

/// The canonical form of a whole value.
pub fn text(value: &Json<'_>) -> String {
    let mut out = String::new();
    write(value, &|_| false, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use crate::json::parse;

    #[test]
    fn order_escapes_and_repeats_do_not_matter() {
        for text in [r#"{"b":[1.10,{"y":1,"x":"\u00fc"}],"a":null}"#, r#" {"a":1, "b":[1.10, {"x":"ü","y":1}], "a":null}"#] {
            assert_eq!(super::text(&parse(text.as_bytes(), 64).expect("valid")), r#"{"a":null,"b":[1.10,{"x":"ü","y":1}]}"#);
        }
    }
}
