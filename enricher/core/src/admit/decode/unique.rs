//! Repeated names: only the last member of each name stays, at every depth.

use super::Members;
use forebay_schemas::json::Json;

/// Below this many members, comparing each with each is cheaper than sorting.
const FEW: usize = 16;

pub(super) fn members(members: &mut Members<'_>) {
    if repeats(members) {
        keep_last(members);
    }
    for (_, value) in members {
        within(value);
    }
}

fn within(value: &mut Json<'_>) {
    match value {
        Json::Object(inner) => members(inner),
        Json::Array(items) => items.iter_mut().for_each(within),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn repeats(members: &Members<'_>) -> bool {
    if members.len() <= FEW {
        return members.iter().enumerate().any(|(i, (key, _))| members[..i].iter().any(|(before, _)| before == key));
    }
    let mut keys: Vec<&str> = members.iter().map(|(key, _)| &**key).collect();
    keys.sort_unstable();
    keys.windows(2).any(|pair| pair[0] == pair[1])
}

fn keep_last(members: &mut Members<'_>) {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|a, b| members[*a].0.cmp(&members[*b].0));
    let mut last = vec![false; members.len()];
    for (n, at) in order.iter().enumerate() {
        last[*at] = order.get(n + 1).is_none_or(|next| members[*next].0 != members[*at].0);
    }
    let mut at = 0;
    members.retain(|_| {
        at += 1;
        last[at - 1]
    });
}

#[cfg(test)]
mod tests {
    use forebay_schemas::json::{Json, parse};

    #[test]
    fn the_last_of_each_name_stays() {
        let many: String = (0..40).map(|i| format!(r#""k{}":{i},"#, i % 20)).collect();
        let kept: String = (20..40).map(|i| format!(r#""k{}":{i},"#, i % 20)).collect();
        for (text, expected) in [
            (r#"{"a":1,"b":2,"a":3}"#.to_owned(), r#"{"b":2,"a":3}"#.to_owned()),
            (r#"{"x":[{"a":{"b":1,"b":2}}]}"#.to_owned(), r#"{"x":[{"a":{"b":2}}]}"#.to_owned()),
            (r#"{"a":1,"\u0061":2}"#.to_owned(), r#"{"a":2}"#.to_owned()),
            (format!("{{{many}\"z\":0}}"), format!("{{{kept}\"z\":0}}")),
        ] {
            let Ok(Json::Object(mut members)) = parse(text.as_bytes(), 64) else { panic!("an object") };
            super::members(&mut members);
            assert_eq!(Json::Object(members).to_string(), expected);
        }
    }
}
