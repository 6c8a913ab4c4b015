//! Tables, for platforms that show them natively.

/// A piece of a part that has a native table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Text in the channel's markup, never blank.
    Text(String),
    /// A table within the [`TableLimits`](crate::TableLimits) of the markup. A part has at most
    /// one.
    Table(Table),
}

/// A table of plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The rows, header first, each with the same number of cells.
    pub rows: Vec<Vec<String>>,
    /// `true` for each column that is aligned right.
    pub right: Vec<bool>,
}
