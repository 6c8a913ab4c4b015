//! A reader of Discord's Markdown: every character with its looks.
//!
//! Discord's rules are regular expressions that are tried at every character, of which the longest
//! match counts. They are written here from that, and not from the renderer.

use nanobot_channel::markup::{Document, Mark, Span};
use nanobot_testkit::conformance::MarkupReader;
use nanobot_testkit::markup::{BOLD, CODE, ITALIC, LINK, STRIKE, StyledText, is_blank};

/// Reads what Discord shows.
pub(crate) struct DiscordReader;

impl MarkupReader for DiscordReader {
    fn read(&self, text: &str) -> StyledText {
        let mut seen = StyledText::new();
        let mut within = false;
        for written in text.replace('•', "-").split('\n') {
            if written.starts_with("```") {
                within = !within;
                continue;
            }
            if within {
                seen.extend(written.chars().map(|c| (c, CODE)));
                continue;
            }
            let mut rest = written.strip_prefix("> ").unwrap_or(written);
            let mut looks = 0;
            for heading in ["# ", "## ", "### "] {
                if let Some(after) = rest.strip_prefix(heading) {
                    (rest, looks) = (after, BOLD);
                }
            }
            discord_line(&rest.chars().collect::<Vec<_>>(), looks, &mut seen);
        }
        assert!(!within, "a fence is open: {text:?}");
        seen.retain(|(c, _)| !is_blank(*c));
        seen
    }

    fn shown(&self, c: char) -> char {
        if c == '•' { '-' } else { c }
    }

    /// A mark around code or an address that holds a mark, code with too many marks of its own, a
    /// link whose words look like an address or brackets.
    fn is_impossible(&self, document: &Document, span: &Span) -> bool {
        let text = |span: &Span| document.text.get(span.range.clone()).unwrap().to_owned();
        match span.mark {
            Mark::Code => text(span).contains("``"),
            Mark::Link { .. } => text(span).contains(['[', ']']) || text(span).contains("://"),
            Mark::Bold | Mark::Italic | Mark::Strike | Mark::Heading { .. } => {
                document.spans.iter().any(|inner| {
                    matches!(inner.mark, Mark::Code | Mark::Address | Mark::Reference)
                        && span.range.contains(&inner.range.start)
                        && text(inner).contains(['*', '_', '~'])
                })
            }
            _ => false,
        }
    }
}

