//! Tables that a platform shows natively.
//!
//! Decision: a table that fits is sent whole, in a part with the text around it, at most one in a
//! part. The blocks of a part repeat its text, so that nothing is lost if the platform refuses
//! them. A table that does not fit is text; nothing is left out of a table to make it fit.

use std::ops::Range;

use nanobot_markup::{Block, Document, Markup, Measure, Table, TableLimits};

use crate::part::{RenderedPart, pieces};
use crate::part_by_part::parts;

/// Renders a document in as many parts as its tables and the limit require.
pub(crate) fn render(
    document: &Document,
    markup: &dyn Markup,
    measure: Measure,
    limit: usize,
    limits: &TableLimits,
) -> Vec<RenderedPart> {
    let writer = TableWriter {
        markup,
        measure,
        limit,
        limits,
    };
    let shown = document
        .tables
        .iter()
        .filter(|(_, table)| writer.takes(table))
        .take(limits.tables);
    let mut ends: Vec<usize> = shown.map(|(range, _)| range.end).collect();
    // The text after the last table stays with it.
    ends.pop();
    let mut start = 0;
    let mut ranges = Vec::new();
    for end in ends.into_iter().chain([document.text.len()]) {
        ranges.push(start..end);
        start = end;
    }
    pieces(document, ranges)
        .iter()
        .flat_map(|piece| writer.piece(piece))
        .collect()
}

struct TableWriter<'a> {
    markup: &'a dyn Markup,
    measure: Measure,
    limit: usize,
    limits: &'a TableLimits,
}

impl TableWriter<'_> {
    /// Returns `true` if a table is within the limits.
    fn takes(&self, table: &Table) -> bool {
        let rows = &table.rows;
        rows.len() <= self.limits.rows
            && rows.iter().all(|row| row.len() <= self.limits.columns)
            && rows.iter().flatten().any(|cell| !cell.trim().is_empty())
            && self.size(table) <= self.limits.cells
    }

    fn size(&self, table: &Table) -> usize {
        table
            .rows
            .iter()
            .flatten()
            .map(|cell| self.measure.of(cell).max(1))
            .sum()
    }

    /// Renders a piece that shows at most one table natively: in one part, or else in one for the
    /// table and others for the text around it.
    fn piece(&self, piece: &Document) -> Vec<RenderedPart> {
        let Some((range, table)) = piece.tables.iter().find(|(_, table)| self.takes(table)) else {
            return self.parts(piece);
        };
        if let Some(part) = self.part(piece, range, table) {
            return vec![part];
        }
        let around = pieces(
            piece,
            vec![0..range.start, range.clone(), range.end..piece.text.len()],
        );
        let [before, alone, after] = around.as_slice() else {
            return self.parts(piece);
        };
        let part = self.part(alone, &(0..alone.text.len()), table);
        let mut parts = self.parts(before);
        parts.extend(part.map_or_else(|| self.parts(alone), |part| vec![part]));
        parts.extend(self.parts(after));
        parts
    }

    /// Returns one part with a table and the text around it, or `None` if that does not fit.
    fn part(&self, piece: &Document, range: &Range<usize>, table: &Table) -> Option<RenderedPart> {
        let mut parts = self.parts(piece);
        let mut part = parts.pop().filter(|_| parts.is_empty())?;
        let around = pieces(piece, vec![0..range.start, range.end..piece.text.len()]);
        let mut around = around.iter().map(|text| self.blocks(text));
        let (before, after) = (
            around.next().unwrap_or_default(),
            around.next().unwrap_or_default(),
        );
        let texts = before
            .iter()
            .chain(&after)
            .map(|text| self.measure.of(text))
            .sum::<usize>();
        if texts + self.size(table) > self.limits.total {
            return None;
        }
        part.blocks.extend(before.into_iter().map(Block::Text));
        part.blocks.push(Block::Table(table.clone()));
        part.blocks.extend(after.into_iter().map(Block::Text));
        Some(part)
    }

    fn parts(&self, piece: &Document) -> Vec<RenderedPart> {
        parts(piece, self.markup, self.measure, self.limit)
    }

    /// Splits a text into blocks.
    fn blocks(&self, text: &Document) -> Vec<String> {
        let limit = self.limit.min(self.limits.text);
        parts(text, self.markup, self.measure, limit)
            .into_iter()
            .map(|part| part.text)
            .collect()
    }
}
