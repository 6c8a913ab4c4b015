//! Reads a text from its beginning to its end.

use nanobot_provider::parse_lenient;
use serde_json::Value;

/// The part of a text that is not read yet.
#[derive(Clone, Copy)]
pub(super) struct Reader<'t>(&'t str);

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self(text)
    }

    pub(super) fn rest(self) -> &'t str {
        self.0
    }

    /// Returns `true` if this word is next, after white space.
    pub(super) fn is_at(self, word: &str) -> bool {
        self.0.trim_start().starts_with(word)
    }

    /// Skips white space and this word. Returns `false` and moves nothing if it is not next.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        let after = self.0.trim_start().strip_prefix(word);
        self.0 = after.unwrap_or(self.0);
        after.is_some()
    }

    /// Skips to the end of this word and returns the text before it. Returns `None` and moves
    /// nothing if it does not follow.
    pub(super) fn until(&mut self, word: &str) -> Option<&'t str> {
        let (before, after) = self.0.split_once(word)?;
        self.0 = after;
        Some(before)
    }

    /// Skips to the end of this word, or of the text, and returns the text before it.
    pub(super) fn until_or_end(&mut self, word: &str) -> &'t str {
        let found = (!word.is_empty()).then(|| self.until(word)).flatten();
        found.unwrap_or_else(|| std::mem::take(&mut self.0))
    }

    /// Skips `count` bytes, which have to end at a character, and returns them.
    pub(super) fn take(&mut self, count: usize) -> Option<&'t str> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// Skips the mark of a block of code.
    pub(super) fn eat_fence(&mut self) {
        if self.eat("```") {
            self.eat("json");
        }
    }

    /// Skips a JSON value, perhaps in a block of code, and returns it. Moves nothing if there is
    /// none.
    pub(super) fn json(&mut self) -> Result<Value, String> {
        let mut ahead = *self;
        ahead.eat_fence();
        let (value, after) = parse_lenient(ahead.0)?;
        *self = Self(after);
        self.eat_fence();
        Ok(value)
    }

    /// Skips the name of a tool and returns it. Returns `None` and moves nothing if there is none.
    pub(super) fn name(&mut self) -> Option<&'t str> {
        let text = self.0.trim_start();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':');
        let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at_checked(end)?;
        if name.is_empty() {
            return None;
        }
        self.0 = rest;
        Some(name)
    }
}
