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

    /// Returns the beginnings of addresses that the platform accepts as the target of a link
    /// (`https://`). Any other address is written into the text after the words of its link; with
    /// none, every address is.
    fn link_schemes(&self) -> &'static [&'static str];

    /// Returns the overhead of this markup, where the platform counts a text with its markup.
    /// `None` where it counts the text alone.
    fn overhead(&self) -> Option<&dyn Overhead>;

    /// Returns the limits of native tables, where the platform has them. `None` shows tables as
    /// aligned text.
    fn table_limits(&self) -> Option<TableLimits> {
        None
    }
}

/// The most that a markup adds to the length of a text. Splitting relies on it: a part that adds more
/// than this says is sent as plain text if it exceeds the limit.
pub trait Overhead {
    /// Returns the most that escaping adds to `c`.
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize;

    /// Returns the most that `mark` adds to a line of `text`, at both ends together. For a code block
    /// it is what the block adds as a whole.
    fn of_mark(&self, mark: &Mark, text: &str, measure: Measure) -> usize;
}

/// The limits of native tables. A table beyond them is shown as text; no cell is ever left out. All
/// lengths are in the [`Measure`] of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLimits {
    /// The most native tables of one text, since each of them takes a part of its own.
    pub tables: usize,
    /// The most rows of a table, the header included.
    pub rows: usize,
    /// The most columns of a table.
    pub columns: usize,
    /// The most text in all cells of a table together; an empty cell counts as 1.
    pub cells: usize,
    /// The longest text block before or after a table.
    pub text: usize,
    /// The most text in all blocks of a part together.
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
