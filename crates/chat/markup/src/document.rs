//! The document model: flat text and marks on ranges of it.

use std::ops::Range;

use crate::Table;

/// The meaning of a range of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The heading of a section.
    Heading {
        /// 1 is the highest, 6 the lowest.
        level: u8,
    },
    /// Strong emphasis.
    Bold,
    /// Emphasis.
    Italic,
    /// Strikethrough.
    Strike,
    /// Code within a line.
    Code,
    /// A code block, or a table as aligned text.
    Pre {
        /// The language: the first word after the opening fence, at most 32 bytes, or an empty
        /// text.
        info: String,
    },
    /// Text that links to an address.
    Link {
        /// The address. It begins with one of the markup's
        /// [`link_schemes`](crate::Markup::link_schemes).
        url: String,
    },
    /// A web address in the text itself, or a piece of one that was cut.
    Address,
    /// A mention of a user or a channel, a custom emoji or a time in angle brackets, as several
    /// chat platforms write it (`<@123>`), or a piece of one that was cut.
    Reference,
    /// The bullet or number of a list item, without the space after it.
    Item,
    /// A block quote.
    Quote,
}

impl Mark {
    /// Returns `true` for a code block, which is split between lines only.
    #[must_use]
    pub fn is_pre(&self) -> bool {
        matches!(self, Self::Pre { .. })
    }

    /// Returns `true` if the marked text is literal: it takes no marks inside and cannot be
    /// escaped.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        matches!(
            self,
            Self::Code | Self::Address | Self::Reference | Self::Item
        )
    }
}

/// A mark and the bytes of the text that it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The range, never empty, on character boundaries.
    pub range: Range<usize>,
    /// The mark.
    pub mark: Mark,
}

/// Flat text and what is known about ranges of it. Lists, rules and check boxes are characters of
/// the text; tables are in it as text, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The text.
    pub text: String,
    /// The marks, properly nested, the outer one before the inner one.
    pub spans: Vec<Span>,
    /// Start offsets of blocks such as paragraphs, ascending: the best places to split.
    pub blocks: Vec<usize>,
    /// The tables and the ranges of the text that show them, ascending and disjoint.
    pub tables: Vec<(Range<usize>, Table)>,
}
