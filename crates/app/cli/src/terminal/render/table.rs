//! A table whose columns are aligned by their displayed width and fit the terminal.
//!
//! Decision: a table that is too wide gives up the width of its widest columns first, and wraps
//! their cells. If even narrow columns do not fit, each row is a list of pairs.

use pulldown_cmark::Alignment;

use super::style::{BOLD, DIM, PLAIN};
use super::text::{RULE, StyledText};
use super::wrap;

/// Maximum number of cells of an aligned table, and maximum width of its columns and padding.
const ALIGNED_CELLS: usize = 20_000;
const ALIGNED_WIDTH: usize = 1 << 20;

/// Columns to which a column may shrink.
const NARROWEST: usize = 6;

/// Text between columns.
const BETWEEN: &str = " │ ";

/// A table that is read row by row; the first row is its header.
#[derive(Debug)]
pub(super) struct TerminalTable {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<StyledText>>,
    row: Vec<StyledText>,
}

impl TerminalTable {
    /// Returns an empty table with the alignments of its columns.
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self {
            alignments,
            rows: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Adds a cell.
    pub(super) fn end_cell(&mut self, cell: StyledText) {
        self.row.push(cell);
    }

    /// Ends a row.
    pub(super) fn end_row(&mut self) {
        let mut row = std::mem::take(&mut self.row);
        if !self.rows.is_empty() {
            let last = row.iter().rposition(|cell| !cell.is_empty());
            row.truncate(last.map_or(0, |last| last + 1));
            row.shrink_to_fit();
        }
        self.rows.push(row);
    }

    /// Returns the lines of the table in `room` columns, or in as many as it needs. A table that
    /// alignment would make too large is not aligned.
    pub(super) fn lines(self, room: Option<usize>) -> Vec<StyledText> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        if columns.saturating_mul(self.rows.len()) > ALIGNED_CELLS {
            return self.plain();
        }
        let mut natural = vec![0; columns];
        for row in &self.rows {
            for (width, cell) in natural.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let between = 3 * columns.saturating_sub(1);
        let lines = match room {
            None => self.aligned(&natural),
            Some(room) => match fitted(&natural, room.saturating_sub(between)) {
                Some(widths) => self.aligned(&widths),
                None => self.pairs(),
            },
        };
        lines.unwrap_or_else(|| self.plain())
    }

    /// Returns the rows with padded and wrapped cells; `None` if that is too much text.
    fn aligned(&self, widths: &[usize]) -> Option<Vec<StyledText>> {
        let total = widths.iter().sum::<usize>();
        if total.saturating_mul(self.rows.len()) > ALIGNED_WIDTH {
            return None;
        }
        let mut bodies = Vec::with_capacity(self.rows.len());
        let mut height = 0;
        for (index, row) in self.rows.iter().enumerate() {
            let lines = self.row_lines(row, widths, index == 0, ALIGNED_WIDTH / total.max(1))?;
            height += lines.len();
            if height.saturating_mul(total) > ALIGNED_WIDTH {
                return None;
            }
            bodies.push(lines);
        }
        let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let rule = StyledText::of(&rules.join("─┼─"), PLAIN);
        // Rows of several lines need a rule to be told apart.
        let is_ruled = bodies.iter().skip(1).any(|lines| lines.len() > 1);
        let mut lines = Vec::with_capacity(height + 1);
        for (index, body) in bodies.into_iter().enumerate() {
            if index == 1 || (is_ruled && index > 1) {
                lines.push(rule.clone());
            }
            lines.extend(body);
        }
        if self.rows.len() == 1 {
            lines.push(rule);
        }
        Some(lines)
    }

    /// Returns the lines of a row; `None` if they are more than `most`.
    fn row_lines(
        &self,
        row: &[StyledText],
        widths: &[usize],
        is_head: bool,
        most: usize,
    ) -> Option<Vec<StyledText>> {
        let parts: Vec<_> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| wrap::by_words(cell.as_str(), *width))
            .collect();
        let height = parts.iter().map(Vec::len).max().unwrap_or(1);
        if height > most {
            return None;
        }
        let ink = if is_head { BOLD } else { PLAIN };
        let lines = (0..height).map(|index| {
            let mut line = StyledText::default();
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    line.push(BETWEEN, PLAIN);
                }
                let mut shown = StyledText::default();
                let part = parts.get(column).and_then(|parts| parts.get(index));
                if let (Some(cell), Some(part)) = (row.get(column), part) {
                    shown.push_part(cell, part.clone(), ink);
                }
                let missing = width.saturating_sub(shown.width());
                let before = match self.alignments.get(column) {
                    Some(Alignment::Right) => missing,
                    Some(Alignment::Center) => missing / 2,
                    Some(Alignment::Left | Alignment::None) | None => 0,
                };
                line.push(&" ".repeat(before), PLAIN);
                line.push_part(&shown, 0..shown.as_str().len(), PLAIN);
                line.push(&" ".repeat(missing - before), PLAIN);
            }
            line.trim_end();
            line
        });
        Some(lines.collect())
    }

    /// Returns a list of `header: value` for each row; `None` if that is too much text.
    fn pairs(&self) -> Option<Vec<StyledText>> {
        let (head, rows) = self.rows.split_first()?;
        if rows.is_empty() {
            return None;
        }
        let filled = |row: &[StyledText]| -> usize {
            let cells = head.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
            cells.map(|(name, _)| name.as_str().len()).sum()
        };
        if rows.iter().map(|row| filled(row)).sum::<usize>() > ALIGNED_WIDTH {
            return None;
        }
        let mut lines = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            if index > 0 {
                lines.push(StyledText::of(RULE, DIM));
            }
            for (name, cell) in head.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                let mut line = StyledText::default();
                if !name.is_empty() {
                    line.push_part(name, 0..name.as_str().len(), BOLD);
                    line.push(": ", PLAIN);
                }
                line.push_part(cell, 0..cell.as_str().len(), PLAIN);
                lines.push(line);
            }
        }
        Some(lines)
    }

    /// Returns the rows without trailing empty cells.
    fn plain(self) -> Vec<StyledText> {
        let rows = self.rows.iter().map(|row| {
            let mut line = StyledText::default();
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    line.push(BETWEEN, PLAIN);
                }
                line.push_part(cell, 0..cell.as_str().len(), PLAIN);
            }
            line.trim_end();
            line
        });
        rows.collect()
    }
}

