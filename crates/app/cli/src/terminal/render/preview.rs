//! Completes Markdown that is still being written, so that it can be rendered meanwhile.
//!
//! Decision: open emphasis, code and links are closed, a table header gets its delimiter row, and a
//! last line of markers only (`-`, `**`, half a fence) is left out, because its meaning depends on
//! the next character. The result is a guess for a few moments; what is kept is rendered from the
//! complete text.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::markdown::{is_too_deep, options};

/// Maximum length of a paragraph that is completed, in bytes.
const COMPLETED: usize = 8 << 10;

/// Maximum length of an open bracket's text that is taken for a link, in bytes.
const LINK_TEXT: usize = 200;

/// Maximum number of open constructs that are closed.
const OPEN: usize = 16;

/// Returns Markdown with its open constructs completed.
pub(super) fn completed(markdown: &str) -> String {
    if is_too_deep(markdown) {
        return markdown.to_owned();
    }
    let (start, kind) = last_block(markdown);
    let (before, tail) = markdown.split_at_checked(start).unwrap_or((markdown, ""));
    if tail.len() > COMPLETED && kind == Kind::Text {
        return markdown.to_owned();
    }
    match kind {
        Kind::Verbatim => markdown.to_owned(),
        Kind::Fenced => without_last_line(markdown, |c| matches!(c, '`' | '~')).to_owned(),
        Kind::Text => {
            let tail = without_last_line(tail, is_marker);
            let tail = closed(tail);
            let is_at_line_start = before.is_empty() || before.ends_with('\n');
            let table = completed_table(&tail).filter(|_| is_at_line_start);
            format!("{before}{}", table.unwrap_or(tail))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Paragraphs, headings, items, cells.
    Text,
    Fenced,
    /// Indented code and HTML.
    Verbatim,
}

/// Returns the offset and the kind of the innermost block at the end.
fn last_block(markdown: &str) -> (usize, Kind) {
    let mut last = (0, Kind::Text);
    for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
        let Event::Start(tag) = event else { continue };
        let kind = match tag {
            Tag::CodeBlock(CodeBlockKind::Fenced(_)) => Kind::Fenced,
            Tag::CodeBlock(CodeBlockKind::Indented) | Tag::HtmlBlock => Kind::Verbatim,
            Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell => Kind::Text,
            _ => continue,
        };
        last = (range.start, kind);
    }
    last
}

fn is_marker(character: char) -> bool {
    matches!(
        character,
        '-' | '=' | '*' | '+' | '#' | '>' | '`' | '~' | '_' | '|' | ':' | '[' | '!'
    )
}

/// Removes an unfinished last line of such characters only.
fn without_last_line(text: &str, is_removed: impl Fn(char) -> bool) -> &str {
    let start = text.rfind('\n').map_or(0, |index| index + 1);
    let (before, line) = text.split_at_checked(start).unwrap_or((text, ""));
    let line = line.trim();
    if !line.is_empty() && line.chars().all(|c| is_removed(c) || c == ' ') {
        before
    } else {
        text
    }
}

/// Adds the delimiter row of a table whose header is complete.
fn completed_table(tail: &str) -> Option<String> {
    let mut lines = tail.lines();
    let head = lines.next()?.trim();
    let delimiters = lines.next().unwrap_or_default();
    let is_begun = delimiters
        .chars()
        .all(|c| matches!(c, '|' | '-' | ':' | ' '));
    if !head.starts_with('|') || !is_begun || lines.next().is_some() {
        return None;
    }
    let cells = head.trim_matches('|').split('|').count();
    Some(format!("{head}\n{}|\n", "|---".repeat(cells)))
}

/// A construct that has begun.
struct Open {
    kind: OpenKind,
    /// Offset of its marker.
    start: usize,
    /// Offset of its content.
    content: usize,
}

#[derive(PartialEq, Eq)]
enum OpenKind {
    /// A number of backticks.
    Code(usize),
    /// Emphasis by a number of characters.
    Emphasis(char, usize),
    Bracket,
    /// The target of a link.
    Target,
}

/// Closes emphasis, code and links that have begun, and removes markers at the end that have no
/// content yet.
fn closed(tail: &str) -> String {
    let mut scan = Scan {
        tail,
        open: Vec::new(),
        keep: tail.len(),
    };
    scan.run();
    let (mut open, keep) = (scan.open, scan.keep);
    if open.is_empty() && keep == tail.len() {
        return tail.to_owned();
    }
    let mut text = tail.get(..keep).unwrap_or(tail).trim_end();
    while let Some(last) = open.pop_if(|last| last.content >= text.len()) {
        text = text.get(..last.start).unwrap_or(text).trim_end();
    }
    let mut text = text.to_owned();
    for construct in open.iter().rev() {
        match construct.kind {
            OpenKind::Code(length) => text.push_str(&"`".repeat(length)),
            OpenKind::Emphasis(character, length) => {
                text.extend(std::iter::repeat_n(character, length));
            }
            OpenKind::Bracket if text.len() - construct.start < LINK_TEXT => text.push_str("]()"),
            OpenKind::Bracket => {}
            OpenKind::Target => text.push(')'),
        }
    }
    text
}

struct Scan<'a> {
    tail: &'a str,
    open: Vec<Open>,
    /// Length of the text without a marker at its end that may still change.
    keep: usize,
}

