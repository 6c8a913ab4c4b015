//! Compares the style of every character with what a reader of the platform's markup sees.

use anyhow::{anyhow, ensure};
use nanobot_channel::Markup;
use nanobot_channel::markup::{Document, Span};
use nanobot_text::{Links, parse};
use proptest::test_runner::TestRunner;

use super::failed;
use crate::markup::{StyledText, markdown, meant};

/// A markup reader, written from the rules of its platform and independently of the renderer.
pub trait MarkupReader {
    /// Returns what a person sees of a rendered text.
    fn read(&self, text: &str) -> StyledText;

    /// Returns the character that the platform shows for `c`.
    fn shown(&self, c: char) -> char {
        c
    }

    /// Returns `true` if the markup shows the text of a span as if it had no style.
    fn is_unmarked(&self, _document: &Document, _span: &Span) -> bool {
        false
    }

    /// Returns `true` if no markup can express a span. Its document is not compared then.
    fn is_impossible(&self, document: &Document, span: &Span) -> bool;
}

/// Checks that a reader sees every character of a document in its style. The cases are the same in
/// every run, because it is not known what every platform makes of absurd texts.
///
/// # Errors
/// Returns an error that shows the first document that looks different.
pub fn looks(markup: &dyn Markup, reader: &impl MarkupReader) -> anyhow::Result<()> {
    TestRunner::deterministic()
        .run(&markdown(16), |markdown| {
            check(&markdown, markup, reader).map_err(|error| failed(&error))
        })
        .map_err(|error| anyhow!("{error}"))
}

fn check(markdown: &str, markup: &dyn Markup, reader: &impl MarkupReader) -> anyhow::Result<()> {
    let links = Links {
        schemes: markup.link_schemes(),
        longest: 10_000,
    };
    let mut document = parse(markdown, links);
    let written = markup.render(&document);
    let mut spans = document.spans.iter();
    if spans.any(|span| reader.is_impossible(&document, span)) {
        return Ok(());
    }
    let mut marked = document.spans.clone();
    marked.retain(|span| !reader.is_unmarked(&document, span));
    document.spans = marked;
    let mut expected = meant(&document);
    for (c, _) in &mut expected {
        *c = reader.shown(*c);
    }
    let seen = reader.read(&written);
    ensure!(
        seen == expected,
        "{written}\n   found: {seen:?}\nexpected: {expected:?}"
    );
    Ok(())
}
