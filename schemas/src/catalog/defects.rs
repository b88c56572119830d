//! What is wrong in one file, gathered while it is read: all of it is told at once.
//!
//! Owns: the list, in which nothing stands twice (a definition may be used many times). Does not own: lines (`place`).

use super::{CatalogError, place};

#[derive(Default)]
pub(super) struct Defects(Vec<(String, String)>);

impl Defects {
    pub(super) fn add(&mut self, pointer: &str, message: impl Into<String>) {
        let defect = (pointer.to_string(), message.into());
        if !self.0.contains(&defect) {
            self.0.push(defect);
        }
    }

    pub(super) fn in_file(self, file: &str, text: &str) -> impl Iterator<Item = CatalogError> {
        self.0.into_iter().map(move |(pointer, message)| CatalogError {
            file: file.to_string(),
            line: Some(place::line(text, &pointer)),
            pointer,
            message,
        })
    }
}
