//! The Markdown of robots (DingTalk's developer documentation, "Robot message types"): headings,
//! quotes, bold, italic, code, links, images and lists.
//!
//! Decision: a character that would be read as a mark is escaped by a backslash, as in CommonMark.
//! A mark counts only next to certain characters, so a hair space is inserted where it would not.
//! DingTalk joins lines that are not separated by a blank one, so a line break is written as a hard
//! one, with two spaces before it. Pictures are never written: a reply could send what it knows to
//! any server by their addresses.

use std::ops::Range;

use nanobot_channel::markup::{
    Document, LineMarkup, Mark, Markup, MarkupLine, Measure, Overhead, TextRun, ZERO_WIDTH_SPACE,
    is_web_address, longest_backtick_run, push_fenced, render_lines, slice, with_neighbours,
};

/// The addresses that DingTalk links.
const SCHEMES: &[&str] = &["http://", "https://", "dingtalk://"];
/// White space that lets a mark count.
const HAIR_SPACE: char = '\u{200A}';
/// The end of a line that is not joined with the next one, before the line end itself.
const HARD_BREAK: &str = "  ";
const FENCE: &str = "```";

/// The Markdown of robots. A text is counted with its markup.
#[derive(Clone, Copy, Debug)]
pub struct DingTalkMarkdown;

impl Markup for DingTalkMarkdown {
    fn render(&self, document: &Document) -> String {
        with_hard_breaks(&render_lines(document, self))
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        SCHEMES
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        Some(self)
    }
}

impl LineMarkup for DingTalkMarkdown {
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)> {
        match mark {
            Mark::Bold | Mark::Heading { .. } => Some(emphasis("**", run)),
            Mark::Italic => Some(emphasis("*", run)),
            Mark::Code => code_marks(run),
            Mark::Link { url } => Some(link(url)),
            Mark::Address if is_web_address(run.text) => Some(link(run.text)),
            Mark::Item => Some(Default::default()),
            Mark::Address | Mark::Strike | Mark::Reference | Mark::Quote | Mark::Pre { .. } => None,
        }
    }

    fn heading(&self, level: u8) -> Option<&'static str> {
        let prefixes = ["# ", "## ", "### ", "#### ", "##### ", "###### "];
        prefixes.get(usize::from(level.max(1)) - 1).copied()
    }

    fn quote(&self) -> &'static str {
        "> "
    }

    fn fence(&self, info: &str) -> (String, String) {
        let is_language = |c: char| c.is_ascii_alphanumeric() || "_+-.#".contains(c);
        let info = if info.chars().all(is_language) {
            info
        } else {
            ""
        };
        (format!("{FENCE}{info}\n"), format!("\n{FENCE}"))
    }

    fn text(&self, line: &MarkupLine<'_>, range: Range<usize>, out: &mut String) {
        for (at, before, c, after) in with_neighbours(line.text, range) {
            if is_read_as_mark(line, at, before, c, after) {
                out.push('\\');
            }
            out.push(c);
        }
    }

    fn literal(&self, mark: &Mark, text: &str, out: &mut String) {
        match mark {
            Mark::Item => out.push_str(if text == "•" { "-" } else { text }),
            Mark::Pre { .. } => push_fenced(text, |c, out| out.push(c), out),
            Mark::Code => out.push_str(text),
            _ => text.chars().for_each(|c| push_escaped(c, out)),
        }
    }
}

impl Overhead for DingTalkMarkdown {
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize {
        match c {
            '`' if in_code_block => measure.of_char(ZERO_WIDTH_SPACE),
            _ if in_code_block => 0,
            '\n' => HARD_BREAK.len(),
            c if c.is_ascii_punctuation() => 1,
            _ => 0,
        }
    }

    fn of_mark(&self, mark: &Mark, text: &str, measure: Measure) -> usize {
        let space = measure.of_char(HAIR_SPACE);
        match mark {
            Mark::Bold => "****".len() + 2 * space,
            Mark::Heading { .. } => "###### ".len() + 2 * space,
            Mark::Italic => "**".len() + 2 * space,
            Mark::Code => 2 * (longest_backtick_run(text) + 2) + space,
            Mark::Link { url } => measure.of(&address(url)) + "[]()".len(),
            Mark::Address => measure.of(&address(text)) + "[]()".len(),
            Mark::Quote => "> ".len(),
            Mark::Pre { info } => measure.of(info) + "\n```\n\n```\n".len(),
            Mark::Strike | Mark::Reference | Mark::Item => 0,
        }
    }
}

