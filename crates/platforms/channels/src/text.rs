//! From the model's Markdown to parts that a platform shows: parse, split, render.
//!
//! Decision: Markdown is parsed once into flat text with marks over ranges of it, the way platforms
//! themselves think. Splitting cuts the flat text and clips the marks, so a part can never end
//! inside a tag, and its length is what the platform counts. Where a platform counts markup too, its
//! prices are known before the cut (`price`). A platform that reads Markdown gets the source
//! itself, cut where Markdown allows it.
//!
//! Nothing here knows a channel, and nothing is thrown away but white space at the cuts.

mod address;
mod build;
mod depth;
mod discord;
mod document;
mod email;
mod flank;
mod lines;
mod native;
mod prepare;
mod price;
mod shield;
mod slack;
mod slice;
mod source;
mod split;
mod table;
mod telegram;
#[cfg(test)]
mod tests;

use nanobot_channel::{Block, Dialect, Measure, TextStyle};

use document::{Document, Links};
use lines::Markup;
use price::Prices;
use split::Flow;

/// One part of a message, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPart {
    /// The text in the platform's dialect.
    pub text: String,
    /// The same without markup.
    pub plain: String,
    /// The same as `text` in pieces, where there is a table that the platform shows itself; at most
    /// one of them is a table.
    pub blocks: Vec<Block>,
}

impl RenderedPart {
    /// One without a table of the platform's own.
    #[must_use]
    pub fn of_text(text: String, plain: String) -> Self {
        Self {
            text,
            plain,
            blocks: Vec::new(),
        }
    }
}

/// The smallest limit that is honoured: one character has to fit, whatever is counted.
const SMALLEST_LIMIT: usize = 4;

/// The share of a part that the address of a link may take, where it is counted.
const LONGEST_LINK: usize = 4;

/// Renders `markdown` for a platform, in as many parts as its limit asks for. The limit holds for
/// the text without markup in Telegram's HTML, and for the whole text elsewhere; a mail is one part
/// however long it is. Text that is nothing but white space has no parts. Tables that the platform
/// shows itself ([`Dialect::SlackMrkdwn`]) stand in the blocks of a part, one in each.
#[must_use]
pub fn render(markdown: &str, style: TextStyle) -> Vec<RenderedPart> {
    let style = TextStyle {
        limit: style.limit.max(SMALLEST_LIMIT),
        ..style
    };
    match style.dialect {
        Dialect::Markdown => source::render(markdown, style.measure, style.limit),
        Dialect::EmailHtml => email::render(markdown),
        Dialect::Plain => tagged(&Document::parse(markdown, Links::Spelled), style, |part| {
            part.text.clone()
        }),
        Dialect::TelegramHtml => {
            let links = Links::Marked {
                schemes: telegram::SCHEMES,
                longest: usize::MAX,
            };
            tagged(&Document::parse(markdown, links), style, telegram::render)
        }
        Dialect::Discord => cut(
            &marked(markdown, discord::SCHEMES, style),
            &discord::Discord,
            style,
        ),
        Dialect::SlackMrkdwn => native::render(
            &marked(markdown, slack::SCHEMES, style),
            &slack::Slack,
            style,
            &slack::ROOM,
        ),
    }
}

/// Cuts a document by its own length and renders each piece.
fn tagged(
    document: &Document,
    style: TextStyle,
    render: impl Fn(&Document) -> String,
) -> Vec<RenderedPart> {
    let ranges = split::split(
        &Flow::of_document(document, Prices::default()),
        style.measure,
        style.limit,
    );
    let parts = document.parts(ranges).into_iter();
    parts
        .map(|part| RenderedPart::of_text(render(&part), part.plain(style.measure, style.limit)))
        .collect()
}

/// Reads Markdown for a platform that counts markup.
fn marked(markdown: &str, schemes: &'static [&'static str], style: TextStyle) -> Document {
    Document::parse(
        markdown,
        Links::Marked {
            schemes,
            longest: style.limit / LONGEST_LINK,
        },
    )
}

/// Cuts and renders for a platform that counts markup. A piece of which the markup alone would fill
/// a part, which takes a limit that no platform has, goes without.
fn cut(document: &Document, markup: &dyn Markup, style: TextStyle) -> Vec<RenderedPart> {
    let TextStyle { measure, limit, .. } = style;
    let prices = Prices::of(document, markup, measure);
    let ranges = split::split(&Flow::of_document(document, prices), measure, limit);
    document
        .parts(ranges)
        .iter()
        .map(|part| whole(part, markup, measure, limit))
        .collect()
}

/// Renders a piece that fits.
fn whole(part: &Document, markup: &dyn Markup, measure: Measure, limit: usize) -> RenderedPart {
    let plain = part.plain(measure, limit);
    let text = lines::render(part, markup);
    RenderedPart::of_text(
        if measure.of(&text) > limit {
            plain.clone()
        } else {
            text
        },
        plain,
    )
}
