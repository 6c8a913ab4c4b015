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

/// Renders a piece that fits. If the markup alone would fill a part, the piece is plain text; that
/// takes a limit that no platform has.
fn part(piece: &Document, markup: &dyn Markup, measure: Measure, limit: usize) -> RenderedPart {
    let plain = plain(piece, measure, limit);
    let text = markup.render(piece);
    let exceeds = markup.overhead().is_some() && measure.of(&text) > limit;
    RenderedPart::of_text(if exceeds { plain.clone() } else { text }, plain)
}
