//! Slack's mrkdwn (Slack's developer documentation, "Formatting message text").
//!
//! mrkdwn has no escape for a mark, and a mark counts only next to white space or punctuation.
//! Decision: a zero-width space is inserted where a mark would be inside a word and where a
//! character would be read as a mark; nowhere else. Code that contains a backtick cannot be shown
//! as inline code, so it is plain text.

use std::ops::Range;

use nanobot_channel::markup::{
    Document, LineMarkup, Mark, Markup, MarkupLine, Measure, Overhead, TableLimits, TextRun,
    ZERO_WIDTH_SPACE, html, is_web_address, push_fenced, render_lines, with_neighbours,
};

/// The addresses that Slack links.
const SCHEMES: &[&str] = &["http://", "https://", "mailto:"];

/// The limits of a message of blocks (Slack's developer documentation, "Table block" and "Section
/// block"; one table in each: error `only_one_table_allowed`). All blocks together take some 12,000
/// characters, which is undocumented; more is refused with `msg_blocks_too_long`.
const TABLE_LIMITS: TableLimits = TableLimits {
    tables: 8,
    rows: 100,
    columns: 20,
    cells: 10_000,
    text: 3000,
    total: 10_000,
};

/// Slack's mrkdwn. Slack counts a text with its markup.
#[derive(Clone, Copy, Debug)]
pub struct Mrkdwn;

impl Markup for Mrkdwn {
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

impl LineMarkup for Mrkdwn {
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)> {
        let mark = match mark {
            Mark::Bold | Mark::Heading { .. } => '*',
            Mark::Italic => '_',
            Mark::Strike => '~',
            Mark::Code if run.text.contains('`') => return None,
            Mark::Code => '`',
            Mark::Link { url } => return Some((format!("<{}|", address(url)), ">".to_owned())),
            Mark::Address if !is_web_address(run.text) => return None,
            Mark::Address => return Some(("<".to_owned(), ">".to_owned())),
            Mark::Reference if !is_mention(run.text) => return None,
            Mark::Reference | Mark::Item => return Some(Default::default()),
            Mark::Quote | Mark::Pre { .. } => return None,
        };
        // A zero-width space between the two would keep the mark from counting, too.
        if mark != '`' && (run.text.starts_with(is_mark) || run.text.ends_with(is_mark)) {
            return None;
        }
        let mut before = String::from(mark);
        if run.before.is_some_and(|c| c == mark || !bounds(c)) {
            before.insert(0, ZERO_WIDTH_SPACE);
        }
        let mut after = String::from(mark);
        if run.after.is_some_and(|c| c == mark || !bounds(c)) {
            after.push(ZERO_WIDTH_SPACE);
        }
        Some((before, after))
    }

    fn heading(&self, _level: u8) -> Option<&'static str> {
        None
    }

    fn quote(&self) -> &'static str {
        "> "
    }

    fn fence(&self, _info: &str) -> (String, String) {
        ("```\n".to_owned(), "\n```".to_owned())
    }

    fn text(&self, line: &MarkupLine<'_>, range: Range<usize>, out: &mut String) {
        for (at, before, c, after) in with_neighbours(line.text, range.clone()) {
            if !is_mark(c) {
                if c == '>' && at == line.first && !out.ends_with(is_mark) {
                    out.push(ZERO_WIDTH_SPACE);
                }
                html::escape_char(c, out);
                continue;
            }
            let pairs = line.marked || line.repeated.contains(c);
            // Next to a mark is what was written for it.
            let before = if at == range.start {
                out.chars().next_back().filter(|c| *c != '\n')
            } else {
                before
            };
            let is_last = at + c.len_utf8() == range.end;
            let counts =
                pairs && (before.is_none_or(bounds) || is_last || after.is_none_or(bounds));
            // On both sides: with a space on one side only, it could count from the other.
            if counts && before.is_some_and(|c| !c.is_whitespace()) {
                out.push(ZERO_WIDTH_SPACE);
            }
            out.push(c);
            if counts && after.is_some_and(|c| !c.is_whitespace()) {
                out.push(ZERO_WIDTH_SPACE);
            }
        }
    }

    fn literal(&self, mark: &Mark, text: &str, out: &mut String) {
        match mark {
            Mark::Pre { .. } => push_fenced(text, html::escape_char, out),
            Mark::Reference => out.push_str(text),
            _ => html::escape(text, out),
        }
    }
}

impl Overhead for Mrkdwn {
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize {
        let spacer = measure.of_char(ZERO_WIDTH_SPACE);
        match c {
            '&' => "&amp;".len() - 1,
            '<' => "&lt;".len() - 1,
            '>' => "&gt;".len() - 1 + spacer,
            '`' if in_code_block => spacer,
            c if is_mark(c) && !in_code_block => 2 * spacer,
            _ => 0,
        }
    }

    fn of_mark(&self, mark: &Mark, _text: &str, measure: Measure) -> usize {
        let spacer = measure.of_char(ZERO_WIDTH_SPACE);
        match mark {
            Mark::Bold | Mark::Heading { .. } | Mark::Italic | Mark::Strike | Mark::Code => {
                "**".len() + 2 * spacer
            }
            Mark::Link { url } => measure.of(&address(url)) + "<|>".len(),
            Mark::Address => "<>".len(),
            Mark::Quote => "> ".len(),
            Mark::Pre { .. } => "\n```\n\n```\n".len(),
            Mark::Reference | Mark::Item => 0,
        }
    }
}

/// Returns `true` if a reference is a mention of a user or a channel. A mention of everyone in a
/// channel is text, so that it notifies no one.
fn is_mention(reference: &str) -> bool {
    let inner = reference
        .strip_prefix('<')
        .and_then(|inner| inner.strip_suffix('>'))
        .unwrap_or_default();
    let id = inner.trim_start_matches(['@', '#']);
    id.starts_with(['U', 'W', 'C', 'G', 'D'])
        && id
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

/// Returns `true` if Slack reads `c` as a mark.
fn is_mark(c: char) -> bool {
    matches!(c, '*' | '_' | '~' | '`')
}

/// Returns `true` if a mark counts next to `c`.
fn bounds(c: char) -> bool {
    c.is_whitespace() || c.is_ascii_punctuation() || c == ZERO_WIDTH_SPACE
}

/// Returns an address without characters that would end it.
fn address(url: &str) -> String {
    let mut address = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '<' => address.push_str("%3C"),
            '>' => address.push_str("%3E"),
            '|' => address.push_str("%7C"),
            '&' => address.push_str("&amp;"),
            c if c.is_whitespace() => address.push_str("%20"),
            _ => address.push(c),
        }
    }
    address
}
