//! The Markdown parser: pulldown-cmark's events as ours.
//!
//! Decision: the library's types stay in this file and in [`crate::markdown`] and [`crate::image`],
//! which work on the source itself and need the parser's offsets.

use std::borrow::Cow;

use nanobot_markup::{Alignment, Event, Tag, TagEnd};
use pulldown_cmark::{self as cmark, CodeBlockKind, CowStr, Options, Parser};

use crate::preprocess::restore;

/// The extensions of CommonMark that are parsed.
pub(crate) const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// Returns the events of [preprocessed](crate::preprocess::preprocess) Markdown, with all text
/// restored.
pub(crate) fn events(preprocessed: &str) -> impl Iterator<Item = Event<'_>> {
    Parser::new_ext(preprocessed, OPTIONS).map(event)
}

fn event(event: cmark::Event<'_>) -> Event<'_> {
    match event {
        cmark::Event::Start(tag) => Event::Start(start(tag)),
        cmark::Event::End(tag) => Event::End(end(tag)),
        cmark::Event::Html(html) | cmark::Event::InlineHtml(html) if is_line_break(&html) => {
            Event::LineBreak
        }
        cmark::Event::Text(text)
        | cmark::Event::Html(text)
        | cmark::Event::InlineHtml(text)
        // These three need extensions that are off.
        | cmark::Event::InlineMath(text)
        | cmark::Event::DisplayMath(text)
        | cmark::Event::FootnoteReference(text) => Event::Text(restored(text)),
        cmark::Event::Code(code) => Event::Code(restored(code)),
        cmark::Event::SoftBreak | cmark::Event::HardBreak => Event::LineBreak,
        cmark::Event::Rule => Event::Rule,
        cmark::Event::TaskListMarker(done) => Event::TaskMarker { done },
    }
}

fn start(tag: cmark::Tag<'_>) -> Tag<'_> {
    match tag {
        cmark::Tag::Heading { level, .. } => Tag::Heading { level: level as u8 },
        cmark::Tag::BlockQuote(_) => Tag::Quote,
        cmark::Tag::CodeBlock(kind) => Tag::CodeBlock {
            language: language(&kind),
        },
        cmark::Tag::List(first) => Tag::List { first },
        cmark::Tag::Item => Tag::Item,
        cmark::Tag::Table(alignments) => Tag::Table {
            alignments: alignments.into_iter().map(alignment).collect(),
        },
        cmark::Tag::TableHead => Tag::TableHead,
        cmark::Tag::TableRow => Tag::TableRow,
        cmark::Tag::TableCell => Tag::TableCell,
        cmark::Tag::Emphasis => Tag::Italic,
        cmark::Tag::Strong => Tag::Bold,
        cmark::Tag::Strikethrough => Tag::Strike,
        cmark::Tag::Link { dest_url, .. } | cmark::Tag::Image { dest_url, .. } => Tag::Link {
            url: restored(dest_url),
        },
        cmark::Tag::HtmlBlock => Tag::Html,
        // All others need extensions that are off.
        _ => Tag::Paragraph,
    }
}

fn end(tag: cmark::TagEnd) -> TagEnd {
    match tag {
        cmark::TagEnd::Heading(_) => TagEnd::Heading,
        cmark::TagEnd::BlockQuote(_) => TagEnd::Quote,
        cmark::TagEnd::CodeBlock => TagEnd::CodeBlock,
        cmark::TagEnd::List(_) => TagEnd::List,
        cmark::TagEnd::Item => TagEnd::Item,
        cmark::TagEnd::Table => TagEnd::Table,
        cmark::TagEnd::TableHead => TagEnd::TableHead,
        cmark::TagEnd::TableRow => TagEnd::TableRow,
        cmark::TagEnd::TableCell => TagEnd::TableCell,
        cmark::TagEnd::Emphasis => TagEnd::Italic,
        cmark::TagEnd::Strong => TagEnd::Bold,
        cmark::TagEnd::Strikethrough => TagEnd::Strike,
        cmark::TagEnd::Link | cmark::TagEnd::Image => TagEnd::Link,
        cmark::TagEnd::HtmlBlock => TagEnd::Html,
        _ => TagEnd::Paragraph,
    }
}

/// Returns `true` if a piece of HTML is a line break (`<br>`, `<br/>` or `<br />`).
fn is_line_break(html: &str) -> bool {
    matches!(html.trim(), "<br>" | "<br/>" | "<br />")
}

/// Returns the first word after the opening fence.
fn language(kind: &CodeBlockKind<'_>) -> Cow<'static, str> {
    match kind {
        CodeBlockKind::Fenced(info) => {
            let word = info.split_whitespace().next().unwrap_or_default();
            Cow::Owned(restore(word).into_owned())
        }
        CodeBlockKind::Indented => Cow::Borrowed(""),
    }
}

fn alignment(alignment: cmark::Alignment) -> Alignment {
    match alignment {
        cmark::Alignment::None => Alignment::None,
        cmark::Alignment::Left => Alignment::Left,
        cmark::Alignment::Center => Alignment::Center,
        cmark::Alignment::Right => Alignment::Right,
    }
}

fn restored(text: CowStr<'_>) -> Cow<'_, str> {
    match text {
        CowStr::Borrowed(text) => restore(text),
        text => Cow::Owned(restore(&text).into_owned()),
    }
}
