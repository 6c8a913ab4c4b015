//! Rendering of replies for a terminal: Markdown, tables, diffs, and streams of them.
//!
//! Decision: everything here is a pure function of the text and a [`Layout`]. The caller decides
//! the width and the palette, and writes the result.

mod diff;
mod markdown;
mod preview;
mod stream;
mod style;
mod table;
mod text;
mod wrap;

pub(crate) use diff::diff;
pub(crate) use markdown::TAB;
pub(crate) use stream::{Style, TextStream};
pub(crate) use style::{DIM, Layout, painted};
pub(crate) use wrap::{ellipsized, fits, hanging, is_break, is_space, wrapped};
