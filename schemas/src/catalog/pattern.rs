//! Thing ids: which regular expressions cannot let a person's text through.
//!
//! Owns: a small reader of the part of ECMA regular expressions that such patterns need. What it cannot read, it refuses.
//! Does not own: matching (the enricher's JSON Schema validator).
//! Invariant: a string that matches an accepted pattern has no white space and no `@`, and at most
//! `limit::THING_ID_CHARS` characters.

use crate::limit;
use std::iter::Peekable;
use std::str::Chars;

/// `Err` says what is wrong with the pattern.
pub(super) fn thing_id(pattern: &str) -> Result<(), String> {
    if pattern.len() > limit::THING_ID_PATTERN_BYTES {
        return Err(format!("is longer than {} bytes", limit::THING_ID_PATTERN_BYTES));
    }
    let mut reader = Reader { rest: pattern.chars().peekable(), depth: 0 };
    if reader.rest.next() != Some('^') {
        return Err("must begin with ^".to_string());
    }
    let longest = reader.sequence()?;
    match (reader.rest.next(), reader.rest.next()) {
        (Some('$'), None) => {}
        (Some('|'), _) => return Err("has a | outside of brackets, so it is not anchored".to_string()),
        _ => return Err("must end with $".to_string()),
    }
    if longest > limit::THING_ID_CHARS {
        return Err(format!("allows {longest} characters, at most {} may be", limit::THING_ID_CHARS));
    }
    Ok(())
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
    depth: usize,
}

impl Reader<'_> {
    /// Reads up to `|`, `)`, `$` or the end; the longest match in characters.
    fn sequence(&mut self) -> Result<usize, String> {
        let mut longest: usize = 0;
        while let Some(&c) = self.rest.peek() {
            if matches!(c, '|' | ')' | '$') {
                break;
            }
            self.rest.next();
            let atom = match c {
                '(' => self.group()?,
                '[' => self.class()?,
                '\\' => self.escape()?,
                '.' => return Err("has a . that admits anything".to_string()),
                '^' | '*' | '+' | '?' | '{' | '}' | ']' => return Err(format!("has a {c} where none is understood")),
                _ => plain(c)?,
            };
            longest = longest.saturating_add(atom.saturating_mul(self.repeat()?));
        }
        Ok(longest)
    }

    fn group(&mut self) -> Result<usize, String> {
        self.depth += 1;
        if self.depth > 16 {
            return Err("nests too deep".to_string());
        }
        if self.rest.peek() == Some(&'?') {
            self.rest.next();
            if self.rest.next() != Some(':') {
                return Err("has a group other than (…) and (?:…)".to_string());
            }
        }
        let mut longest = self.sequence()?;
        while self.rest.peek() == Some(&'|') {
            self.rest.next();
            longest = longest.max(self.sequence()?);
        }
        if self.rest.next() != Some(')') {
            return Err("has a group that does not end".to_string());
        }
        self.depth -= 1;
        Ok(longest)
    }

    /// How often at most the atom before may stand.
    fn repeat(&mut self) -> Result<usize, String> {
        let most = match self.rest.peek() {
            Some('*' | '+') => return Err("has a * or + without a bound: write {1,64}".to_string()),
            Some('?') => {
                self.rest.next();
                1
            }
            Some('{') => {
                self.rest.next();
                let text: String = std::iter::from_fn(|| self.rest.next_if(|c| *c != '}')).collect();
                self.rest.next();
                let most = text.rsplit(',').next().unwrap_or_default();
                most.parse().map_err(|_| format!("has a bound {{{text}}} without a most"))?
            }
            _ => 1,
        };
        if self.rest.peek() == Some(&'?') {
            self.rest.next();
        }
        Ok(most)
    }

    /// After `[`. A negated class must name `\s` and `@`; another must not admit them.
    fn class(&mut self) -> Result<usize, String> {
        let negated = self.rest.next_if_eq(&'^').is_some();
        let (mut space, mut at) = (false, false);
        loop {
            let from = match self.rest.next().ok_or("has a class that does not end")? {
                ']' => break,
                '[' => return Err("has a [ inside of a class".to_string()),
                '\\' if negated && self.rest.next_if_eq(&'s').is_some() => {
                    space = true;
                    continue;
                }
                '\\' => match self.rest.peek() {
                    Some('d' | 'w') => {
                        self.rest.next();
                        continue;
                    }
                    _ => self.escaped()?,
                },
                c => c,
            };
            let to = match self.rest.next_if_eq(&'-') {
                Some(_) if self.rest.peek() != Some(&']') => match self.rest.next().ok_or("has a class that does not end")? {
                    '\\' => self.escaped()?,
                    c => c,
                },
                Some(_) => {
                    at |= from == '@';
                    if !negated {
                        admits(from, from)?;
                    }
                    continue;
                }
                None => from,
            };
            at |= (from..=to).contains(&'@');
            if !negated {
                admits(from, to)?;
            }
        }
        match negated && !(space && at) {
            true => Err("has a class [^…] that does not exclude both \\s and @".to_string()),
            false => Ok(1),
        }
    }

    /// After `\`, outside of a class.
    fn escape(&mut self) -> Result<usize, String> {
        if self.rest.next_if(|c| matches!(c, 'd' | 'w')).is_some() {
            return Ok(1);
        }
        let c = self.escaped()?;
        plain(c)
    }

    /// An escaped sign of punctuation stands for itself; other escapes are not understood.
    fn escaped(&mut self) -> Result<char, String> {
        match self.rest.next() {
            Some(c) if c.is_ascii_punctuation() => Ok(c),
            Some(c) => Err(format!("has a \\{c} that may admit white space or @, or is not understood")),
            None => Err("ends with \\".to_string()),
        }
    }
}

fn plain(c: char) -> Result<usize, String> {
    admits(c, c).map(|()| 1)
}

/// Refuses a range with white space or `@` in it.
fn admits(from: char, to: char) -> Result<(), String> {
    if (from..=to).contains(&'@') {
        return Err("admits @".to_string());
    }
    // All white space of Unicode lies below U+3001.
    if (from..=to.min('\u{3001}')).any(char::is_whitespace) {
        return Err("admits white space".to_string());
    }
    Ok(())
}
