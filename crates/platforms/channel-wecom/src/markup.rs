//! The Markdown of AI bots: headings, quotes, bold, italic, code, links and lists, as in
//! CommonMark.
//!
//! Decision: whatever would be read as a mark is escaped by a backslash. A mark counts only next to
//! certain characters, so a hair space is inserted where it would not. Line breaks are written as
//! hard ones, because single ones are joined in CommonMark. Tables are written as aligned text,
//! since older clients do not show them. Pictures are never written: a reply could send what it
//! knows to any server by their addresses.

use std::ops::Range;

use nanobot_channel::markup::{
    Document, LineMarkup, Mark, Markup, MarkupLine, Measure, Overhead, TextRun, ZERO_WIDTH_SPACE,
    is_web_address, longest_backtick_run, push_fenced, render_lines, slice, with_neighbours,
};

/// The addresses that WeCom links.
const SCHEMES: &[&str] = &["http://", "https://"];
/// White space that lets a mark count.
const HAIR_SPACE: char = '\u{200A}';
/// What precedes a line end that is kept.
const HARD_BREAK: &str = "  ";
const FENCE: &str = "```";
const HEADINGS: [&str; 6] = ["# ", "## ", "### ", "#### ", "##### ", "###### "];
/// Characters that are escaped in the text of an address.
const ADDRESS_MARKS: &str = "\\`*_[]<>~|&#";

/// The Markdown of AI bots. A text is counted with its markup.
#[derive(Clone, Copy, Debug)]
pub struct WeComMarkdown;

impl Markup for WeComMarkdown {
    fn render(&self, document: &Document) -> String {
        keep_line_breaks(&render_lines(document, self))
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        SCHEMES
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        Some(self)
    }
}

impl LineMarkup for WeComMarkdown {
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)> {
        match mark {
            Mark::Bold | Mark::Heading { .. } => Some(emphasised("**", run)),
            Mark::Italic => Some(emphasised("*", run)),
            Mark::Code => inline_code(run),
            Mark::Link { url } => Some(linked(url)),
            Mark::Address if is_web_address(run.text) => Some(linked(run.text)),
            Mark::Item => Some(Default::default()),
            Mark::Address | Mark::Strike | Mark::Reference | Mark::Quote | Mark::Pre { .. } => None,
        }
    }

    fn heading(&self, level: u8) -> Option<&'static str> {
        HEADINGS.get(usize::from(level.max(1)) - 1).copied()
    }

    fn quote(&self) -> &'static str {
        "> "
    }

    fn fence(&self, info: &str) -> (String, String) {
        let is_language =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '.' | '#');
        let language = if info.chars().all(is_language) {
            info
        } else {
            ""
        };
        (format!("{FENCE}{language}\n"), format!("\n{FENCE}"))
    }

    fn text(&self, line: &MarkupLine<'_>, range: Range<usize>, out: &mut String) {
        for (at, before, c, after) in with_neighbours(line.text, range) {
            let head = slice(line.text, line.first..at);
            if needs_escape(head, before, c, after) {
                out.push('\\');
            }
            out.push(c);
        }
    }

    fn literal(&self, mark: &Mark, text: &str, out: &mut String) {
        match mark {
            Mark::Item if text == "•" => out.push('-'),
            Mark::Item | Mark::Code => out.push_str(text),
            Mark::Pre { .. } => push_fenced(text, |c, out| out.push(c), out),
            _ => {
                for c in text.chars() {
                    if ADDRESS_MARKS.contains(c) {
                        out.push('\\');
                    }
                    out.push(c);
                }
            }
        }
    }
}

impl Overhead for WeComMarkdown {
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize {
        match (c, in_code_block) {
            ('`', true) => measure.of_char(ZERO_WIDTH_SPACE),
            (_, true) => 0,
            ('\n', false) => HARD_BREAK.len(),
            (c, false) => usize::from(c.is_ascii_punctuation()),
        }
    }

