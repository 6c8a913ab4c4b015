//! Renders Markdown into parts: parse, split, render.

use nanobot_markup::{Format, Markup, Measure, TextStyle};

use crate::builder::{Links, parse};
use crate::part::RenderedPart;
use crate::part_by_part::parts;
use crate::{markdown, native_table, whole};

/// Minimum limit that is honoured: one character has to fit in any measure.
const SMALLEST_LIMIT: usize = 4;

/// The share of a part (one fourth) that the address of a link may take, where it is counted.
const LONGEST_LINK: usize = 4;

/// Renders `markdown` in the style of a channel, in as many parts as its limit requires.
///
/// The limit applies to the text without markup if the markup has no [overhead](Markup::overhead),
/// and to the whole text otherwise. It is raised to 4, so that every character fits.
/// [`Format::Whole`] returns one part of any length. Text that is only white space returns no
/// parts. Tables that the platform [shows natively](Markup::table_limits) are in the blocks of a
/// part, at most one in each.
#[must_use]
pub fn render(markdown: &str, style: TextStyle) -> Vec<RenderedPart> {
    let style = TextStyle {
        limit: style.limit.max(SMALLEST_LIMIT),
        ..style
    };
    match style.format {
        Format::Markdown => markdown::render(markdown, style.measure, style.limit),
        Format::Whole(markup) => whole::render(markdown, markup),
        Format::Markup(markup) => in_markup(markdown, markup, style.measure, style.limit),
    }
}

fn in_markup(
    markdown: &str,
    markup: &dyn Markup,
    measure: Measure,
    limit: usize,
) -> Vec<RenderedPart> {
    let longest = match markup.overhead() {
        Some(_) => limit / LONGEST_LINK,
        None => usize::MAX,
    };
    let links = Links {
        schemes: markup.link_schemes(),
        longest,
    };
    let document = parse(markdown, links);
    match markup.table_limits() {
        Some(limits) => native_table::render(&document, markup, measure, limit, &limits),
        None => parts(&document, markup, measure, limit),
    }
}
