//! A reader of the Markdown of AI bots: CommonMark, by a parser that is not this program's.

use nanobot_channel::markup::{Document, Mark, Span};
use nanobot_testkit::conformance::MarkupReader;
use nanobot_testkit::markup::{BOLD, CODE, ITALIC, LINK, StyledText, is_blank};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use reqwest::Url;

/// Reads what WeCom shows.
pub(crate) struct BotReader;

impl MarkupReader for BotReader {
    fn read(&self, text: &str) -> StyledText {
        let seen = read(text).into_iter();
        seen.filter(|(c, _)| !is_blank(*c)).collect()
    }

    fn shown(&self, c: char) -> char {
        if c == '•' { '-' } else { c }
    }

    /// Struck text, and a link whose words are its address.
    fn is_unmarked(&self, document: &Document, span: &Span) -> bool {
        match &span.mark {
            Mark::Strike => true,
            Mark::Link { url } => document.text.get(span.range.clone()) == Some(url.as_str()),
            _ => false,
        }
    }

    /// Code with too many marks of its own.
    fn is_impossible(&self, document: &Document, span: &Span) -> bool {
        let text = document.text.get(span.range.clone()).unwrap();
        span.mark == Mark::Code && text.contains("``")
    }
}

/// Returns the visible characters with their styles.
pub(crate) fn read(text: &str) -> StyledText {
    let mut seen = StyledText::new();
    let mut styles = vec![0];
    let mut numbers = Vec::new();
    let mut link = None;
    for event in Parser::new(text) {
        let style = styles.iter().fold(0, |all, style| all | style);
        let mut push = |text: &str, style: u8| seen.extend(text.chars().map(|c| (c, style)));
        match event {
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => push(&text, style),
            Event::Code(text) => push(&text, style | CODE),
            Event::SoftBreak | Event::HardBreak => push("\n", style),
            Event::Rule => push("---", style),
            Event::Start(Tag::List(first)) => numbers.push(first),
            Event::End(TagEnd::List(_)) => drop(numbers.pop()),
            Event::Start(Tag::Item) => match numbers.last_mut() {
                Some(Some(number)) => {
                    push(&format!("\n{number}."), style);
                    *number += 1;
                }
                _ => push("\n-", style),
            },
            Event::End(TagEnd::Item) => {}
            Event::Start(tag) => {
                push("\n", 0);
                if let Tag::Link { dest_url, .. } = &tag {
                    link = Some((seen.len(), dest_url.to_string()));
                }
                styles.push(style_of(&tag));
            }
            Event::End(end) => {
                styles.pop();
                if let (TagEnd::Link, Some((start, address))) = (end, link.take()) {
                    unlink(&mut seen[start..], &address);
                }
            }
            _ => {}
        }
    }
    seen
}

fn style_of(tag: &Tag<'_>) -> u8 {
    match tag {
        Tag::Strong | Tag::Heading { .. } => BOLD,
        Tag::Emphasis => ITALIC,
        Tag::CodeBlock(_) => CODE,
        Tag::Link { .. } => LINK,
        _ => 0,
    }
}

/// Removes the style of a link whose words are its address.
fn unlink(words: &mut [(char, u8)], address: &str) {
    let text: String = words.iter().map(|(c, _)| c).collect();
    let same = |a: &str, b: &str| {
        Url::parse(a).ok().as_ref().map(decoded) == Url::parse(b).ok().as_ref().map(decoded)
    };
    if text.trim() == address || same(text.trim(), address) {
        words.iter_mut().for_each(|(_, style)| *style &= !LINK);
    }
}

fn decoded(url: &Url) -> String {
    let mut decoded = url.to_string();
    for c in "()<>\\[]*_~`|\"! ".chars() {
        decoded = decoded.replace(&format!("%{:02X}", u32::from(c)), &c.to_string());
    }
    decoded
}
