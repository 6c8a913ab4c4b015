//! A reader of WhatsApp's marks: every character with its looks.
//!
//! A mark counts at the edge of a word only, encloses text without spaces at its ends, and ends
//! with the line; an address has no marks in it. That is written here from WhatsApp's help pages
//! and the behaviour of its clients, and not from the renderer.

use std::ops::Range;

use nanobot_channel::markup::{Document, Mark, Span};
use nanobot_testkit::conformance::MarkupReader;
use nanobot_testkit::markup::{BOLD, CODE, ITALIC, STRIKE, StyledText, is_blank};

/// The addresses of links in the samples, which follow the words of the links.
const LINKED: [&str; 2] = ["https://e.org/x", "https://e.org/?a=1&b=(2)"];
/// The looks of an address while a line is read.
const ADDRESS: u8 = 128;

/// Reads what WhatsApp shows.
pub(crate) struct WhatsAppReader;

impl MarkupReader for WhatsAppReader {
    fn read(&self, text: &str) -> StyledText {
        read(text)
    }

    /// Bullets are drawn anew.
    fn shown(&self, c: char) -> char {
        if c == '•' { '-' } else { c }
    }

    /// Code that contains a backtick is text, and so are the words of a link.
    fn is_unmarked(&self, document: &Document, span: &Span) -> bool {
        let text = document.text.get(span.range.clone()).unwrap();
        let is_link = matches!(span.mark, Mark::Link { .. });
        is_link || (span.mark == Mark::Code && text.contains('`'))
    }

    /// A mark around what would be a mark itself or holds one that cannot be marked as text, and an
    /// address next to other text.
    fn is_impossible(&self, document: &Document, span: &Span) -> bool {
        let text = document.text.get(span.range.clone()).unwrap();
        if span.mark == Mark::Address {
            let before = document.text.get(..span.range.start).unwrap();
            let after = document.text.get(span.range.end..).unwrap();
            let is_apart = |c: Option<char>| c.is_none_or(char::is_whitespace);
            return !is_apart(before.chars().next_back()) || !is_apart(after.chars().next());
        }
        let holds_literal = |inner: &Span| {
            let range = inner.range.start >= span.range.start && inner.range.end <= span.range.end;
            let text = document.text.get(inner.range.clone()).unwrap();
            inner.mark.is_literal() && range && text.contains(is_sign)
        };
        let mut lines = text.split('\n').map(|line| line.trim_matches(is_blank));
        let is_styled = matches!(
            span.mark,
            Mark::Bold | Mark::Italic | Mark::Strike | Mark::Heading { .. }
        );
        let is_sign_at_edge = |line: &str| line.starts_with(is_sign) || line.ends_with(is_sign);
        is_styled && (lines.any(is_sign_at_edge) || document.spans.iter().any(holds_literal))
    }
}

/// Returns every visible character with its looks.
pub(crate) fn read(text: &str) -> StyledText {
    let mut seen = StyledText::new();
    let mut is_code = false;
    for line in text.split('\n') {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            seen.extend(line.chars().map(|c| (c, CODE)));
        } else {
            let line = line.strip_prefix("> ").unwrap_or(line);
            let mut line = line.to_owned();
            for url in LINKED {
                line = line.replace(&format!(" ({url})"), "");
            }
            let letters: Vec<(char, u8)> = without_code(&line.chars().collect::<Vec<_>>());
            styled(&letters, 0..letters.len(), 0, &mut seen);
        }
    }
    assert!(!is_code, "a fence is open: {text:?}");
    seen.retain(|(c, _)| !is_blank(*c));
    seen
}

fn is_sign(c: char) -> bool {
    matches!(c, '*' | '_' | '~' | '`')
}

fn is_edge(c: Option<&(char, u8)>) -> bool {
    c.is_none_or(|(c, looks)| is_blank(*c) || c.is_ascii_punctuation() || *looks == CODE)
}

/// Returns the place of the mark that closes the one at `at`, if that is one.
fn closing(line: &[(char, u8)], at: usize, end: usize, is_mark: bool) -> Option<usize> {
    let before = at.checked_sub(1).and_then(|before| line.get(before));
    let is_text = |c: Option<&(char, u8)>| c.is_some_and(|(c, _)| !is_blank(*c));
    if !is_mark || !is_edge(before) || !is_text(line.get(at + 1)) {
        return None;
    }
    let is_close = |close: &usize| line[*close] == line[at] && is_text(line.get(close - 1));
    (at + 2..end).find(|close| is_close(close) && is_edge(line.get(close + 1)))
}

/// Reads inline code first: no mark in it counts.
fn without_code(line: &[char]) -> Vec<(char, u8)> {
    let plain = with_addresses(line);
    let mut letters = Vec::new();
    let mut at = 0;
    while let Some((c, _)) = plain.get(at) {
        let is_mark = *c == '`' && plain[at].1 == 0;
        match closing(&plain, at, plain.len(), is_mark) {
            Some(close) => {
                letters.extend(plain[at + 1..close].iter().map(|(c, _)| (*c, CODE)));
                at = close + 1;
            }
            None => {
                letters.push(plain[at]);
                at += 1;
            }
        }
    }
    letters
}

/// Finds the addresses of a line, up to a space and without punctuation at their ends.
fn with_addresses(line: &[char]) -> Vec<(char, u8)> {
    let mut letters: Vec<(char, u8)> = Vec::new();
    for word in line.split_inclusive(|c| c.is_whitespace()) {
        let text: String = word.iter().collect();
        let begin = ["http://", "https://"]
            .iter()
            .filter_map(|scheme| text.find(scheme))
            .min();
        let begin = begin.map(|at| text.get(..at).unwrap().chars().count());
        let is_end = |c: &char| !c.is_whitespace() && !is_sign(*c) && !".,)".contains(*c);
        let end = word.iter().rposition(is_end).map_or(0, |last| last + 1);
        let is_address = |at: usize| begin.is_some_and(|begin| (begin..end).contains(&at));
        let looks = |at| if is_address(at) { ADDRESS } else { 0 };
        letters.extend(word.iter().enumerate().map(|(at, c)| (*c, looks(at))));
    }
    letters
}

fn styled(line: &[(char, u8)], range: Range<usize>, looks: u8, seen: &mut StyledText) {
    let mut at = range.start;
    while at < range.end {
        let (c, own) = line[at];
        let look = match (c, own) {
            ('*', 0) => BOLD,
            ('_', 0) => ITALIC,
            ('~', 0) => STRIKE,
            _ => 0,
        };
        match closing(line, at, range.end, look != 0) {
            Some(close) => {
                styled(line, at + 1..close, looks | look, seen);
                at = close + 1;
            }
            None => {
                seen.push((c, (own & !ADDRESS) | looks));
                at += 1;
            }
        }
    }
}
