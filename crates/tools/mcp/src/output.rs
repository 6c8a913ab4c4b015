//! The last lines that a server wrote to its error output, for messages about a failed start.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of lines that are kept.
const LINES: usize = 3;
/// Maximum length of a kept line, in characters.
const MAX_LINE: usize = 200;

/// The last lines. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputTail(Arc<Mutex<VecDeque<String>>>);

impl OutputTail {
    pub(crate) fn push(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LINES {
            lines.pop_front();
        }
        lines.push_back(line.chars().take(MAX_LINE).collect());
    }

    /// Returns the lines as one; empty if there are none.
    pub(crate) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Vec::from_iter(lines.iter().map(String::as_str)).join(" / ")
    }
}
