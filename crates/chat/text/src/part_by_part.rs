//! Renders a document part by part.

use nanobot_markup::{Document, Markup, Measure};

use crate::overhead::Overheads;
use crate::part::{RenderedPart, pieces, plain};
use crate::split::{Flow, split};

/// Splits a document and renders each piece.
pub(crate) fn parts(
    document: &Document,
    markup: &dyn Markup,
    measure: Measure,
    limit: usize,
) -> Vec<RenderedPart> {
    let overheads = markup
        .overhead()
        .map(|overhead| Overheads::of(document, overhead, measure))
        .unwrap_or_default();
    let ranges = split(&Flow::of_document(document, overheads), measure, limit);
    pieces(document, ranges)
        .iter()
        .map(|piece| part(piece, markup, measure, limit))
        .collect()
}

/// Renders a piece. If its marks alone would fill a part, which takes a limit that no platform has,
/// its text is rendered without them, so that it is still escaped.
fn part(piece: &Document, markup: &dyn Markup, measure: Measure, limit: usize) -> RenderedPart {
    let plain = plain(piece, measure, limit);
    let fits = |text: &String| markup.overhead().is_none() || measure.of(text) <= limit;
    let unmarked = |text: &str| {
        markup.render(&Document {
            text: text.to_owned(),
            ..Document::default()
        })
    };
    let text = Some(markup.render(piece))
        .filter(fits)
        .or_else(|| Some(unmarked(&plain)).filter(fits))
        .or_else(|| Some(unmarked(&piece.text)).filter(fits))
        .unwrap_or_else(|| plain.clone());
    RenderedPart::of_text(text, plain)
}