fn starts(text: &[char], with: &str) -> bool {
    with.chars()
        .enumerate()
        .all(|(at, c)| text.get(at) == Some(&c))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the length of the content between two marks; `step` returns the length of its next
/// piece.
fn between(
    text: &[char],
    mark: &str,
    step: impl Fn(&[char]) -> Option<usize>,
    closes: impl Fn(Option<char>) -> bool,
) -> Option<usize> {
    let mut at = mark.len();
    if !starts(text, mark) {
        return None;
    }
    while at < text.len() {
        let is_close = at > mark.len()
            && starts(&text[at..], mark)
            && closes(text.get(at + mark.len()).copied());
        if is_close {
            return Some(at - mark.len());
        }
        at += step(&text[at..])?;
    }
    None
}

fn escaped(text: &[char]) -> Option<usize> {
    (text[0] == '\\').then_some(2)
}

/// Returns the longest mark at the beginning: its length, the length of its content, and its look.
fn discord_mark(rest: &[char]) -> Option<(usize, usize, u8)> {
    let any = |rest: &[char]| escaped(rest).or(Some(1));
    let mut matches: Vec<(usize, usize, u8)> = Vec::new();
    if let Some(length) = between(rest, "**", any, |next| next != Some('*')) {
        matches.push((2, length, BOLD));
    }
    let in_star = |rest: &[char]| match rest {
        ['*', '*', ..] => Some(2),
        ['*', ..] => None,
        [c, next, ..] if c.is_whitespace() && *next == '*' && !starts(&rest[1..], "**") => None,
        rest => escaped(rest).or(Some(1)),
    };
    if rest[0] == '*'
        && rest.get(1).is_some_and(|c| !c.is_whitespace())
        && let Some(length) = between(rest, "*", in_star, |next| next != Some('*'))
    {
        matches.push((1, length, ITALIC));
    }
    let in_line = |rest: &[char]| match rest {
        ['_', '_', ..] => Some(2),
        ['_', ..] => None,
        rest => escaped(rest).or(Some(1)),
    };
    if rest[0] == '_'
        && let Some(length) = between(rest, "_", in_line, |next| !next.is_some_and(is_word))
    {
        matches.push((1, length, ITALIC));
    }
    if let Some(length) = between(rest, "~~", |_| Some(1), |next| next != Some('_')) {
        matches.push((2, length, STRIKE));
    }
    for (mark, what) in [("__", "an underline"), ("||", "a spoiler")] {
        assert!(
            between(rest, mark, any, |_| true).is_none(),
            "{what}: {rest:?}"
        );
    }
    matches
        .into_iter()
        .max_by_key(|found| found.1 + 2 * found.0)
}

fn discord_line(text: &[char], looks: u8, seen: &mut StyledText) {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let mark = discord_mark(rest);
        if rest[0] == '\\'
            && rest
                .get(1)
                .is_some_and(|c| !c.is_ascii_alphanumeric() && !c.is_whitespace())
        {
            seen.push((rest[1], looks));
            at += 2;
        } else if let Some(length) = discord_code(rest) {
            let marks = rest.iter().take_while(|c| **c == '`').count();
            seen.extend(
                rest[marks..length - marks]
                    .iter()
                    .map(|c| (*c, looks | CODE)),
            );
            at += length;
        } else if let Some((words, length)) = discord_link(rest) {
            discord_line(&rest[1..=words], looks | LINK, seen);
            at += length;
        } else if let Some(length) = discord_token(rest) {
            seen.extend(
                rest[..length]
                    .iter()
                    .filter(|c| rest[1] != 'h' || !"<>".contains(**c))
                    .map(|c| (*c, looks)),
            );
            at += length;
        } else if starts(rest, "http://") || starts(rest, "https://") {
            let length = rest
                .iter()
                .take_while(|c| !c.is_whitespace() && **c != '<')
                .count();
            let kept = rest[..length]
                .iter()
                .rposition(|c| !"<.,:;\"']".contains(*c))
                .map_or(length, |last| last + 1);
            seen.extend(rest[..kept].iter().map(|c| (*c, looks)));
            at += kept;
        } else if let Some((mark, length, look)) = mark {
            discord_line(&rest[mark..mark + length], looks | look, seen);
            at += 2 * mark + length;
        } else {
            seen.push((rest[0], looks));
            at += 1;
        }
    }
}

/// Returns the length of a reference or an address in angle brackets.
fn discord_token(text: &[char]) -> Option<usize> {
    let length = text
        .iter()
        .position(|c| *c == '>')
        .filter(|_| text[0] == '<')?
        + 1;
    let means = ["<@", "<#", "<:", "<a:", "<t:", "<http"]
        .iter()
        .any(|start| starts(text, start));
    (means && !text[..length].iter().any(|c| c.is_whitespace())).then_some(length)
}

fn discord_code(text: &[char]) -> Option<usize> {
    let marks = text.iter().take_while(|c| **c == '`').count();
    let mut at = marks;
    while marks > 0 && at < text.len() {
        let run = text[at..].iter().take_while(|c| **c == '`').count();
        if run == marks && at > marks {
            return Some(at + marks);
        }
        at += run.max(1);
    }
    None
}

/// Returns the length of the words of a link, and of the link.
fn discord_link(text: &[char]) -> Option<(usize, usize)> {
    let words = text
        .iter()
        .position(|c| *c == ']')
        .filter(|_| text[0] == '[')?;
    let behind = &text[words + 1..];
    let end = behind
        .iter()
        .position(|c| *c == ')')
        .filter(|_| starts(behind, "(<"))?;
    assert_eq!(behind[end - 1], '>', "{text:?}");
    Some((words - 1, words + 2 + end))
}
