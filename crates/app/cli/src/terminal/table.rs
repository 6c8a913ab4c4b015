//! A table whose columns are aligned by their displayed width.

use unicode_width::UnicodeWidthStr as _;

use super::style::{BOLD, styled};

/// Maximum number of cells of an aligned table, and maximum width of its columns and padding.
const ALIGNED_CELLS: usize = 20_000;
const ALIGNED_WIDTH: usize = 1 << 20;

/// A table that is read row by row; the first row is its header.
#[derive(Debug, Default)]
pub(super) struct TerminalTable {
    rows: Vec<Vec<String>>,
    row: Vec<String>,
}

impl TerminalTable {
    /// Adds a cell, which may be styled.
    pub(super) fn end_cell(&mut self, cell: String) {
        self.row.push(cell);
    }

    /// Ends a row.
    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Returns the lines of the table. A table that alignment would make too large is not aligned.
    pub(super) fn lines(self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        if columns.saturating_mul(self.rows.len()) > ALIGNED_CELLS {
            return self.plain();
        }
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .map(|cell| shown_width(cell))
                .max()
                .unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        if widths.iter().sum::<usize>().saturating_mul(self.rows.len()) > ALIGNED_WIDTH {
            return self.plain();
        }
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (index, row) in self.rows.iter().enumerate() {
            lines.push(line(row, &widths, index == 0));
            if index == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(rules.join("─┼─"));
            }
        }
        lines
    }

    /// Returns the rows without trailing empty cells.
    fn plain(self) -> Vec<String> {
        let rows = self.rows.into_iter().map(|mut row| {
            row.truncate(
                row.iter()
                    .rposition(|cell| !cell.is_empty())
                    .map_or(0, |last| last + 1),
            );
            row.join(" │ ")
        });
        rows.collect()
    }
}

fn line(row: &[String], widths: &[usize], is_head: bool) -> String {
    let cells: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| {
            let cell = row.get(column).map_or("", String::as_str);
            let padding = " ".repeat(width.saturating_sub(shown_width(cell)));
            if is_head {
                format!("{}{padding}", styled(BOLD, cell))
            } else {
                format!("{cell}{padding}")
            }
        })
        .collect();
    cells.join(" │ ").trim_end().to_owned()
}

/// Returns the displayed width of text in columns; styles do not count.
fn shown_width(text: &str) -> usize {
    text.split('\u{1b}')
        .enumerate()
        .map(|(index, part)| {
            // An escape is followed by `[…m`, which has no width.
            let shown = if index == 0 {
                part
            } else {
                part.split_once('m').map_or("", |(_, rest)| rest)
            };
            shown.width()
        })
        .sum()
}
