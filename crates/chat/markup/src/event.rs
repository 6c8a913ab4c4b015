//! The events of the Markdown parser, for markups that render a text as a whole.
//!
//! Decision: these are our own types, so that a markup does not depend on the parser's library.
//! Only the events that the parser is configured to report are here: CommonMark with tables, task
//! lists and strikethrough.

use std::borrow::Cow;
use std::fmt;

/// A markup that renders a text in one part.
pub trait WholeMarkup: fmt::Debug + Send + Sync {
    /// Renders the text of which the parser reports `events`. Starts and ends are balanced.
    fn render<'a>(&self, events: &mut dyn Iterator<Item = Event<'a>>) -> String;
}

/// A step of the parser through a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An element begins.
    Start(Tag<'a>),
    /// The innermost open element ends.
    End(TagEnd),
    /// Text, raw HTML included: it is shown as it is.
    Text(Cow<'a, str>),
    /// Code within a line.
    Code(Cow<'a, str>),
    /// A line break within a paragraph, from a line end of the source or from `<br>`.
    LineBreak,
    /// A thematic break.
    Rule,
    /// The check box at the beginning of a list item.
    TaskMarker {
        /// `true` if it is checked.
        done: bool,
    },
}

/// The beginning of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag<'a> {
    /// A paragraph.
    Paragraph,
    /// A heading.
    Heading {
        /// 1 is the highest, 6 the lowest.
        level: u8,
    },
    /// A block quote.
    Quote,
    /// A code block.
    CodeBlock {
        /// The first word after the opening fence, or an empty text.
        language: Cow<'a, str>,
    },
    /// A list.
    List {
        /// The number of the first item, in a numbered list.
        first: Option<u64>,
    },
    /// A list item.
    Item,
    /// A table.
    Table {
        /// The alignment of each column.
        alignments: Vec<Alignment>,
    },
    /// The header row of a table.
    TableHead,
    /// Another row of a table.
    TableRow,
    /// A cell of a row.
    TableCell,
    /// Emphasis.
    Italic,
    /// Strong emphasis.
    Bold,
    /// Strikethrough.
    Strike,
    /// A link or an image.
    Link {
        /// The address.
        url: Cow<'a, str>,
    },
    /// A block of raw HTML; its text is the source.
    Html,
}

/// The end of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagEnd {
    /// A paragraph.
    Paragraph,
    /// A heading.
    Heading,
    /// A block quote.
    Quote,
    /// A code block.
    CodeBlock,
    /// A list.
    List,
    /// A list item.
    Item,
    /// A table.
    Table,
    /// The header row of a table.
    TableHead,
    /// Another row of a table.
    TableRow,
    /// A cell of a row.
    TableCell,
    /// Emphasis.
    Italic,
    /// Strong emphasis.
    Bold,
    /// Strikethrough.
    Strike,
    /// A link or an image.
    Link,
    /// A block of raw HTML.
    Html,
}

/// The alignment of a table column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// No alignment given; shown like [`Alignment::Left`].
    None,
    /// Left.
    Left,
    /// Centred.
    Center,
    /// Right.
    Right,
}
