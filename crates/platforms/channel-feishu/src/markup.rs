//! The Markdown of cards (Feishu's developer documentation, "Rich text component", JSON 2.0):
//! CommonMark with strikethrough, without HTML but with tags of Feishu's own, such as
//! `<at id=all></at>`.
//!
//! Decision: a character that would be read as a mark is written as an entity, which is Feishu's
//! own way of escaping; a tag in code, where entities are not resolved, is divided by a zero-width
//! space. A mark counts only next to certain characters, so a hair space is inserted where it would
//! not. A line break is shown as one, other than in CommonMark.

use std::ops::Range;

use nanobot_channel::markup::{
    Document, LineMarkup, Mark, Markup, MarkupLine, Measure, Overhead, TableLimits, TextRun,
    ZERO_WIDTH_SPACE, is_web_address, longest_backtick_run, push_fenced, render_lines, slice,
    with_neighbours,
};

/// The addresses that Feishu links.
const SCHEMES: &[&str] = &["http://", "https://"];
/// White space that lets a mark count.
const HAIR_SPACE: char = '\u{200A}';
/// The length of the longest entity, `&#123;`.
const ENTITY: usize = 6;

/// The limits of a card with a table. A card has 30 KB, in which every cell takes some 20 bytes
/// more; a card with more than one table may be refused (error 11310).
const TABLE_LIMITS: TableLimits = TableLimits {
    tables: 8,
    rows: 50,
    columns: 10,
    cells: 6000,
    text: 8000,
    total: 12_000,
};

/// The Markdown of cards. Feishu counts a text with its markup.
#[derive(Clone, Copy, Debug)]
pub struct CardMarkdown;

impl Markup for CardMarkdown {
    fn render(&self, document: &Document) -> String {
        render_lines(document, self)
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        SCHEMES
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        Some(self)
    }

    fn table_limits(&self) -> Option<TableLimits> {
        Some(TABLE_LIMITS)
    }
}

impl LineMarkup for CardMarkdown {
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)> {
        match mark {
            Mark::Bold | Mark::Heading { .. } => Some(emphasis("**", run)),
            Mark::Italic => Some(emphasis("*", run)),
            Mark::Strike => Some(emphasis("~~", run)),
            Mark::Code => code_marks(run.text, run.before),
            Mark::Link { url } => Some(("[".to_owned(), format!("]({})", address(url)))),
            Mark::Address if !is_web_address(run.text) => None,
            Mark::Address if is_linked(run) => Some(Default::default()),
            Mark::Address => Some(("[".to_owned(), format!("]({})", address(run.text)))),
            Mark::Item => Some(Default::default()),
            Mark::Reference | Mark::Quote | Mark::Pre { .. } => None,
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
        let is_language = info
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_+-.#".contains(c));
        let info = if is_language { info } else { "" };
        (format!("```{info}\n"), "\n```".to_owned())
    }

    fn text(&self, line: &MarkupLine<'_>, range: Range<usize>, out: &mut String) {
        for (at, before, c, after) in with_neighbours(line.text, range) {
            if is_read_as_mark(line, at, before, c, after) {
                push_entity(c, out);
            } else {
                out.push(c);
            }
        }
    }

    fn literal(&self, mark: &Mark, text: &str, out: &mut String) {
        match mark {
            Mark::Item => out.push_str(if text == "•" { "-" } else { text }),
            Mark::Pre { .. } => {
                let mut last = ' ';
                push_fenced(text, |c, out| push_code(&mut last, c, out), out);
            }
            Mark::Code => {
                let mut last = ' ';
                text.chars().for_each(|c| push_code(&mut last, c, out));
            }
            _ if is_plain(text) => out.push_str(text),
            _ => text.chars().for_each(|c| push_escaped(c, out)),
        }
    }
}

impl Overhead for CardMarkdown {
    /// Includes what JSON in JSON adds: a card is a text in the body of a request.
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize {
        match c {
            '"' => 3,
            '\\' if in_code_block => 3,
            '\n' | '\t' | '\r' => 2,
            c if c.is_control() => 6,
            // A tag in code is divided after its first character.
            '`' | '<' if in_code_block => measure.of_char(ZERO_WIDTH_SPACE),
            _ if in_code_block => 0,
            c if c.is_ascii_punctuation() => ENTITY - 1,
            _ => 0,
        }
    }

