//! The tags of Telegram's `parse_mode=HTML` (Bot API, "Formatting options").

use super::document::{Document, Mark, Span};
use super::slice::slice;

/// The addresses that Telegram follows.
pub(super) const SCHEMES: &[&str] = &["http://", "https://", "tg://", "mailto:"];
/// A quote of more lines is folded.
const FOLDED_LINES: usize = 12;
/// A quote of more bytes is folded.
const FOLDED_BYTES: usize = 1200;

/// Renders a document. Tags are balanced by construction: marks are properly nested.
pub(super) fn render(document: &Document) -> String {
    let mut writer = Writer {
        document,
        html: String::with_capacity(document.text.len()),
        at: 0,
    };
    let mut open: Vec<&Span> = Vec::new();
    for span in &document.spans {
        let Some(opening) = opening(&span.mark, slice(&document.text, span.range.clone())) else {
            continue;
        };
        // Code takes no marks inside.
        if open.iter().any(|outer| {
            matches!(outer.mark, Mark::Code | Mark::Pre { .. })
                && outer.range.end > span.range.start
        }) {
            continue;
        }
        while let Some(last) = open.pop_if(|last| last.range.end <= span.range.start) {
            writer.close(last);
        }
        writer.text_until(span.range.start);
        writer.html.push_str(&opening);
        open.push(span);
    }
    while let Some(last) = open.pop() {
        writer.close(last);
    }
    writer.text_until(document.text.len());
    writer.html
}

/// Where rendering stands.
struct Writer<'a> {
    document: &'a Document,
    html: String,
    at: usize,
}

impl Writer<'_> {
    fn text_until(&mut self, end: usize) {
        escape(slice(&self.document.text, self.at..end), &mut self.html);
        self.at = self.at.max(end);
    }

    fn close(&mut self, span: &Span) {
        self.text_until(span.range.end);
        self.html.push_str(closing(&span.mark));
    }
}

/// The tag of a mark around `text`; `None` where Telegram needs none.
fn opening(mark: &Mark, text: &str) -> Option<String> {
    let tag = match mark {
        Mark::Heading { .. } | Mark::Bold => "<b>".to_owned(),
        Mark::Italic => "<i>".to_owned(),
        Mark::Strike => "<s>".to_owned(),
        Mark::Code => "<code>".to_owned(),
        Mark::Pre { info } if info.is_empty() => "<pre><code>".to_owned(),
        Mark::Pre { info } => format!("<pre><code class=\"language-{}\">", attribute(info)),
        Mark::Link { url } => format!("<a href=\"{}\">", attribute(url)),
        Mark::Quote if is_long(text) => "<blockquote expandable>".to_owned(),
        Mark::Quote => "<blockquote>".to_owned(),
        Mark::Address | Mark::Reference | Mark::Item => return None,
    };
    Some(tag)
}

/// Whether a quote is folded until somebody wants to read it.
fn is_long(quote: &str) -> bool {
    quote.lines().count() > FOLDED_LINES || quote.len() > FOLDED_BYTES
}

fn closing(mark: &Mark) -> &'static str {
    match mark {
        Mark::Heading { .. } | Mark::Bold => "</b>",
        Mark::Italic => "</i>",
        Mark::Strike => "</s>",
        Mark::Code => "</code>",
        Mark::Pre { .. } => "</code></pre>",
        Mark::Link { .. } => "</a>",
        Mark::Quote => "</blockquote>",
        Mark::Address | Mark::Reference | Mark::Item => "",
    }
}

/// Writes text so that nothing in it is taken for a tag.
pub(super) fn escape(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            _ => html.push(c),
        }
    }
}

/// Text for between the quotation marks of an attribute.
pub(super) fn attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    escape(text, &mut escaped);
    escaped.replace('"', "&quot;")
}
