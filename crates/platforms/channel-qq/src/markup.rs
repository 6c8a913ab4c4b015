//! QQ's Markdown (the bot documentation, "Markdown message"): headings, quotes, bold, italic,
//! struck text and lists; code, which current clients show, too.
//!
//! Decision: read as CommonMark. A character that would be a mark is escaped by a backslash, and a
//! mark that would not count next to its neighbours gets a hair space. Addresses are written
//! into the text and never hidden by words, because QQ judges them, and pictures are never written:
//! QQ would fetch them, and a reply could send what it knows to any server by their addresses.

use std::ops::Range;

use nanobot_channel::markup::{
    Document, LineMarkup, Mark, Markup, MarkupLine, Measure, Overhead, TextRun, ZERO_WIDTH_SPACE,
    is_web_address, longest_backtick_run, push_fenced, render_lines, slice, with_neighbours,
};

/// White space that lets a mark count.
const HAIR_SPACE: char = '\u{200A}';
const FENCE: &str = "```";

/// QQ's Markdown. A text is counted with its markup.
#[derive(Clone, Copy, Debug)]
pub struct QqMarkdown;

impl Markup for QqMarkdown {
    fn render(&self, document: &Document) -> String {
        render_lines(document, self)
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        &[]
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        Some(self)
    }
}

impl LineMarkup for QqMarkdown {
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)> {
        match mark {
            Mark::Bold | Mark::Heading { .. } => Some(emphasis("**", run)),
            Mark::Italic => Some(emphasis("*", run)),
            Mark::Strike => Some(emphasis("~~", run)),
            Mark::Code => code(run),
            Mark::Address if is_whole_address(run.text) => Some(("<".to_owned(), ">".to_owned())),
            Mark::Item | Mark::Address => Some(Default::default()),
            Mark::Link { .. } | Mark::Reference | Mark::Quote | Mark::Pre { .. } => None,
        }
    }

    fn heading(&self, level: u8) -> Option<&'static str> {
        Some(if level <= 1 { "# " } else { "## " })
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
            Mark::Item if text == "•" => out.push('-'),
            Mark::Pre { .. } => push_fenced(text, |c, out| out.push(c), out),
            Mark::Address if !is_whole_address(text) => push_escaped(text, out),
            Mark::Reference => push_escaped(text, out),
            _ => out.push_str(text),
        }
    }
}

impl Overhead for QqMarkdown {
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize {
        match c {
            '`' if in_code_block => measure.of_char(ZERO_WIDTH_SPACE),
            _ if in_code_block => 0,
            c if c.is_ascii_punctuation() => 1,
            _ => 0,
        }
    }

    fn of_mark(&self, mark: &Mark, text: &str, measure: Measure) -> usize {
        let space = measure.of_char(HAIR_SPACE);
        match mark {
            Mark::Bold | Mark::Strike => "****".len() + 2 * space,
            Mark::Heading { .. } => "## ****".len() + 2 * space,
            Mark::Italic => "**".len() + 2 * space,
            Mark::Code => 2 * (longest_backtick_run(text) + 2) + space,
            Mark::Address | Mark::Quote => 2,
            Mark::Pre { info } => measure.of(info) + "\n```\n\n```\n".len(),
            Mark::Link { .. } | Mark::Reference | Mark::Item => 0,
        }
    }
}

/// Returns a text in which nothing is markup.
pub(crate) fn escaped(text: &str) -> String {
    QqMarkdown.render(&Document {
        text: text.to_owned(),
        ..Document::default()
    })
}

/// `true` for an address that can stand between angle brackets.
fn is_whole_address(text: &str) -> bool {
    is_web_address(text)
        && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "<>\\".contains(c))
}

/// Returns the marks of emphasis. They count only if a mark at a word has a letter inside, or white
/// space outside.
fn emphasis(mark: &str, run: &TextRun<'_>) -> (String, String) {
    let pad = |outside: Option<char>, inside: Option<char>| {
        let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let touches_mark = outside.is_some_and(|c| "*~`_\\<>[]".contains(c));
        let touches_word = is_word(outside) && !is_word(inside);
        if touches_mark || touches_word {
            HAIR_SPACE.to_string()
        } else {
            String::new()
        }
    };
    let (first, last) = (run.text.chars().next(), run.text.chars().next_back());
    (
        format!("{}{mark}", pad(run.before, first)),
        format!("{mark}{}", pad(run.after, last)),
    )
}

/// Returns the marks of inline code that may contain a backtick; `None` if it has too many.
fn code(run: &TextRun<'_>) -> Option<(String, String)> {
    let ticks = longest_backtick_run(run.text);
    if ticks > 1 {
        return None;
    }
    let is_at_edge = run.text.starts_with('`') || run.text.ends_with('`');
    let (mark, inner) = ("`".repeat(ticks + 1), if is_at_edge { " " } else { "" });
    let outer = match run.before {
        Some('`') => HAIR_SPACE.to_string(),
        _ => String::new(),
    };
    Some((format!("{outer}{mark}{inner}"), format!("{inner}{mark}")))
}

/// `true` if a character of a line would be read as a mark.
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
        '*' | '`' | '<' | '\\' | '~' => true,
        // A bracket is a mark before an address only.
        ']' => after.is_some_and(|after| "(:[".contains(after)),
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

fn push_escaped(text: &str, out: &mut String) {
    for c in text.chars() {
        if "\\`*_[]<>~&#".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
}