    fn of_mark(&self, mark: &Mark, text: &str, measure: Measure) -> usize {
        let space = measure.of_char(HAIR_SPACE);
        match mark {
            Mark::Bold | Mark::Strike => "****".len() + 2 * space,
            Mark::Heading { .. } => "###### ".len() + 2 * space,
            Mark::Italic => "**".len() + 2 * space,
            Mark::Code => 2 * (longest_backtick_run(text) + 2) + space,
            Mark::Link { url } => measure.of(&address(url)) + "[]()".len(),
            Mark::Address => measure.of(&address(text)) + "[]()".len(),
            Mark::Quote => "> ".len(),
            // Line ends count three times in a card.
            Mark::Pre { info } => measure.of(info) + "\n```\n\n```\n".len() + 8,
            Mark::Reference | Mark::Item => 0,
        }
    }
}

/// Returns the marks of emphasis, with space around them where they would not count.
fn emphasis(mark: &str, run: &TextRun<'_>) -> (String, String) {
    let (mut before, mut after) = (mark.to_owned(), mark.to_owned());
    let touches = |c: Option<char>| c.is_some_and(|c| !c.is_whitespace());
    let is_mark = |c: char| matches!(c, '*' | '~' | '`' | ']' | '[' | '_');
    let starts_odd = run.text.starts_with(|c: char| !c.is_alphanumeric());
    let ends_odd = run.text.ends_with(|c: char| !c.is_alphanumeric());
    if touches(run.before) && (starts_odd || run.before.is_some_and(|c| is_mark(c) || c == ';')) {
        before.insert(0, HAIR_SPACE);
    }
    if touches(run.after) && (ends_odd || run.after.is_some_and(is_mark)) {
        after.push(HAIR_SPACE);
    }
    (before, after)
}

/// Returns the marks of inline code that may contain backticks; `None` if it has too many.
fn code_marks(code: &str, before: Option<char>) -> Option<(String, String)> {
    let run = longest_backtick_run(code);
    if run > 1 {
        return None;
    }
    let mark = "`".repeat(run + 1);
    let padding = if code.starts_with('`') || code.ends_with('`') {
        " "
    } else {
        ""
    };
    let gap = if before == Some('`') {
        HAIR_SPACE.to_string()
    } else {
        String::new()
    };
    Some((format!("{gap}{mark}{padding}"), format!("{padding}{mark}")))
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
        '*' | '`' | '[' | ']' | '<' | '\\' | '~' => true,
        '|' => true,
        '_' => !(is_word(before) && is_word(after)),
        '&' => after.is_some_and(|after| after == '#' || after.is_ascii_alphabetic()),
        '#' | '>' | '=' => is_first,
        '-' | '+' => is_first && after.is_none_or(|after| after.is_whitespace() || after == c),
        '.' | ')' => {
            let number = slice(line.text, line.first..at);
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        }
        ':' => {
            before.is_some_and(|c| c.is_ascii_uppercase())
                || after.is_some_and(|c| c.is_ascii_uppercase())
        }
        _ => false,
    }
}

fn push_entity(c: char, out: &mut String) {
    out.push_str(&format!("&#{};", u32::from(c)));
}

fn push_escaped(c: char, out: &mut String) {
    if c.is_ascii_punctuation() && !"/.,:;!?%='\"-+".contains(c) {
        push_entity(c, out);
    } else {
        out.push(c);
    }
}

/// Appends a character of code, in which a tag is divided.
fn push_code(last: &mut char, c: char, out: &mut String) {
    if *last == '<' && c.eq_ignore_ascii_case(&'a') {
        out.push(ZERO_WIDTH_SPACE);
    }
    *last = c;
    out.push(c);
}

/// Returns `true` if an address is linked as it is, and nothing after it.
fn is_linked(run: &TextRun<'_>) -> bool {
    let ends = run.after.is_none_or(char::is_whitespace) && !run.ends_another;
    let last = run.text.chars().next_back();
    ends && is_plain(run.text) && last.is_some_and(|c| c.is_ascii_alphanumeric() || c == '/')
}

/// Returns `true` if nothing of an address is read as a mark.
fn is_plain(address: &str) -> bool {
    let mut letters = address.chars();
    letters.all(|c| c.is_ascii_alphanumeric() || "/:.?=&%-#@+,".contains(c))
}

/// Returns an address without characters that would end it.
fn address(url: &str) -> String {
    let mut address = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '(' | ')' | '<' | '>' | '\\' | '[' | ']' | '*' | '_' | '~' | '`' | '|' | '"' => {
                address.push_str(&format!("%{:02X}", u32::from(c)));
            }
            '&' => address.push_str("&amp;"),
            c if c.is_whitespace() => address.push_str("%20"),
            _ => address.push(c),
        }
    }
    address
}
