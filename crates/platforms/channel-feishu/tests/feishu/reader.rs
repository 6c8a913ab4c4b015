//! A reader of the Markdown of cards: CommonMark with strikethrough, by a parser that is not this
//! program's, where a line break is shown as one.

use nanobot_channel::markup::{Document, Mark, Span};
use nanobot_testkit::conformance::MarkupReader;
use nanobot_testkit::markup::{BOLD, CODE, ITALIC, LINK, STRIKE, StyledText, is_blank};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Reads what Feishu shows.
pub(crate) struct CardReader;

impl MarkupReader for CardReader {
    fn read(&self, text: &str) -> StyledText {
        let mut seen = read(text);
        seen.retain(|(c, _)| !is_blank(*c));
        seen
    }

    fn shown(&self, c: char) -> char {
        if c == '•' { '-' } else { c }
    }

    /// A link whose words are its address.
    fn is_unmarked(&self, document: &Document, span: &Span) -> bool {
        let text = document.text.get(span.range.clone()).unwrap();
        matches!(&span.mark, Mark::Link { url } if url == text)
    }

    /// Code with too many marks of its own.
    fn is_impossible(&self, document: &Document, span: &Span) -> bool {
        let text = document.text.get(span.range.clone()).unwrap();
        span.mark == Mark::Code && text.contains("``")
    }
}

/// Returns the visible characters with their styles.
pub(crate) fn read(text: &str) -> StyledText {
    let (mut seen, mut open) = (StyledText::new(), Vec::new());
    let mut lists: Vec<Option<u64>> = Vec::new();
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let mut link = None;
    for event in Parser::new_ext(text, options) {
        if let Event::Start(Tag::Link { dest_url, .. }) = &event {
            link = Some((seen.len(), percent_decoded(dest_url)));
        }
        if event == Event::End(TagEnd::Link)
            && let Some((start, address)) = link.take()
        {
            let words: String = seen[start..].iter().map(|(c, _)| c).collect();
            if words.trim() == address {
                seen[start..]
                    .iter_mut()
                    .for_each(|(_, looks)| *looks &= !LINK);
            }
        }
        let looks = |open: &[u8]| open.iter().fold(0, |all, look| all | look);
        let mut push = |text: &str, looks: u8| seen.extend(text.chars().map(|c| (c, looks)));
        match event {
            Event::Start(Tag::List(first)) => lists.push(first),
            Event::End(TagEnd::List(_)) => drop(lists.pop()),
            Event::Start(Tag::Item) => match lists.last_mut() {
                Some(Some(number)) => {
                    push(&format!("\n{number}."), looks(&open));
                    *number += 1;
                }
                _ => push("\n-", looks(&open)),
            },
            Event::Start(tag) => {
                push("\n", 0);
                open.push(match tag {
                    Tag::Strong | Tag::Heading { .. } => BOLD,
                    Tag::Emphasis => ITALIC,
                    Tag::Strikethrough => STRIKE,
                    Tag::CodeBlock(_) => CODE,
                    Tag::Link { .. } => LINK,
                    _ => 0,
                });
            }
            Event::End(TagEnd::Item) => {}
            Event::End(_) => drop(open.pop()),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => {
                push(&text, looks(&open));
            }
            Event::Code(code) => push(&code, looks(&open) | CODE),
            Event::SoftBreak | Event::HardBreak => push("\n", 0),
            Event::Rule => push("---", 0),
            _ => {}
        }
    }
    seen
}

fn percent_decoded(address: &str) -> String {
    let mut decoded = Vec::new();
    let mut rest = address.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *byte == b'%');
        let code =
            code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        decoded.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(decoded).unwrap()
}
