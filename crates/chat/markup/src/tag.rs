//! A writer for markups of opening and closing tags, such as HTML.
//!
//! Tags are balanced by construction, since the marks of a document are properly nested.

use std::borrow::Cow;

use crate::{Document, Mark, Span, slice};

/// The tags of a markup, for [`render_tags`].
pub trait TagMarkup {
    /// Returns the tags around `text` with this mark. `None` writes the text as if it had no mark.
    fn tags(&self, mark: &Mark, text: &str) -> Option<Tags>;

    /// Appends `text` to `out`, escaped so that the platform reads no tag in it.
    fn escape(&self, text: &str, out: &mut String);
}

/// An opening and a closing tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tags {
    /// The text before.
    pub opening: Cow<'static, str>,
    /// The text after.
    pub closing: Cow<'static, str>,
}

impl Tags {
    /// Creates a pair of tags.
    #[must_use]
    pub fn new(
        opening: impl Into<Cow<'static, str>>,
        closing: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            opening: opening.into(),
            closing: closing.into(),
        }
    }
}

/// Renders a document in a markup of tags. Code takes no tags inside.
#[must_use]
pub fn render_tags(document: &Document, markup: &dyn TagMarkup) -> String {
    let mut writer = TagWriter {
        document,
        markup,
        open: Vec::new(),
        out: String::with_capacity(document.text.len()),
        at: 0,
    };
    for span in &document.spans {
        writer.open(span);
    }
    while let Some(last) = writer.open.pop() {
        writer.close(last);
    }
    writer.text_until(document.text.len());
    writer.out
}

/// The state of rendering.
struct TagWriter<'a> {
    document: &'a Document,
    markup: &'a dyn TagMarkup,
    /// The open spans with their closing tags, outer first.
    open: Vec<(&'a Span, Cow<'static, str>)>,
    out: String,
    /// The bytes of the text that are written.
    at: usize,
}

impl<'a> TagWriter<'a> {
    fn open(&mut self, span: &'a Span) {
        let text = slice(&self.document.text, span.range.clone());
        let Some(tags) = self.markup.tags(&span.mark, text) else {
            return;
        };
        let in_code = self.open.iter().any(|(outer, _)| {
            matches!(outer.mark, Mark::Code | Mark::Pre { .. })
                && outer.range.end > span.range.start
        });
        if in_code {
            return;
        }
        while let Some(last) = self
            .open
            .pop_if(|(last, _)| last.range.end <= span.range.start)
        {
            self.close(last);
        }
        self.text_until(span.range.start);
        self.out.push_str(&tags.opening);
        self.open.push((span, tags.closing));
    }

    fn close(&mut self, (span, closing): (&Span, Cow<'static, str>)) {
        self.text_until(span.range.end);
        self.out.push_str(&closing);
    }

    fn text_until(&mut self, end: usize) {
        let text = slice(&self.document.text, self.at..end);
        self.markup.escape(text, &mut self.out);
        self.at = self.at.max(end);
    }
}
