//! Tables that a platform shows itself.
//!
//! Decision: a table that fits goes whole, in a part with the text around it, one to a part. What the
//! part says in blocks it says as text too, so that nothing depends on the platform taking them. What
//! does not fit is text like anywhere else; nothing is left out of a table to make it fit.

use std::ops::Range;

use nanobot_channel::{Block, TextStyle};

use super::document::Document;
use super::lines::Markup;
use super::table::Table;
use super::{RenderedPart, cut};

/// What fits into a part with a table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// How many tables of one text are shown so: each of them takes a message.
    pub(super) tables: usize,
    /// How many rows a table has, the head included.
    pub(super) rows: usize,
    /// How many columns it has.
    pub(super) columns: usize,
    /// How much stands in all its cells.
    pub(super) cells: usize,
    /// How much text stands in one block.
    pub(super) text: usize,
    /// How much stands in all blocks.
    pub(super) all: usize,
}

/// Renders a document, in as many parts as its tables and the limit ask for.
pub(super) fn render(
    document: &Document,
    markup: &dyn Markup,
    style: TextStyle,
    room: &Room,
) -> Vec<RenderedPart> {
    let writer = Writer {
        markup,
        style,
        room,
    };
    let shown = document
        .tables
        .iter()
        .filter(|(_, table)| writer.takes(table))
        .take(room.tables);
    let mut ends: Vec<usize> = shown.map(|(range, _)| range.end).collect();
    // What stands behind the last table stays with it.
    ends.pop();
    let mut start = 0;
    let mut ranges = Vec::new();
    for end in ends.into_iter().chain([document.text.len()]) {
        ranges.push(start..end);
        start = end;
    }
    document
        .parts(ranges)
        .iter()
        .flat_map(|piece| writer.piece(piece))
        .collect()
}

struct Writer<'a> {
    markup: &'a dyn Markup,
    style: TextStyle,
    room: &'a Room,
}

impl Writer<'_> {
    /// Whether a table can be shown.
    fn takes(&self, table: &Table) -> bool {
        let rows = table.rows();
        rows.len() <= self.room.rows
            && rows.iter().all(|row| row.len() <= self.room.columns)
            && rows.iter().flatten().any(|cell| !cell.trim().is_empty())
            && self.size(table) <= self.room.cells
    }

    fn size(&self, table: &Table) -> usize {
        table
            .rows()
            .iter()
            .flatten()
            .map(|cell| self.style.measure.of(cell).max(1))
            .sum()
    }

    /// Renders a piece of which one table at most is to be shown: in one part, or else in one for the
    /// table and others around it.
    fn piece(&self, piece: &Document) -> Vec<RenderedPart> {
        let Some((range, table)) = piece.tables.iter().find(|(_, table)| self.takes(table)) else {
            return self.cut(piece);
        };
        if let Some(part) = self.part(piece, range, table) {
            return vec![part];
        }
        let around = piece.parts(vec![
            0..range.start,
            range.clone(),
            range.end..piece.text.len(),
        ]);
        let [before, alone, behind] = around.as_slice() else {
            return self.cut(piece);
        };
        let part = self.part(alone, &(0..alone.text.len()), table);
        let mut parts = self.cut(before);
        parts.extend(part.map_or_else(|| self.cut(alone), |part| vec![part]));
        parts.extend(self.cut(behind));
        parts
    }

    /// One part with a table and what stands around it, if that fits.
    fn part(&self, piece: &Document, range: &Range<usize>, table: &Table) -> Option<RenderedPart> {
        let mut parts = self.cut(piece);
        let mut part = parts.pop().filter(|_| parts.is_empty())?;
        let around = piece.parts(vec![0..range.start, range.end..piece.text.len()]);
        let mut around = around.iter().map(|text| self.blocks(text));
        let (before, behind) = (
            around.next().unwrap_or_default(),
            around.next().unwrap_or_default(),
        );
        let texts = before
            .iter()
            .chain(&behind)
            .map(|text| self.style.measure.of(text))
            .sum::<usize>();
        if texts + self.size(table) > self.room.all {
            return None;
        }
        let shown = nanobot_channel::Table {
            rows: table.rows().to_vec(),
            right: table.right().to_vec(),
        };
        part.blocks.extend(before.into_iter().map(Block::Text));
        part.blocks.push(Block::Table(shown));
        part.blocks.extend(behind.into_iter().map(Block::Text));
        Some(part)
    }

    fn cut(&self, piece: &Document) -> Vec<RenderedPart> {
        cut(piece, self.markup, self.style)
    }

    /// Text in blocks.
    fn blocks(&self, text: &Document) -> Vec<String> {
        let style = TextStyle {
            limit: self.style.limit.min(self.room.text),
            ..self.style
        };
        cut(text, self.markup, style)
            .into_iter()
            .map(|part| part.text)
            .collect()
    }
}