/// Returns the marks of emphasis, with space around them where they would not count.
fn emphasis(mark: &str, run: &TextRun<'_>) -> (String, String) {
    let is_mark = |c: char| matches!(c, '*' | '`' | '[' | ']' | '_' | '\\');
    let is_odd = |c: Option<char>| c.is_some_and(|c| !c.is_alphanumeric());
    let (first, last) = (run.text.chars().next(), run.text.chars().next_back());
    let needs_space = |outside: Option<char>, inside: Option<char>| {
        outside.is_some_and(|c| !c.is_whitespace() && (is_mark(c) || is_odd(inside)))
    };
    let space = |is_needed: bool| {
        if is_needed {
            HAIR_SPACE.to_string()
        } else {
            String::new()
        }
    };
    let before = space(needs_space(run.before, first));
    let after = space(needs_space(run.after, last));
    (format!("{before}{mark}"), format!("{mark}{after}"))
}

/// Returns the marks of inline code that may contain backticks; `None` if it has too many.
fn code_marks(run: &TextRun<'_>) -> Option<(String, String)> {
    let ticks = longest_backtick_run(run.text);
    if ticks > 1 {
        return None;
    }
    let mark = "`".repeat(ticks + 1);
    let touches = run.text.starts_with('`') || run.text.ends_with('`');
    let padding = if touches { " " } else { "" };
    let gap = match run.before {
        Some('`') => HAIR_SPACE.to_string(),
        _ => String::new(),
    };
    Some((format!("{gap}{mark}{padding}"), format!("{padding}{mark}")))
}

fn link(url: &str) -> (String, String) {
    ("[".to_owned(), format!("]({})", address(url)))
}

/// Returns an address without characters that would end it.
fn address(url: &str) -> String {
    let mut address = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '(' | ')' | '<' | '>' | '\\' | '[' | ']' | '*' | '_' | '~' | '`' | '|' | '"' | '!' => {
                address.push_str(&format!("%{:02X}", u32::from(c)));
            }
            '&' => address.push_str("&amp;"),
            c if c.is_whitespace() => address.push_str("%20"),
            _ => address.push(c),
        }
    }
    address
}

/// Returns `true` if a character of a line would be read as a mark.
fn is_read_as_mark(
    line: &MarkupLine<'_>,
    at: usize,
    before: Option<char>,
    c: char,
    after: Option<char>,
) -> bool {
    let is_first = at == line.first;
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    match c {
        '*' | '`' | '[' | ']' | '<' | '\\' | '~' | '|' => true,
        '_' => !(is_word(before) && is_word(after)),
        '&' => after.is_some_and(|after| after == '#' || after.is_ascii_alphabetic()),
        '#' | '>' | '=' => is_first,
        '-' | '+' => is_first && after.is_none_or(|after| after.is_whitespace() || after == c),
        '.' | ')' => {
            let number = slice(line.text, line.first..at);
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}

/// Appends a character of an address that is written as text.
fn push_escaped(c: char, out: &mut String) {
    if "\\`*_[]<>~|&#".contains(c) {
        out.push('\\');
    }
    out.push(c);
}

/// Writes line breaks outside of code blocks as hard ones.
fn with_hard_breaks(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut is_code = false;
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        out.push_str(line);
        let is_fence = line.starts_with(FENCE);
        is_code ^= is_fence;
        let Some(next) = lines.peek() else { break };
        let joins = !line.trim().is_empty() && !next.trim().is_empty();
        if joins && !is_code && !is_fence && !next.starts_with(FENCE) {
            out.push_str(HARD_BREAK);
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_are_hard_outside_of_code() {
        let table = [
            ("a\nb\n\nc", "a  \nb\n\nc"),
            ("a\n```\nb\nc\n```\nd\ne", "a\n```\nb\nc\n```\nd  \ne"),
            ("- a\n- b", "- a  \n- b"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(with_hard_breaks(text), expected);
        }
    }
}
