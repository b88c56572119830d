//! Which kind of device, system and browser a user agent names.
//!
//! Owns: the closed words that are told, and a bounded table for each thread (a site sees few user agents, many times each).
//! Does not own: the rules (woothee). Invariant: what is told comes from woothee's own lists or from the words here,
//! never from the user agent's text.

use forebay_schemas::limit;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Agent {
    pub kind: Option<&'static str>,
    pub os: Option<&'static str>,
    pub browser: Option<&'static str>,
}

thread_local! {
    static KNOWN: RefCell<HashMap<String, Arc<Agent>>> = RefCell::default();
}

/// By the user agent that the event names, else by the request's.
pub(crate) fn of(of_event: Option<&str>, of_request: Option<&str>) -> Option<Arc<Agent>> {
    of_event.or(of_request).map(look_up).filter(|agent| **agent != Agent::default())
}

fn look_up(text: &str) -> Arc<Agent> {
    let text = &text[..text.floor_char_boundary(limit::USER_AGENT_BYTES)];
    KNOWN.with_borrow_mut(|known| {
        if let Some(agent) = known.get(text) {
            return agent.clone();
        }
        let agent = Arc::new(parse(text));
        if known.len() >= limit::USER_AGENTS {
            known.clear();
        }
        known.insert(text.to_owned(), agent.clone());
        agent
    })
}

fn parse(text: &str) -> Agent {
    let Some(found) = woothee::parser::Parser::new().parse(text) else { return Agent::default() };
    let known = |word: &str| (word != woothee::woothee::VALUE_UNKNOWN && !word.is_empty()).then(|| kept(word));
    let os = match found.os {
        "Mac OSX" => Some("macOS"),
        "iPhone" | "iPad" | "iPod" | "iOS" => Some("iOS"),
        windows if windows.starts_with("Windows") && !windows.starts_with("Windows Phone") => Some("Windows"),
        other => known(other),
    };
    let kind = match found.category {
        "pc" => Some("desktop"),
        "smartphone" | "mobilephone" => Some("mobile"),
        "appliance" if found.os.contains("TV") => Some("tv"),
        "appliance" => Some("console"),
        "crawler" => Some("bot"),
        _ => None,
    };
    // A library is no browser.
    let browser = known(found.name).filter(|_| found.category != "misc");
    Agent { kind, os, browser }
}

/// A word of woothee's lists, kept for good: they are short, and events borrow them.
fn kept(word: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = kept.get(word) {
        return word;
    }
    let word: &'static str = Box::leak(word.into());
    kept.insert(word);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_words_are_told() {
        let told = |agent: &str| {
            let agent = of(Some(agent), None)?;
            Some([agent.kind, agent.os, agent.browser].map(Option::unwrap_or_default).join("|"))
        };
        for (agent, expected) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0.0.0 Safari/537.36",
                Some("desktop|Linux|Chrome"),
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1",
                Some("mobile|iOS|Safari"),
            ),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:130.0) Gecko/20100101 Firefox/130.0 pat@example.com",
                Some("desktop|Windows|Firefox"),
            ),
            ("analytics-node-next/latest pat@example.com", None),
        ] {
            assert_eq!(told(agent).as_deref(), expected, "{agent}");
        }
    }
}
