//! A reader of the Markdown of robots: CommonMark, by a parser that is not this program's.

use nanobot_channel::markup::{Document, Mark, Span};
use nanobot_testkit::conformance::MarkupReader;
use nanobot_testkit::markup::{BOLD, CODE, ITALIC, LINK, StyledText, is_blank};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// Reads what DingTalk shows.
pub(crate) struct RobotReader;

impl MarkupReader for RobotReader {
    fn read(&self, text: &str) -> StyledText {
        let mut seen = read(text);
        seen.retain(|(c, _)| !is_blank(*c));
        seen
    }

    fn shown(&self, c: char) -> char {
        if c == '•' { '-' } else { c }
    }

    /// Struck text, and a link whose words are its address.
    fn is_unmarked(&self, document: &Document, span: &Span) -> bool {
        let text = document.text.get(span.range.clone()).unwrap();
        match &span.mark {
            Mark::Strike => true,
            Mark::Link { url } => url == text,
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
    let mut reader = Reader::default();
    for event in Parser::new(text) {
        reader.read(event);
    }
    reader.seen
}

#[derive(Default)]
struct Reader {
    seen: StyledText,
    /// The styles that are open.
    open: Vec<u8>,
    /// The next number of each list.
    lists: Vec<Option<u64>>,
    /// The start of the link and its address.
    link: Option<(usize, String)>,
}

impl Reader {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::List(first)) => self.lists.push(first),
            Event::End(TagEnd::List(_)) => drop(self.lists.pop()),
            Event::Start(Tag::Item) => self.begin_item(),
            Event::End(TagEnd::Item) => {}
            Event::Start(tag) => {
                self.seen.push(('\n', 0));
                self.open.push(match &tag {
                    Tag::Strong | Tag::Heading { .. } => BOLD,
                    Tag::Emphasis => ITALIC,
                    Tag::CodeBlock(_) => CODE,
                    Tag::Link { .. } => LINK,
                    _ => 0,
                });
                if let Tag::Link { dest_url, .. } = tag {
                    self.link = Some((self.seen.len(), percent_decoded(&dest_url)));
                }
            }
            Event::End(tag) => {
                self.open.pop();
                if tag == TagEnd::Link {
                    self.end_link();
                }
            }
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.push(&text, 0),
            Event::Code(code) => self.push(&code, CODE),
            Event::SoftBreak | Event::HardBreak => self.push("\n", 0),
            Event::Rule => self.push("---", 0),
            _ => {}
        }
    }

    fn push(&mut self, text: &str, more: u8) {
        let style = self.open.iter().fold(more, |all, style| all | style);
        self.seen.extend(text.chars().map(|c| (c, style)));
    }

    fn begin_item(&mut self) {
        let text = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("\n{}.", *number - 1)
            }
            _ => "\n-".to_owned(),
        };
        self.push(&text, 0);
    }

    /// Removes the style of a link whose words are its address.
    fn end_link(&mut self) {
        let Some((start, address)) = self.link.take() else {
            return;
        };
        let words: String = self.seen[start..].iter().map(|(c, _)| c).collect();
        if words.trim() == address {
            let words = self.seen[start..].iter_mut();
            words.for_each(|(_, style)| *style &= !LINK);
        }
    }
}

fn percent_decoded(address: &str) -> String {
    let mut pieces = address.split('%');
    let mut decoded: Vec<u8> = pieces.next().unwrap_or_default().into();
    for piece in pieces {
        match piece.get(..2).map(|code| u8::from_str_radix(code, 16)) {
            Some(Ok(byte)) => {
                decoded.push(byte);
                decoded.extend(&piece.as_bytes()[2..]);
            }
            _ => decoded.extend([b"%", piece.as_bytes()].concat()),
        }
    }
    String::from_utf8(decoded).unwrap()
}
