//! Text with styles, before it is wrapped and written.

use std::ops::Range;

use super::style::{Brush, Ink};
use super::wrap;
use crate::output::Palette;

/// Rule between blocks and between records.
pub(super) const RULE: &str = "────────";

/// One line of text with styles.
#[derive(Clone, Debug, Default)]
pub(super) struct StyledText {
    text: String,
    /// Style changes, in the order of their offsets.
    runs: Vec<Run>,
}

/// A style that applies from an offset to the next run.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: usize,
    ink: Ink,
}

impl StyledText {
    /// Returns text in one style.
    pub(super) fn of(text: &str, ink: Ink) -> Self {
        let mut line = Self::default();
        line.push(text, ink);
        line
    }

    /// Appends text in a style.
    pub(super) fn push(&mut self, text: &str, ink: Ink) {
        if text.is_empty() {
            return;
        }
        if self.runs.last().is_none_or(|run| run.ink != ink) {
            let start = self.text.len();
            self.runs.push(Run { start, ink });
        }
        self.text.push_str(text);
    }

    /// Appends part of another text; `ink` is added to its styles.
    pub(super) fn push_part(&mut self, other: &Self, part: Range<usize>, ink: Ink) {
        other.each_run(part, |text, own| self.push(text, own.with(ink)));
    }

    /// Removes trailing white space.
    pub(super) fn trim_end(&mut self) {
        let length = self.text.trim_end().len();
        self.text.truncate(length);
        self.runs.retain(|run| run.start < length);
    }

    /// Returns the text without styles.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// `true` if there is no text.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the number of columns.
    pub(super) fn width(&self) -> usize {
        wrap::width(&self.text)
    }

    /// Writes part of the text with its styles.
    pub(super) fn paint(&self, part: Range<usize>, palette: Palette, out: &mut String) {
        let mut brush = Brush::new(palette);
        self.each_run(part, |text, ink| brush.write(text, ink, out));
        brush.end(out);
    }

    fn each_run(&self, part: Range<usize>, mut take: impl FnMut(&str, Ink)) {
        let first = self.runs.partition_point(|run| run.start <= part.start);
        let runs = self.runs.get(first.saturating_sub(1)..).unwrap_or_default();
        for (index, run) in runs.iter().enumerate() {
            if run.start >= part.end {
                break;
            }
            let end = runs
                .get(index + 1)
                .map_or(self.text.len(), |next| next.start);
            let shown = run.start.max(part.start)..end.min(part.end);
            take(self.text.get(shown).unwrap_or_default(), run.ink);
        }
    }
}
