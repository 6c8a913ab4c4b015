//! A reader of mrkdwn: every character with its looks.
//!
//! Slack lets a mark count only next to white space or punctuation. That is written here from its
//! documentation, and not from the renderer.

use nanobot_channel::markup::{Document, Mark, Span};
use nanobot_testkit::conformance::MarkupReader;
use nanobot_testkit::markup::{BOLD, CODE, ITALIC, LINK, STRIKE, StyledText, is_blank};

/// Reads what Slack shows.
pub(crate) struct SlackReader;

impl MarkupReader for SlackReader {
    fn read(&self, text: &str) -> StyledText {
        let mut seen = StyledText::new();
        let mut within = false;
        for written in text.split('\n') {
            if written.starts_with("```") {
                within = !within;
                continue;
            }
            if within {
                seen.extend(resolved(written).chars().map(|c| (c, CODE)));
                continue;
            }
            let line = written.strip_prefix("> ").unwrap_or(written);
            slack_line(&line.chars().collect::<Vec<_>>(), &mut seen);
        }
        assert!(!within, "a fence is open: {text:?}");
        seen.retain(|(c, _)| !is_blank(*c));
        seen
    }

    /// Code that contains a backtick is text.
    fn is_unmarked(&self, document: &Document, span: &Span) -> bool {
        let text = document.text.get(span.range.clone()).unwrap();
        span.mark == Mark::Code && text.contains('`')
    }

    /// A mark around what would be a mark itself.
    fn is_impossible(&self, document: &Document, span: &Span) -> bool {
        let is_mark = |c| matches!(c, '*' | '_' | '~' | '`');
        let text = document.text.get(span.range.clone()).unwrap();
        let mut lines = text.split('\n').map(|line| line.trim_matches(is_blank));
        matches!(
            span.mark,
            Mark::Bold | Mark::Italic | Mark::Strike | Mark::Heading { .. }
        ) && lines.any(|line| line.starts_with(is_mark) || line.ends_with(is_mark))
    }
}

/// Resolves Slack's three entities; `&amp;` last, since the others may follow it.
fn resolved(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// A character of a line, which may be a mark unless it is literal.
#[derive(Clone, Copy)]
struct Letter {
    c: char,
    looks: u8,
    literal: bool,
}

fn slack_line(text: &[char], seen: &mut StyledText) {
    let mut letters: Vec<Letter> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest: String = text[at..].iter().collect();
        let entity = [("&amp;", '&'), ("&lt;", '<'), ("&gt;", '>')]
            .into_iter()
            .find(|(name, _)| rest.starts_with(name));
        if let Some((name, c)) = entity {
            letters.push(Letter {
                c,
                looks: 0,
                literal: true,
            });
            at += name.len();
        } else if text[at] == '<' {
            let end = text[at..].iter().position(|c| *c == '>').unwrap();
            let inner: String = text[at + 1..at + end].iter().collect();
            let (words, looks) = match inner.split_once('|') {
                Some((_, words)) => (words.to_owned(), LINK),
                None if inner.starts_with(['@', '#']) => (format!("<{inner}>"), 0),
                None => (inner, 0),
            };
            let words = resolved(&words);
            letters.extend(words.chars().map(|c| Letter {
                c,
                looks,
                literal: true,
            }));
            at += end + 1;
        } else {
            assert!(!matches!(text[at], '>' | '&'), "{text:?}");
            letters.push(Letter {
                c: text[at],
                looks: 0,
                literal: false,
            });
            at += 1;
        }
    }
    let letters = without_code_marks(&letters);
    slack_marks(&letters, 0..letters.len(), 0, seen);
}

/// Returns `true` if a mark counts next to it.
fn bounds(letter: Option<&Letter>) -> bool {
    letter.is_none_or(|letter| {
        is_blank(letter.c) || letter.c.is_ascii_punctuation() || letter.looks & (LINK | CODE) != 0
    })
}

/// Returns the place before `end` where the mark at `at` is closed, if it is a mark.
fn closing(line: &[Letter], at: usize, end: usize) -> Option<usize> {
    let opens = bounds(at.checked_sub(1).and_then(|before| line.get(before)))
        && line.get(at + 1).is_some_and(|next| !is_blank(next.c));
    (at + 2..end).filter(|_| opens).find(|close| {
        let there = line[*close];
        !there.literal
            && there.c == line[at].c
            && !is_blank(line[close - 1].c)
            && bounds(line.get(close + 1))
    })
}

/// Reads inline code first: no mark in it counts.
fn without_code_marks(line: &[Letter]) -> Vec<Letter> {
    let mut letters = Vec::new();
    let mut at = 0;
    while at < line.len() {
        let is_mark = line[at].c == '`' && !line[at].literal;
        match closing(line, at, line.len()).filter(|_| is_mark) {
            Some(close) => {
                let code = line[at + 1..close].iter();
                letters.extend(code.map(|letter| Letter {
                    looks: letter.looks | CODE,
                    literal: true,
                    ..*letter
                }));
                at = close + 1;
            }
            None => {
                letters.push(line[at]);
                at += 1;
            }
        }
    }
    letters
}

fn slack_marks(line: &[Letter], range: std::ops::Range<usize>, looks: u8, seen: &mut StyledText) {
    let mut at = range.start;
    while at < range.end {
        let letter = line[at];
        let look = match letter.c {
            '*' => BOLD,
            '_' => ITALIC,
            '~' => STRIKE,
            _ => 0,
        };
        let close = closing(line, at, range.end).filter(|_| look != 0 && !letter.literal);
        if let Some(close) = close {
            slack_marks(line, at + 1..close, looks | look, seen);
            at = close + 1;
        } else {
            seen.push((letter.c, looks | letter.looks));
            at += 1;
        }
    }
}
