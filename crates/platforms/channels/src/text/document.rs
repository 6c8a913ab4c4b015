//! The document model: flat text and the marks on it.

use std::ops::Range;

use nanobot_channel::Measure;

use super::build::Builder;
use super::slice::slice;
use super::table::Table;

/// What a stretch of text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// What stands over a section.
    Heading {
        /// 1 is the highest, 6 the lowest.
        level: u8,
    },
    /// Strong text.
    Bold,
    /// Emphasis.
    Italic,
    /// Struck through.
    Strike,
    /// Code within a line.
    Code,
    /// A block of code or a table, in the language `info` when it has one.
    Pre {
        /// The first word after the opening fence.
        info: String,
    },
    /// Text that leads somewhere.
    Link {
        /// Where.
        url: String,
    },
    /// An address that stands in the text itself.
    Address,
    /// What a platform itself writes for a person, a room or a picture: `<@123>`.
    Reference,
    /// The bullet or number of a list item, without the space behind it.
    Item,
    /// Somebody else's words.
    Quote,
}

impl Mark {
    /// Whether it is a block of code, in which only lines count.
    pub(super) fn is_pre(&self) -> bool {
        matches!(self, Self::Pre { .. })
    }
}

/// A mark and the bytes of the text it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Never empty, on character boundaries.
    pub(super) range: Range<usize>,
    /// What is there.
    pub(super) mark: Mark,
}

/// Where the addresses of links go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// Into a [`Mark::Link`], where the platform follows such an address.
    Marked {
        /// How the addresses begin that the platform follows.
        schemes: &'static [&'static str],
        /// How many bytes an address may have; a longer one is spelled.
        longest: usize,
    },
    /// Into the text, behind the words of the link.
    Spelled,
}

/// Flat text, its marks (properly nested, the outer before the inner), where its blocks begin, and
/// the tables that stand in it as text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// All that is to be read.
    pub(super) text: String,
    /// What is how.
    pub(super) spans: Vec<Span>,
    /// Where a new part reads best, ascending.
    pub(super) blocks: Vec<usize>,
    /// Tables and the bytes of the text that say the same, ascending and apart.
    pub(super) tables: Vec<(Range<usize>, Table)>,
}

impl Document {
    /// Reads Markdown: CommonMark with tables, task lists and strikethrough.
    pub(super) fn parse(markdown: &str, links: Links) -> Self {
        Builder::new(links).read(markdown)
    }

    /// Pieces of it, with the marks clipped; a table that is cut is text alone. The ranges ascend and
    /// do not overlap.
    pub(super) fn parts(&self, ranges: Vec<Range<usize>>) -> Vec<Self> {
        let mut reaching: Vec<&Span> = Vec::new();
        let mut spans = self.spans.iter().peekable();
        let mut blocks = self.blocks.iter().peekable();
        let mut tables = self.tables.iter().peekable();
        let mut parts = Vec::with_capacity(ranges.len());
        for range in ranges {
            reaching.retain(|span| span.range.end > range.start);
            while let Some(span) = spans.next_if(|span| span.range.start < range.end) {
                if span.range.end > range.start {
                    reaching.push(span);
                }
            }
            let clip = |at: usize| at.clamp(range.start, range.end) - range.start;
            let clipped = reaching.iter().map(|span| Span {
                range: clip(span.range.start)..clip(span.range.end),
                mark: span.mark.clone(),
            });
            let text = slice(&self.text, range.clone()).to_owned();
            let mut part = Self {
                text,
                spans: clipped.collect(),
                ..Self::default()
            };
            while let Some(at) = blocks.next_if(|at| **at < range.end) {
                part.blocks
                    .extend(at.checked_sub(range.start).filter(|at| *at > 0));
            }
            while let Some((within, table)) = tables.next_if(|(within, _)| within.start < range.end)
            {
                if within.start >= range.start && within.end <= range.end {
                    part.tables
                        .push((clip(within.start)..clip(within.end), table.clone()));
                }
            }
            parts.push(part);
        }
        parts
    }

    /// The text with the addresses of its links spelled out, as far as `limit` leaves room.
    pub(super) fn plain(&self, measure: Measure, limit: usize) -> String {
        let mut plain = String::new();
        let mut room = limit.saturating_sub(measure.of(&self.text));
        let mut at = 0;
        for span in &self.spans {
            let Mark::Link { url } = &span.mark else {
                continue;
            };
            if url == slice(&self.text, span.range.clone()) {
                continue;
            }
            let spelled = format!(" ({url})");
            let Some(left) = room.checked_sub(measure.of(&spelled)) else {
                continue;
            };
            room = left;
            plain.push_str(slice(&self.text, at..span.range.end));
            plain.push_str(&spelled);
            at = span.range.end;
        }
        plain.push_str(slice(&self.text, at..self.text.len()));
        plain
    }
}
