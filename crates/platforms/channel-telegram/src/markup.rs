//! The tags of Telegram's `parse_mode=HTML` (Bot API, "Formatting options").

use nanobot_channel::markup::{
    Document, Mark, Markup, Overhead, TagMarkup, Tags, html, render_tags,
};

/// The addresses that Telegram links.
const SCHEMES: &[&str] = &["http://", "https://", "tg://", "mailto:"];
/// A quote of more lines is collapsed.
const COLLAPSED_LINES: usize = 12;
/// A quote of more bytes is collapsed.
const COLLAPSED_BYTES: usize = 1200;

/// Telegram's HTML. Telegram counts the text without its tags.
#[derive(Clone, Copy, Debug)]
pub struct TelegramHtml;

impl Markup for TelegramHtml {
    fn render(&self, document: &Document) -> String {
        render_tags(document, self)
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        SCHEMES
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        None
    }
}

impl TagMarkup for TelegramHtml {
    fn tags(&self, mark: &Mark, text: &str) -> Option<Tags> {
        let tags = match mark {
            Mark::Heading { .. } | Mark::Bold => Tags::new("<b>", "</b>"),
            Mark::Italic => Tags::new("<i>", "</i>"),
            Mark::Strike => Tags::new("<s>", "</s>"),
            Mark::Code => Tags::new("<code>", "</code>"),
            Mark::Pre { info } if info.is_empty() => Tags::new("<pre><code>", "</code></pre>"),
            Mark::Pre { info } => {
                let class = html::attribute(info);
                let opening = format!("<pre><code class=\"language-{class}\">");
                Tags::new(opening, "</code></pre>")
            }
            Mark::Link { url } => {
                Tags::new(format!("<a href=\"{}\">", html::attribute(url)), "</a>")
            }
            Mark::Quote if is_long(text) => Tags::new("<blockquote expandable>", "</blockquote>"),
            Mark::Quote => Tags::new("<blockquote>", "</blockquote>"),
            Mark::Address | Mark::Reference | Mark::Item => return None,
        };
        Some(tags)
    }

    fn escape(&self, text: &str, out: &mut String) {
        html::escape(text, out);
    }
}

/// Returns `true` if a quote is collapsed until the reader expands it.
fn is_long(quote: &str) -> bool {
    quote.lines().count() > COLLAPSED_LINES || quote.len() > COLLAPSED_BYTES
}
