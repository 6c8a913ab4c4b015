//! Markdown samples and markup readers for the tests of a channel's markup.
//!
//! Readers follow the documentation of the platforms, not the renderers: they remove the markup and
//! report malformed markup.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use nanobot_channel::markup::{Document, Mark};
use proptest::prelude::*;

/// Style of bold text and headings.
pub const BOLD: u8 = 1;
/// Style of emphasis.
pub const ITALIC: u8 = 2;
/// Style of strikethrough.
pub const STRIKE: u8 = 4;
/// Style of code.
pub const CODE: u8 = 8;
/// Style of the text of a link.
pub const LINK: u8 = 16;

/// Characters with their styles, without whitespace of any kind.
pub type StyledText = Vec<(char, u8)>;

/// Pieces of Markdown, to be combined in unlikely ways.
const PIECES: [&str; 51] = [
    "**",
    "_",
    "~~",
    "`",
    "```",
    "```rust\n",
    "\n```\n",
    "# ",
    "> ",
    "- ",
    "1. ",
    "\n",
    "\n\n",
    "  ",
    "[a](https://e.org/x)",
    "](",
    "| a | b |\n|---|---|\n| c | d |\n",
    "<b>",
    "&amp;",
    "<",
    "é",
    "中文。",
    "👩‍👩‍👧‍👦",
    "👍🏽",
    "e\u{301}",
    "word ",
    "A sentence. ",
    "---\n",
    "- [x] ",
    "![i](u)",
    "<br>",
    "\\",
    "\t",
    "https://e.org ",
    "~",
    "*",
    "* ",
    "_x_ ",
    "||",
    "<@1> ",
    "<@U1> ",
    "<@all>",
    "<t:1:R>",
    "[x] ",
    "```` ```",
    "a|b",
    "- - ",
    "https://e.org/a_(b)_*c*?d=1&e=2|f。",
    "[l](https://e.org/?a=1&b=(2))",
    "###### ",
    "| long name of a column | another long name of a column | and one more of these |\n|---|---|---|\n| c | d | e |\n",
];

/// Returns a strategy for Markdown of fewer than `pieces` pieces.
pub fn markdown(pieces: usize) -> impl Strategy<Value = String> {
    let invisible = ["\u{200b}", "\u{202e}"];
    let samples: Vec<&str> = PIECES.into_iter().chain(invisible).collect();
    let piece = prop_oneof![
        4 => proptest::sample::select(samples).prop_map(str::to_owned),
        1 => "\\PC{0,12}"
    ];
    proptest::collection::vec(piece, 0..pieces).prop_map(|pieces| pieces.concat())
}

/// Counts the letters and digits of a text, which markup must not change. A split text has more of
/// them if a part repeats a URL or the language of a code block.
#[must_use]
pub fn letters(text: &str) -> HashMap<char, usize> {
    let mut counts = HashMap::new();
    for c in text.chars().filter(|c| c.is_alphanumeric()) {
        *counts.entry(c).or_default() += 1;
    }
    counts
}

/// Returns `true` for whitespace, visible or not.
#[must_use]
pub fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{200b}'
}

/// Returns every character of a document with the styles that its marks ask for.
#[must_use]
pub fn meant(document: &Document) -> StyledText {
    let mut seen = StyledText::new();
    let letters = document.text.char_indices();
    for (at, c) in letters.filter(|(_, c)| !is_blank(*c)) {
        let mut looks = 0;
        for span in document
            .spans
            .iter()
            .filter(|span| span.range.contains(&at))
        {
            looks |= match &span.mark {
                _ if looks & (LINK | CODE) != 0 => 0,
                Mark::Heading { .. } | Mark::Bold => BOLD,
                Mark::Italic => ITALIC,
                Mark::Strike => STRIKE,
                Mark::Code | Mark::Pre { .. } => CODE,
                Mark::Link { .. } => LINK,
                Mark::Address | Mark::Reference | Mark::Item | Mark::Quote => 0,
            };
        }
        seen.push((c, looks));
    }
    seen
}

/// Returns the text of HTML without its tags.
///
/// # Errors
/// Returns an error if a tag is not closed or an entity is unknown.
pub fn html_text(html: &str) -> anyhow::Result<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, found)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = found.split_once('>').context("a tag ends")?;
        match tag.strip_prefix('/') {
            Some(name) => ensure!(open.pop() == Some(name), "</{name}> in {html}"),
            None if matches!(tag, "br" | "hr") => text.push('\n'),
            None => open.push(tag.split(' ').next().unwrap_or_default()),
        }
        rest = after;
    }
    text.push_str(rest);
    ensure!(open.is_empty(), "{open:?} is open in {html}");
    entities(&text)
}

/// Resolves the entities `&lt;`, `&gt;`, `&quot;` and `&amp;`.
///
/// # Errors
/// Returns an error for any other `&`.
pub fn entities(text: &str) -> anyhow::Result<String> {
    let mut pieces = text.split('&');
    let mut resolved = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece
            .split_once(';')
            .with_context(|| format!("an entity ends: {text}"))?;
        resolved.push_str(match name {
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "amp" => "&",
            _ => bail!("&{name}; is no entity"),
        });
        resolved.push_str(rest);
    }
    Ok(resolved)
}

/// Extracts the code blocks from a text; returns the other lines and the code.
///
/// # Errors
/// Returns an error if a fence is not on a line of its own or not closed.
pub fn fences(text: &str) -> anyhow::Result<(Vec<&str>, String)> {
    let (mut prose, mut code) = (Vec::new(), String::new());
    let mut within = false;
    for line in text.split('\n') {
        if line.contains("```") {
            let is_fence = if within {
                line == "```"
            } else {
                line.starts_with("```")
            };
            ensure!(is_fence, "{line:?} of {text:?}");
            within = !within;
        } else if within {
            code.push_str(line);
            code.push('\n');
        } else {
            prose.push(line);
        }
    }
    ensure!(!within, "a fence is open: {text:?}");
    Ok((prose, code))
}