impl Scan<'_> {
    fn run(&mut self) {
        let mut before = None;
        let mut at = 0;
        while let Some(character) = self.character(at) {
            let next = at + character.len_utf8();
            let end = match character {
                '\\' => next + self.character(next).map_or(0, char::len_utf8),
                ')' if self.is_in_target() => {
                    self.open.pop();
                    next
                }
                _ if self.is_in_target() => {
                    if character.is_whitespace() {
                        self.open.pop();
                    }
                    next
                }
                '`' => self.code(at),
                '*' | '_' | '~' => self.delimiter(at, character, before),
                '[' => self.bracket(at, before),
                ']' => self.end_bracket(at),
                _ => next,
            };
            before = Some(character);
            at = end;
        }
    }

    fn character(&self, at: usize) -> Option<char> {
        self.tail.get(at..)?.chars().next()
    }

    fn is_in_target(&self) -> bool {
        self.open
            .last()
            .is_some_and(|last| last.kind == OpenKind::Target)
    }

    fn push(&mut self, kind: OpenKind, start: usize, content: usize) {
        if self.open.len() < OPEN {
            self.open.push(Open {
                kind,
                start,
                content,
            });
        }
    }

    /// Returns the offset after a run of a character.
    fn run_end(&self, at: usize, character: char) -> usize {
        let rest = self.tail.get(at..).unwrap_or_default();
        at + rest.len() - rest.trim_start_matches(character).len()
    }

    fn code(&mut self, at: usize) -> usize {
        let content = self.run_end(at, '`');
        let mut search = content;
        while let Some(found) = self.tail.get(search..).and_then(|rest| rest.find('`')) {
            let start = search + found;
            let end = self.run_end(start, '`');
            if end - start == content - at {
                return end;
            }
            search = end;
        }
        self.push(OpenKind::Code(content - at), at, content);
        self.tail.len()
    }

    fn delimiter(&mut self, at: usize, character: char, before: Option<char>) -> usize {
        let end = self.run_end(at, character);
        let after = self.character(end);
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let is_text = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
        let is_underscore = character == '_';
        let closes = is_text(before) && !(is_underscore && is_word(after));
        let opens = is_text(after) && !(is_underscore && is_word(before));
        let mut left = end - at;
        while closes && left > 0 {
            let Some(last) = self.open.last_mut() else {
                break;
            };
            let OpenKind::Emphasis(of, length) = &mut last.kind else {
                break;
            };
            if *of != character {
                break;
            }
            let both = left.min(*length);
            left -= both;
            *length -= both;
            if *length == 0 {
                self.open.pop();
            }
        }
        if left == end - at && after.is_none() {
            self.keep = at;
        } else if left > 0 && left <= 3 && opens {
            self.push(OpenKind::Emphasis(character, left), at, end);
        }
        end
    }

    fn bracket(&mut self, at: usize, before: Option<char>) -> usize {
        let start = if before == Some('!') { at - 1 } else { at };
        self.push(OpenKind::Bracket, start, at + 1);
        at + 1
    }

    fn end_bracket(&mut self, at: usize) -> usize {
        let bracket = self
            .open
            .iter()
            .rposition(|open| open.kind == OpenKind::Bracket);
        let Some(bracket) = bracket else {
            return at + 1;
        };
        self.open.truncate(bracket);
        if self.character(at + 1) == Some('(') {
            self.push(OpenKind::Target, at, at + 1);
            return at + 2;
        }
        at + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_constructs_are_completed() {
        for (markdown, expected) in [
            ("a **bol", "a **bol**"),
            ("a **bold*", "a **bold**"),
            ("a **bold**", "a **bold**"),
            ("a **", "a"),
            ("a **b *c ", "a **b *c***"),
            ("a ~~b", "a ~~b~~"),
            ("2 * 3", "2 * 3"),
            ("snake_case", "snake_case"),
            ("run `ls -", "run `ls -`"),
            ("run `", "run"),
            ("``a`b", "``a`b``"),
            ("a [lin", "a [lin]()"),
            ("a ![", "a"),
            ("a [link](http://x/y_z", "a [link](http://x/y_z)"),
            ("a [link](http://x/) **b", "a [link](http://x/) **b**"),
            ("a [0] b", "a [0] b"),
            ("**a [b", "**a [b]()**"),
            ("- one\n- **tw", "- one\n- **tw**"),
            ("- one\n-", "- one\n"),
            ("text\n=", "text\n"),
            ("```\n**a\n``", "```\n**a\n"),
            ("    **a", "    **a"),
            ("| a | b |", "| a | b |\n|---|---|\n"),
            ("| a | **b", "| a | **b**\n|---|---|\n"),
            ("| a | b |\n|--", "| a | b |\n|---|---|\n"),
            ("|a|\n|-|\n|**b", "|a|\n|-|\n|**b**"),
            ("\\*a", "\\*a"),
        ] {
            assert_eq!(completed(markdown), expected, "{markdown:?}");
        }
    }

    #[test]
    fn long_paragraph_is_not_completed() {
        let long = format!("**{}", "a".repeat(COMPLETED));
        assert_eq!(completed(&long), long);
    }
}
