//! Tables as aligned monospace text, with East Asian characters two columns wide.
//!
//! A table that is too wide for that is read row by row. Aligning costs as much as the table is
//! wide in every row, so what is aligned has to be narrow anyway.

use unicode_width::UnicodeWidthStr as _;

/// What stands between two columns.
const GUTTER: &str = "  ";
/// How much the names of all columns may take in each row, in columns of text.
const LONGEST_NAMES: usize = 160;

/// The rows of a table, the head first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table; `right` tells which columns keep to the right.
    pub(super) fn new(right: Vec<bool>) -> Self {
        Self {
            right,
            rows: Vec::new(),
        }
    }

    /// Begins a row.
    pub(super) fn start_row(&mut self) {
        self.rows.push(Vec::new());
    }

    /// Begins a cell of the last row.
    pub(super) fn start_cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(String::new());
        }
    }

    /// Adds to the last cell.
    pub(super) fn write(&mut self, text: &str) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) {
            cell.push_str(text);
        }
    }

    /// What the last cell holds so far.
    pub(super) fn cell(&self) -> &str {
        self.rows
            .last()
            .and_then(|row| row.last())
            .map_or("", String::as_str)
    }

    /// The rows, the head first.
    pub(super) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// Which columns keep to the right.
    pub(super) fn right(&self) -> &[bool] {
        &self.right
    }

    /// How wide the aligned lines are, in columns.
    pub(super) fn width(&self) -> usize {
        let widths = self.widths();
        widths.iter().sum::<usize>() + GUTTER.len() * widths.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let mut widths = vec![0; columns];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        widths
    }

    /// The aligned lines, with a rule below the head.
    pub(super) fn render(&self) -> String {
        let widths = self.widths();
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (number, row) in self.rows.iter().enumerate() {
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

    /// The rows below the head, each cell with the name of its column, empty ones left out. Where
    /// there is nothing below the head, or the names are too long to be said in every row, the
    /// head is a row like the others.
    pub(super) fn named_rows(&self) -> Vec<Vec<(Option<&str>, &str)>> {
        let (head, body) = self
            .rows
            .split_first()
            .map_or((&[][..], &[][..]), |(head, body)| (head.as_slice(), body));
        let named = !body.is_empty()
            && head.iter().map(|name| name.width()).sum::<usize>() <= LONGEST_NAMES;
        let rows = if named { body } else { self.rows.as_slice() };
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

    /// A cell as wide as its column.
    fn pad(&self, cell: Option<&String>, column: usize, width: usize) -> String {
        let cell = cell.map_or("", String::as_str);
        let room = " ".repeat(width.saturating_sub(cell.width()));
        if self.right.get(column).copied().unwrap_or_default() {
            room + cell
        } else {
            cell.to_owned() + &room
        }
    }
}
