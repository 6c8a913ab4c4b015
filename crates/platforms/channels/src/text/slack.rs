//! Slack's mrkdwn (Slack's developer documentation, "Formatting message text").
//!
//! There is no way to escape a mark, and a mark counts only beside white space or punctuation.
//! Decision: where a mark would stand in a word, and where a character would be taken for a mark,
//! a space without width is put between; nowhere else. Code that holds a back quote cannot be
//! shown as code within a line, so it is text there.

use std::ops::Range;

use nanobot_channel::Measure;

use super::address::is_address;
use super::document::Mark;
use super::lines::{Line, Markup, SPACER, Stretch, with_neighbours, write_fenced};
use super::native::Room;

/// The addresses that Slack follows.
pub(super) const SCHEMES: &[&str] = &["http://", "https://", "mailto:"];

/// What fits into a message of blocks (Slack's developer documentation, "Table block" and "Section
/// block"; one table in each: error `only_one_table_allowed`). All of them together take some 12,000
/// characters, which is said nowhere; more is refused with `msg_blocks_too_long`.
pub(super) const ROOM: Room = Room {
    tables: 8,
    rows: 100,
    columns: 20,
    cells: 10_000,
    text: 3000,
    all: 10_000,
};

/// The dialect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack;

impl Markup for Slack {
    fn around(&self, mark: &Mark, stretch: &Stretch<'_>) -> Option<(String, String)> {
        let mark = match mark {
            Mark::Bold | Mark::Heading { .. } => '*',
            Mark::Italic => '_',
            Mark::Strike => '~',
            Mark::Code if stretch.text.contains('`') => return None,
            Mark::Code => '`',
            Mark::Link { url } => return Some((format!("<{}|", address(url)), ">".to_owned())),
            Mark::Address if !is_address(stretch.text) => return None,
            Mark::Address => return Some(("<".to_owned(), ">".to_owned())),
            Mark::Reference if !is_ours(stretch.text) => return None,
            Mark::Reference | Mark::Item => return Some(Default::default()),
            Mark::Quote | Mark::Pre { .. } => return None,
        };
        // What keeps such a character from being a mark would keep the mark from being one.
        if mark != '`' && (stretch.text.starts_with(is_mark) || stretch.text.ends_with(is_mark)) {
            return None;
        }
        let mut before = String::from(mark);
        if stretch.before.is_some_and(|c| c == mark || !bounds(c)) {
            before.insert(0, SPACER);
        }
        let mut behind = String::from(mark);
        if stretch.behind.is_some_and(|c| c == mark || !bounds(c)) {
            behind.push(SPACER);
        }
        Some((before, behind))
    }

    fn heading(&self, _level: u8) -> Option<&'static str> {
        None
    }

    fn fence(&self, _info: &str) -> (String, String) {
        ("```\n".to_owned(), "\n```".to_owned())
    }

    fn text(&self, line: &Line<'_>, range: Range<usize>, written: &mut String) {
        for (at, before, c, behind) in with_neighbours(line.text, range.clone()) {
            if !is_mark(c) {
                if c == '>' && at == line.first && !written.ends_with(is_mark) {
                    written.push(SPACER);
                }
                write_escaped(c, written);
                continue;
            }
            let pairs = line.marked || line.repeated.contains(c);
            // Beside a mark stands what was written for it.
            let before = if at == range.start {
                written.chars().next_back().filter(|c| *c != '\n')
            } else {
                before
            };
            let is_last = at + c.len_utf8() == range.end;
            let counts =
                pairs && (before.is_none_or(bounds) || is_last || behind.is_none_or(bounds));
            // On both sides: beside one spacer alone it could count from the other side.
            if counts && before.is_some_and(|c| !c.is_whitespace()) {
                written.push(SPACER);
            }
            written.push(c);
            if counts && behind.is_some_and(|c| !c.is_whitespace()) {
                written.push(SPACER);
            }
        }
    }

    fn exact(&self, mark: &Mark, text: &str, written: &mut String) {
        match mark {
            Mark::Pre { .. } => write_fenced(text, write_escaped, written),
            Mark::Reference => written.push_str(text),
            _ => text.chars().for_each(|c| write_escaped(c, written)),
        }
    }

    fn letter_price(&self, c: char, in_pre: bool, measure: Measure) -> usize {
        let spacer = measure.of(SPACER.encode_utf8(&mut [0; 4]));
        match c {
            '&' => "&amp;".len() - 1,
            '<' => "&lt;".len() - 1,
            '>' => "&gt;".len() - 1 + spacer,
            '`' if in_pre => spacer,
            c if is_mark(c) && !in_pre => 2 * spacer,
            _ => 0,
        }
    }

    fn mark_price(&self, mark: &Mark, _text: &str, measure: Measure) -> usize {
        let spacer = measure.of(SPACER.encode_utf8(&mut [0; 4]));
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

/// Whether a reference means something here: a person or a room. Nobody is rung for whole rooms.
fn is_ours(reference: &str) -> bool {
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

/// Whether Slack makes a mark of it.
fn is_mark(c: char) -> bool {
    matches!(c, '*' | '_' | '~' | '`')
}

/// Whether a mark counts beside it.
fn bounds(c: char) -> bool {
    c.is_whitespace() || c.is_ascii_punctuation() || c == SPACER
}

fn write_escaped(c: char, written: &mut String) {
    match c {
        '&' => written.push_str("&amp;"),
        '<' => written.push_str("&lt;"),
        '>' => written.push_str("&gt;"),
        _ => written.push(c),
    }
}

/// An address with nothing in it that ends it.
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
