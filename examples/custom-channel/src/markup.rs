//! The relay's markup: `*bold*`, `_italic_`, and a backslash before a character that is no markup.

use nanobot_channel::Markup;
use nanobot_channel::markup::{Document, Mark, Overhead, TagMarkup, Tags, render_tags};

/// The relay's markup. The relay counts the text without it.
#[derive(Clone, Copy, Debug)]
pub struct RelayMarkup;

impl Markup for RelayMarkup {
    fn render(&self, document: &Document) -> String {
        render_tags(document, self)
    }

    /// The relay has no links: addresses are written into the text.
    fn link_schemes(&self) -> &'static [&'static str] {
        &[]
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        None
    }
}

impl TagMarkup for RelayMarkup {
    fn tags(&self, mark: &Mark, _text: &str) -> Option<Tags> {
        match mark {
            Mark::Bold | Mark::Heading { .. } => Some(Tags::new("*", "*")),
            Mark::Italic => Some(Tags::new("_", "_")),
            _ => None,
        }
    }

    fn escape(&self, text: &str, out: &mut String) {
        for c in text.chars() {
            if matches!(c, '*' | '_' | '\\') {
                out.push('\\');
            }
            out.push(c);
        }
    }
}
