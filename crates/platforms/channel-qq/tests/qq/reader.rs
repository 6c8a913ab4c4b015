//! A reader of QQ's Markdown: CommonMark with struck text, by a parser that is not this program's.
//! Every line break is shown as one.

use nanobot_channel::markup::{Document, Mark, Span};
use nanobot_testkit::conformance::MarkupReader;
use nanobot_testkit::markup::{BOLD, CODE, ITALIC, LINK, STRIKE, StyledText, is_blank};
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};

/// Reads what QQ shows.
pub(crate) struct QqReader;

impl MarkupReader for QqReader {
    fn read(&self, text: &str) -> StyledText {
        let mut seen = read(text);
        seen.retain(|(c, _)| !is_blank(*c));
        seen
    }

    fn shown(&self, c: char) -> char {
        if c == '•' { '-' } else { c }
    }

    /// Addresses are written as they are.
    fn is_unmarked(&self, _document: &Document, span: &Span) -> bool {
        matches!(span.mark, Mark::Address | Mark::Link { .. })
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
    for event in Parser::new_ext(text, Options::ENABLE_STRIKETHROUGH) {
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
}

impl Reader {
    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Start(Tag::List(first)) => self.lists.push(first),
            Event::End(TagEnd::List(_)) => drop(self.lists.pop()),
            Event::Start(Tag::Item) => {
                let mark = self.item();
                self.show(&mark, 0);
            }
            Event::End(TagEnd::Item) => {}
            Event::Start(tag) => {
                self.seen.push(('\n', 0));
                self.open.push(style(&tag));
            }
            Event::End(_) => drop(self.open.pop()),
            Event::Code(text) => self.show(&text, CODE),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.show(&text, 0),
            Event::SoftBreak | Event::HardBreak => self.show("\n", 0),
            Event::Rule => self.show("---", 0),
            _ => {}
        }
    }

    fn show(&mut self, text: &str, more: u8) {
        let style = self.open.iter().fold(more, |all, style| all | style);
        self.seen.extend(text.chars().map(|c| (c, style)));
    }

    fn item(&mut self) -> String {
        let Some(Some(number)) = self.lists.last_mut() else {
            return "\n-".to_owned();
        };
        *number += 1;
        format!("\n{}.", *number - 1)
    }
}

fn style(tag: &Tag<'_>) -> u8 {
    match tag {
        Tag::Strong | Tag::Heading { .. } => BOLD,
        Tag::Emphasis => ITALIC,
        Tag::Strikethrough => STRIKE,
        Tag::CodeBlock(_) => CODE,
        Tag::Link {
            link_type: LinkType::Autolink,
            ..
        } => 0,
        Tag::Link { .. } => LINK,
        _ => 0,
    }
}
