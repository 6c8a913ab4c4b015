//! From the model's Markdown to parts that a platform shows: parse, split, render.
//!
//! Decision: Markdown is parsed once into flat text with marks over ranges of it, the way platforms
//! themselves think. Splitting cuts the flat text and clips the marks, so a part can never end
//! inside a tag, and its length is what the platform counts. A platform that reads Markdown gets
//! the source itself, cut where Markdown allows it.
//!
//! Nothing here knows a channel, and nothing is thrown away but white space at the cuts.

mod build;
mod document;
mod flank;
mod slice;
mod source;
mod split;
mod table;
mod telegram;
#[cfg(test)]
mod tests;

use nanobot_channel::{Dialect, TextStyle};

use document::{Document, Links};
use split::Flow;

/// One part of a message, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPart {
    /// The text in the platform's dialect.
    pub text: String,
    /// The same without markup.
    pub plain: String,
}

/// The smallest limit that is honoured: one character has to fit, whatever is counted.
const SMALLEST_LIMIT: usize = 4;

/// Renders `markdown` for a platform, in as many parts as its limit asks for. The limit holds for
/// the text without markup, except where Markdown is the dialect: there every character counts.
/// Text that is nothing but white space has no parts.
#[must_use]
pub fn render(markdown: &str, style: TextStyle) -> Vec<RenderedPart> {
    let limit = style.limit.max(SMALLEST_LIMIT);
    match style.dialect {
        Dialect::Markdown => source::render(markdown, style.measure, limit),
        // Their own renderers follow; until then they get what every reader understands.
        Dialect::Plain | Dialect::Discord | Dialect::SlackMrkdwn | Dialect::EmailHtml => {
            parts(&Document::parse(markdown, Links::Spelled), style, limit, |part| part.text.clone())
        }
        Dialect::TelegramHtml => parts(&Document::parse(markdown, Links::Marked), style, limit, telegram::render),
    }
}

/// Cuts a document and renders each piece.
fn parts(
    document: &Document,
    style: TextStyle,
    limit: usize,
    render: impl Fn(&Document) -> String,
) -> Vec<RenderedPart> {
    split::split(&Flow::of_document(document), style.measure, limit)
        .into_iter()
        .map(|range| {
            let part = document.part(range);
            RenderedPart { text: render(&part), plain: part.plain(style.measure, limit) }
        })
        .collect()
}
