//! Reads PDF documents: their text, and their pages as pictures.
//!
//! Decision: two parsers read the same document. `pdf-extract` finds words by their place on a page,
//! and `hayro` draws pages; each does one of these alone. Each page is drawn in a request of its
//! own, so that a page that ends the helper process costs neither the text nor other pages.

mod picture;
mod text;

pub(crate) use self::{picture::picture, text::text};

#[cfg(test)]
mod sample {
    /// Returns the operators of a line of text.
    pub(super) fn line(text: &str) -> String {
        format!("BT /F1 12 Tf 20 100 Td ({text}) Tj ET")
    }

    /// The operators of a page that is one picture, like a scan.
    pub(super) const SCAN: &str = "300 0 0 150 0 0 cm /P Do";
}
