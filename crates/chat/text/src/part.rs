//! The parts of a document.

use std::ops::Range;

use nanobot_markup::{Block, Document, Mark, Measure, Span, slice};

/// One part of a message, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPart {
    /// The text in the platform's markup.
    pub text: String,
    /// The same text without markup.
    pub plain: String,
    /// The same as `text` in pieces, if it has a table that the platform shows natively; at most
    /// one of them is a table.
    pub blocks: Vec<Block>,
}

impl RenderedPart {
    /// Creates a part without a native table.
    #[must_use]
    pub fn of_text(text: String, plain: String) -> Self {
        Self {
            text,
            plain,
            blocks: Vec::new(),
        }
    }
}

/// Returns the pieces of a document, with the marks clipped; a table that is cut is text alone. The
/// ranges ascend and do not overlap.
pub(crate) fn pieces(document: &Document, ranges: Vec<Range<usize>>) -> Vec<Document> {
    let mut reaching: Vec<&Span> = Vec::new();
    let mut spans = document.spans.iter().peekable();
    let mut blocks = document.blocks.iter().peekable();
    let mut tables = document.tables.iter().peekable();
    let mut pieces = Vec::with_capacity(ranges.len());
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
        let mut piece = Document {
            text: slice(&document.text, range.clone()).to_owned(),
            spans: clipped.collect(),
            ..Document::default()
        };
        while let Some(at) = blocks.next_if(|at| **at < range.end) {
            piece
                .blocks
                .extend(at.checked_sub(range.start).filter(|at| *at > 0));
        }
        while let Some((within, table)) = tables.next_if(|(within, _)| within.start < range.end) {
            if within.start >= range.start && within.end <= range.end {
                piece
                    .tables
                    .push((clip(within.start)..clip(within.end), table.clone()));
            }
        }
        pieces.push(piece);
    }
    pieces
}

/// Returns the text of a document with the addresses of its links after their words, as far as
/// `limit` has room for them.
pub(crate) fn plain(document: &Document, measure: Measure, limit: usize) -> String {
    let text = &document.text;
    let mut plain = String::new();
    let mut room = limit.saturating_sub(measure.of(text));
    let mut at = 0;
    for span in &document.spans {
        let Mark::Link { url } = &span.mark else {
            continue;
        };
        if url == slice(text, span.range.clone()) {
            continue;
        }
        let spelled = format!(" ({url})");
        let Some(left) = room.checked_sub(measure.of(&spelled)) else {
            continue;
        };
        room = left;
        plain.push_str(slice(text, at..span.range.end));
        plain.push_str(&spelled);
        at = span.range.end;
    }
    plain.push_str(slice(text, at..text.len()));
    plain
}
