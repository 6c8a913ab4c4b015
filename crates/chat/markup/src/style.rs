//! The text style of a channel.

use crate::{Markup, Measure, WholeMarkup};

/// The form of a channel's text. The variants are ways of rendering, not platforms: two of them are
/// open to any markup.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// Markdown as the model wrote it. Every part is valid Markdown: a code fence that is cut is
    /// closed and opened again.
    Markdown,
    /// Text in a markup, rendered part by part.
    Markup(&'static dyn Markup),
    /// Text in a markup, rendered in one part of any length, such as the HTML body of a mail.
    Whole(&'static dyn WholeMarkup),
}

/// The form of a channel's text and its limit.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// The form of the text.
    pub format: Format,
    /// The unit of `limit`.
    pub measure: Measure,
    /// Maximum length of one part. It applies to the text without its markup if the markup has no
    /// [overhead](Markup::overhead), and to the whole text otherwise. [`Format::Whole`] ignores it.
    pub limit: usize,
}
