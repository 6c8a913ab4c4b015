//! Tables as aligned monospace text, with East Asian characters two columns wide.
//!
//! A table that is too wide for that is written row by row. An aligned table is as long as its
//! width in every row, so it has to be narrow anyway.

use nanobot_markup::Table;
use unicode_width::UnicodeWidthStr as _;

/// The space between two columns.
const GUTTER: &str = "  ";
/// Maximum length of the names of all columns together in each row, in columns of text.
const LONGEST_NAMES: usize = 160;

/// A table while it is read.
#[derive(Debug)]
pub(crate) struct TableBuilder(Table);

impl TableBuilder {
    /// Creates an empty table; `right` is `true` for each column that is aligned right.
    pub(crate) fn new(right: Vec<bool>) -> Self {
        Self(Table {
            rows: Vec::new(),
            right,
        })
    }

    /// Returns the table.
    pub(crate) fn finish(self) -> Table {
        self.0
    }

    /// Begins a row.
    pub(crate) fn start_row(&mut self) {
        self.0.rows.push(Vec::new());
    }

    /// Begins a cell of the last row.
    pub(crate) fn start_cell(&mut self) {
        if let Some(row) = self.0.rows.last_mut() {
            row.push(String::new());
        }
    }

    /// Adds to the last cell.
    pub(crate) fn write(&mut self, text: &str) {
        if let Some(cell) = self.0.rows.last_mut().and_then(|row| row.last_mut()) {
            cell.push_str(text);
        }
    }

    /// Returns the text of the last cell so far.
    pub(crate) fn cell(&self) -> &str {
        self.0
            .rows
            .last()
            .and_then(|row| row.last())
            .map_or("", String::as_str)
    }

    /// Returns the width of the aligned lines, in columns.
    pub(crate) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GUTTER.len() * widths.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.0.rows.iter().map(Vec::len).max().unwrap_or_default();
        let mut widths = vec![0; columns];
        for row in &self.0.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }

    /// Returns the aligned lines, with a rule below the header.
    pub(crate) fn render(&self) -> String {
        let widths = self.widths();
        let mut lines = Vec::with_capacity(self.0.rows.len() + 1);
        for (number, row) in self.0.rows.iter().enumerate() {
            let cells: Vec<String> = widths
                .iter()
                .enumerate()
                .map(|(column, width)| self.pad(row.get(column), column, *width))
                .collect();
            lines.push(cells.join(GUTTER).trim_end().to_owned());
            if number == 0 {
                lines.push(
                    widths
                        .iter()
                        .map(|width| "─".repeat(*width))
                        .collect::<Vec<_>>()
                        .join(GUTTER),
                );
            }
        }
        lines.join("\n")
    }

    /// Returns the rows below the header, each cell with the name of its column, without empty
    /// cells. If there is no row below the header, or the names are too long to be repeated in
    /// every row, the header is a row like the others.
    pub(crate) fn named_rows(&self) -> Vec<Vec<(Option<&str>, &str)>> {
        let (head, body) = self
            .0
            .rows
            .split_first()
            .map_or((&[][..], &[][..]), |(head, body)| (head.as_slice(), body));
        let named = !body.is_empty()
            && head.iter().map(|name| name.width()).sum::<usize>() <= LONGEST_NAMES;
        let rows = if named { body } else { self.0.rows.as_slice() };
        let name = |column: usize| {
            head.get(column)
                .map(String::as_str)
                .filter(|name| named && !name.is_empty())
        };
        rows.iter()
            .map(|row| {
                let filled = row.iter().enumerate().filter(|(_, cell)| !cell.is_empty());
                filled
                    .map(|(column, cell)| (name(column), cell.as_str()))
                    .collect()
            })
            .collect()
    }

    /// Returns a cell as wide as its column.
    fn pad(&self, cell: Option<&String>, column: usize, width: usize) -> String {
        let cell = cell.map_or("", String::as_str);
        let room = " ".repeat(width.saturating_sub(cell.width()));
        if self.0.right.get(column).copied().unwrap_or_default() {
            room + cell
        } else {
            cell.to_owned() + &room
        }
    }
}
