//! The document model: flat text and the marks on it.

use std::ops::Range;

use nanobot_channel::Measure;

use super::build::Builder;
use super::slice::slice;

/// What a stretch of text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Strong text and headings.
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
    /// Somebody else's words.
    Quote,
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
    /// Into a [`Mark::Link`].
    Marked,
    /// Into the text, behind the words of the link.
    Spelled,
}

/// Flat text, its marks (properly nested, the outer before the inner), and where its blocks begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    /// All that is to be read.
    pub(super) text: String,
    /// What is how.
    pub(super) spans: Vec<Span>,
    /// Where a new part reads best, ascending.
    pub(super) blocks: Vec<usize>,
}

impl Document {
    /// Reads Markdown: CommonMark with tables, task lists and strikethrough.
    pub(super) fn parse(markdown: &str, links: Links) -> Self {
        Builder::new(links).read(markdown)
    }

    /// A piece of it, with the marks clipped.
    pub(super) fn part(&self, range: Range<usize>) -> Self {
        let text = slice(&self.text, range.clone()).to_owned();
        let clip = |at: usize| at.clamp(range.start, range.end) - range.start;
        let spans = self
            .spans
            .iter()
            .map(|span| Span { range: clip(span.range.start)..clip(span.range.end), mark: span.mark.clone() })
            .filter(|span| !span.range.is_empty())
            .collect();
        Self { text, spans, blocks: Vec::new() }
    }

    /// The text with the addresses of its links spelled out, as far as `limit` leaves room.
    pub(super) fn plain(&self, measure: Measure, limit: usize) -> String {
        let mut plain = String::new();
        let mut room = limit.saturating_sub(measure.of(&self.text));
        let mut at = 0;
        for span in &self.spans {
            let Mark::Link { url } = &span.mark else { continue };
            if url == slice(&self.text, span.range.clone()) {
                continue;
            }
            let spelled = format!(" ({url})");
            let Some(left) = room.checked_sub(measure.of(&spelled)) else { continue };
            room = left;
            plain.push_str(slice(&self.text, at..span.range.end));
            plain.push_str(&spelled);
            at = span.range.end;
        }
        plain.push_str(slice(&self.text, at..self.text.len()));
        plain
    }
}