    fn of_mark(&self, mark: &Mark, text: &str, measure: Measure) -> usize {
        let spaces = 2 * measure.of_char(HAIR_SPACE);
        match mark {
            Mark::Bold => "****".len() + spaces,
            Mark::Heading { .. } => "###### ".len() + "****".len() + spaces,
            Mark::Italic => "**".len() + spaces,
            Mark::Code => 2 * (longest_backtick_run(text) + 2) + spaces,
            Mark::Link { url } => "[]()".len() + measure.of(&encoded(url)),
            Mark::Address => "[]()".len() + measure.of(&encoded(text)),
            Mark::Quote => "> ".len(),
            Mark::Pre { info } => "\n```\n\n```\n".len() + measure.of(info),
            Mark::Strike | Mark::Reference | Mark::Item => 0,
        }
    }
}

/// Returns the marks of emphasis, with space around them where they would not count.
fn emphasised(mark: &str, run: &TextRun<'_>) -> (String, String) {
    let gap = |outside: Option<char>, inside: Option<char>| match outside {
        Some(c) if !c.is_whitespace() => {
            let joins = matches!(c, '*' | '`' | '[' | ']' | '_' | '\\');
            let is_word = inside.is_none_or(char::is_alphanumeric);
            if joins || !is_word {
                HAIR_SPACE.to_string()
            } else {
                String::new()
            }
        }
        _ => String::new(),
    };
    let mut inside = run.text.chars();
    let (first, last) = (run.text.chars().next(), inside.next_back());
    (
        format!("{}{mark}", gap(run.before, first)),
        format!("{mark}{}", gap(run.after, last)),
    )
}

/// Returns the marks of inline code; `None` if it has too many backticks of its own.
fn inline_code(run: &TextRun<'_>) -> Option<(String, String)> {
    let mark = match longest_backtick_run(run.text) {
        0 => "`",
        1 => "``",
        _ => return None,
    };
    let touches = run.text.starts_with('`') || run.text.ends_with('`');
    let padding = if touches { " " } else { "" };
    let mut begin = String::new();
    if run.before == Some('`') {
        begin.push(HAIR_SPACE);
    }
    begin.push_str(mark);
    begin.push_str(padding);
    Some((begin, format!("{padding}{mark}")))
}

fn linked(url: &str) -> (String, String) {
    ("[".to_owned(), format!("]({})", encoded(url)))
}

/// Returns an address without characters that would end it or be read as marks.
fn encoded(url: &str) -> String {
    let mut encoded = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '&' => encoded.push_str("&amp;"),
            c if c.is_whitespace() => encoded.push_str("%20"),
            c if "()<>\\[]*_~`|\"!".contains(c) => {
                encoded.push_str(&format!("%{:02X}", u32::from(c)));
            }
            c => encoded.push(c),
        }
    }
    encoded
}

/// Returns `true` if a character would be read as a mark. `head` is its line before it, without
/// indentation.
fn needs_escape(head: &str, before: Option<char>, c: char, after: Option<char>) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    match c {
        '*' | '`' | '[' | ']' | '<' | '\\' | '~' | '|' => true,
        '_' => !is_word(before) || !is_word(after),
        '&' => after.is_some_and(|c| c == '#' || c.is_ascii_alphabetic()),
        '#' | '>' | '=' => head.is_empty(),
        '-' | '+' => {
            let is_item = after.is_none_or(char::is_whitespace);
            head.is_empty() && (is_item || after == Some(c))
        }
        '.' | ')' => !head.is_empty() && head.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// Writes line breaks outside of code blocks as hard ones.
fn keep_line_breaks(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    let mut in_code = false;
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let is_fence = line.starts_with(FENCE);
        in_code ^= is_fence;
        out.push_str(line);
        if let Some(next) = lines.peek() {
            let is_text = |line: &str| !line.trim().is_empty() && !line.starts_with(FENCE);
            if !in_code && is_text(line) && is_text(next) {
                out.push_str(HARD_BREAK);
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_are_kept_outside_of_code() {
        let table = [
            ("a\nb\n\nc", "a  \nb\n\nc"),
            ("a\n```\nb\nc\n```\nd\ne", "a\n```\nb\nc\n```\nd  \ne"),
            ("- a\n- b", "- a  \n- b"),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(keep_line_breaks(text), expected);
        }
    }
}
