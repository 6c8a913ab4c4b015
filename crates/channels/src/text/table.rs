//! Tables as aligned monospace text, with East Asian characters two columns wide.

use unicode_width::UnicodeWidthStr as _;

/// The rows of a table, the head first.
#[derive(Debug, Default)]
pub(super) struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table; `right` tells which columns keep to the right.
    pub(super) fn new(right: Vec<bool>) -> Self {
        Self { right, rows: Vec::new() }
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
        self.rows.last().and_then(|row| row.last()).map_or("", String::as_str)
    }

    /// The lines, with a rule below the head.
    pub(super) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> =
                widths.iter().enumerate().map(|(column, width)| self.pad(row.get(column), column, *width)).collect();
            lines.push(cells.join("  ").trim_end().to_owned());
            if number == 0 {
                lines.push(widths.iter().map(|width| "─".repeat(*width)).collect::<Vec<_>>().join("  "));
            }
        }
        lines.join("\n")
    }

    /// A cell as wide as its column.
    fn pad(&self, cell: Option<&String>, column: usize, width: usize) -> String {
        let cell = cell.map_or("", String::as_str);
        let room = " ".repeat(width.saturating_sub(cell.width()));
        if self.right.get(column).copied().unwrap_or_default() { room + cell } else { cell.to_owned() + &room }
    }
}