/// Returns the widths of columns in `room` columns: each is as wide as its text, or as the widest
/// that fits; `None` if some would be too narrow to read.
fn fitted(natural: &[usize], room: usize) -> Option<Vec<usize>> {
    if natural.iter().sum::<usize>() <= room {
        return Some(natural.to_vec());
    }
    let least: usize = natural.iter().map(|width| (*width).min(NARROWEST)).sum();
    if least > room {
        return None;
    }
    let mut sorted = natural.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    let mut share = 0;
    for (index, width) in sorted.iter().enumerate() {
        share = left / (sorted.len() - index);
        if *width > share {
            break;
        }
        left -= width;
    }
    let mut spare = room
        - natural
            .iter()
            .map(|width| (*width).min(share))
            .sum::<usize>();
    let widths = natural.iter().map(|width| {
        if *width > share && spare > 0 {
            spare -= 1;
            share + 1
        } else {
            (*width).min(share)
        }
    });
    Some(widths.collect())
}

#[cfg(test)]
mod tests {
    use super::super::markdown::render;
    use super::super::style::Layout;
    use super::*;
    use crate::output::Palette;

    fn shown(markdown: &str, width: usize) -> String {
        let layout = Layout {
            width: Some(width),
            palette: Palette::Plain,
        };
        render(markdown, layout)
    }

    #[test]
    fn widest_columns_shrink_first() {
        for (natural, room, expected) in [
            (&[4, 2][..], 6, Some(vec![4, 2])),
            (&[4, 40, 90], 60, Some(vec![4, 28, 28])),
            (&[4, 10, 90], 61, Some(vec![4, 10, 47])),
            (&[50, 50, 50], 20, Some(vec![7, 7, 6])),
            (&[50, 50, 50], 17, None),
            (&[1, 1], 1, None),
            (&[], 0, Some(vec![])),
        ] {
            assert_eq!(fitted(natural, room), expected, "{natural:?} {room}");
        }
    }

    #[test]
    fn cells_are_wrapped_and_aligned() {
        let table = "| n | text |\n|--:|:-:|\n| 1 | one two three |\n| 22 | 你好 |\n";
        assert_eq!(
            shown(table, 14),
            " n │   text\n───┼──────────\n 1 │  one two\n   │   three\n───┼──────────\n22 │   你好\n"
        );
    }

    #[test]
    fn table_without_room_is_a_list_of_pairs() {
        let table = "| first | second | third |\n|---|---|---|\n| alpha | beta | gamma |\n| delta |  | zeta |\n";
        assert_eq!(
            shown(table, 12),
            "first: alpha\nsecond: beta\nthird: gamma\n────────\nfirst: delta\nthird: zeta\n"
        );
    }
}
