//! How a command ends when it does not end well: one sentence, the chain of causes, and what to do next.

use std::process::ExitCode;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    Done,
    Failed,
    /// Wrong usage or configuration.
    Usage,
    /// Stopped, with work left on disk that the next start goes on with.
    WorkLeft,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::WorkLeft => 3,
        })
    }
}

#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    error: anyhow::Error,
    next: Option<String>,
}

impl Failure {
    pub fn failed(error: impl Into<anyhow::Error>) -> Failure {
        Failure { exit: Exit::Failed, error: error.into(), next: None }
    }
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, error: anyhow::Error::msg(message.into()), next: None }
    }
    pub fn configuration(error: &crate::config::ConfigError) -> Failure {
        Failure::usage(error.to_string())
            .next("`forebay config init -` prints every key with its default; docs/configuration.md explains them")
    }
    /// What the person can do about it.
    pub fn next(mut self, next: impl Into<String>) -> Failure {
        self.next = Some(next.into());
        self
    }
    /// The same, where nothing better is known.
    pub fn or_next(self, next: &str) -> Failure {
        if self.next.is_some() { self } else { self.next(next) }
    }
    pub fn into_error(self) -> anyhow::Error {
        self.error
    }
    pub fn print(&self) {
        eprint!("{}", self.text());
    }
    fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.error);
        for cause in self.error.chain().skip(1) {
            text.push_str(&format!("  because: {cause}\n"));
        }
        if let Some(next) = &self.next {
            text.push_str(&format!("  next: {next}\n"));
        }
        text
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::failed(error)
    }
}

/// Says what to do next where an error is met.
pub trait Next<T> {
    fn or_next(self, next: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Next<T> for Result<T, E> {
    fn or_next(self, next: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::failed(error).next(next()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn one_sentence_the_causes_and_what_to_do() {
        let error =
            std::fs::read("/no/such/file").context("the key file cannot be read").or_next(|| "name another by --key-file".to_owned());
        let text = error.expect_err("no such file").text();
        assert_eq!(
            text,
            "error: the key file cannot be read\n  because: No such file or directory (os error 2)\n  next: name another by --key-file\n"
        );
    }
}
