//! The trait of a markup, and plain text as the simplest one.

use std::fmt;

use crate::{Document, Mark, Measure};

/// The markup of a platform. It has no state: a channel with options hands over a different one for
/// each.
pub trait Markup: fmt::Debug + Send + Sync {
    /// Renders a document, which is one part of a message or a text block of one. Writes all of
    /// its text, escaped so that the platform reads no markup in it, and is free to leave out marks
    /// that the platform cannot show.
    fn render(&self, document: &Document) -> String;

    /// Returns the schemes of addresses that the platform accepts as the target of a link, such as
    /// `https://`. Any other address is written into the text after the words of its link; if there
    /// are no schemes, every address is.
    fn link_schemes(&self) -> &'static [&'static str];

    /// Returns the overhead of this markup if the platform counts the markup as part of a text's
    /// length. `None` if it counts the text alone.
    fn overhead(&self) -> Option<&dyn Overhead>;

    /// Returns the limits of native tables if the platform has them. `None` shows tables as aligned
    /// text.
    fn table_limits(&self) -> Option<TableLimits> {
        None
    }
}

/// Upper bound of what a markup adds to the length of a text. Splitting relies on it: a part that
/// exceeds the limit because its markup adds more is sent as plain text.
pub trait Overhead {
    /// Returns the maximum length that escaping adds to `c`.
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize;

    /// Returns the maximum length that `mark` adds to a line of `text`, at both ends together. For
    /// a code block it is the total for the whole block.
    fn of_mark(&self, mark: &Mark, text: &str, measure: Measure) -> usize;
}

/// The limits of native tables. A table beyond them is shown as text; no cell is ever left out. All
/// lengths are in the [`Measure`] of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// Maximum number of native tables of one text, since each of them takes a part of its own.
    pub tables: usize,
    /// Maximum number of rows of a table, including the header.
    pub rows: usize,
    /// Maximum number of columns of a table.
    pub columns: usize,
    /// Maximum length of the text in all cells of a table together; an empty cell counts as 1.
    pub cells: usize,
    /// Maximum length of a text block before or after a table.
    pub text: usize,
    /// Maximum length of the text in all blocks of a part together.
    pub total: usize,
}

/// Plain text without any markup. Addresses of links are written into the text.
#[derive(Clone, Copy, Debug)]
pub struct PlainText;

impl Markup for PlainText {
    fn render(&self, document: &Document) -> String {
        document.text.clone()
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        &[]
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        None
    }
}
