//! The tags of Telegram's `parse_mode=HTML` (Bot API, "Formatting options").

use super::document::{Document, Mark, Span};
use super::slice::slice;

/// Renders a document. Tags are balanced by construction: marks are properly nested.
pub(super) fn render(document: &Document) -> String {
    let mut writer = Writer { document, html: String::with_capacity(document.text.len()), at: 0 };
    let mut open: Vec<&Span> = Vec::new();
    for span in &document.spans {
        // Code takes no marks inside.
        if open
            .iter()
            .any(|outer| matches!(outer.mark, Mark::Code | Mark::Pre { .. }) && outer.range.end > span.range.start)
        {
            continue;
        }
        while let Some(last) = open.pop_if(|last| last.range.end <= span.range.start) {
            writer.close(last);
        }
        writer.text_until(span.range.start);
        writer.html.push_str(&opening(&span.mark));
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

fn opening(mark: &Mark) -> String {
    match mark {
        Mark::Bold => "<b>".to_owned(),
        Mark::Italic => "<i>".to_owned(),
        Mark::Strike => "<s>".to_owned(),
        Mark::Code => "<code>".to_owned(),
        Mark::Pre { info } if info.is_empty() => "<pre><code>".to_owned(),
        Mark::Pre { info } => format!("<pre><code class=\"language-{}\">", attribute(info)),
        Mark::Link { url } => format!("<a href=\"{}\">", attribute(url)),
        Mark::Quote => "<blockquote>".to_owned(),
    }
}

fn closing(mark: &Mark) -> &'static str {
    match mark {
        Mark::Bold => "</b>",
        Mark::Italic => "</i>",
        Mark::Strike => "</s>",
        Mark::Code => "</code>",
        Mark::Pre { .. } => "</code></pre>",
        Mark::Link { .. } => "</a>",
        Mark::Quote => "</blockquote>",
    }
}

fn escape(text: &str, html: &mut String) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            _ => html.push(c),
        }
    }
}

fn attribute(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    escape(text, &mut escaped);
    escaped.replace('"', "&quot;")
}
