//! Texts that are rendered in one part: the markup's own text, and a plain alternative in which
//! quotes are marked as mails do.

use std::ops::Range;

use nanobot_markup::{LineMarkup, Mark, MarkupLine, TextRun, WholeMarkup, render_lines, slice};

use crate::builder::{Links, parse};
use crate::parse::events;
use crate::part::RenderedPart;
use crate::preprocess::preprocess;

/// Renders a text in one part, or in none if it is blank.
pub(crate) fn render(markdown: &str, markup: &dyn WholeMarkup) -> Vec<RenderedPart> {
    let document = parse(markdown, Links::SPELLED);
    let plain = render_lines(&document, &QuotedText).trim_end().to_owned();
    if plain.trim().is_empty() {
        return Vec::new();
    }
    let text = markup.render(&mut events(&preprocess(markdown)));
    vec![RenderedPart::of_text(text, plain)]
}

/// Plain text in which `> ` begins the lines of quotes.
struct QuotedText;

impl LineMarkup for QuotedText {
    fn around(&self, _mark: &Mark, _run: &TextRun<'_>) -> Option<(String, String)> {
        None
    }

    fn heading(&self, _level: u8) -> Option<&'static str> {
        None
    }

    fn quote(&self) -> &'static str {
        "> "
    }

    fn fence(&self, _info: &str) -> (String, String) {
        Default::default()
    }

    fn text(&self, line: &MarkupLine<'_>, range: Range<usize>, out: &mut String) {
        out.push_str(slice(line.text, range));
    }

    fn literal(&self, _mark: &Mark, text: &str, out: &mut String) {
        out.push_str(text);
    }
}
