//! The subset of Markdown that Discord shows (Discord's help pages, "Markdown Text 101").
//!
//! Decision: an address that stands in the text is left as it is, and Discord shows a preview; one
//! behind words is a source, and is written so that it shows none. Mentions of the
//! platform's own making are not touched: whom a message may ring is said beside the text.

use std::ops::Range;

use nanobot_channel::Measure;

use super::address::is_address;
use super::document::Mark;
use super::lines::{Line, Markup, SPACER, Stretch, longest_run, with_neighbours, write_fenced};

/// The addresses that Discord follows behind words.
pub(super) const SCHEMES: &[&str] = &["http://", "https://"];

/// The dialect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discord;

impl Markup for Discord {
    fn around(&self, mark: &Mark, stretch: &Stretch<'_>) -> Option<(String, String)> {
        let (mut before, behind) = match mark {
            Mark::Bold | Mark::Heading { .. } => both("**", stretch)?,
            Mark::Italic if [stretch.before, stretch.behind].into_iter().any(is_word) => {
                both("*", stretch)?
            }
            Mark::Italic => both("_", stretch).or_else(|| both("*", stretch))?,
            Mark::Strike => struck(stretch)?,
            Mark::Code => code_marks(stretch.text)?,
            Mark::Link { url } if can_stand_in_brackets(stretch.text) => {
                ("[".to_owned(), format!("](<{}>)", address(url)))
            }
            Mark::Link { url } => (String::new(), format!(" (<{}>)", address(url))),
            Mark::Address if !is_address(stretch.text) => return None,
            Mark::Address if goes_on(stretch.rest) => ("<".to_owned(), ">".to_owned()),
            Mark::Reference if !is_ours(stretch.text) => return None,
            Mark::Address | Mark::Reference | Mark::Item => Default::default(),
            Mark::Quote | Mark::Pre { .. } => return None,
        };
        // Two marks of one kind beside each other would be another mark.
        if before
            .chars()
            .next()
            .is_some_and(|first| stretch.before == Some(first))
        {
            before.insert(0, SPACER);
        }
        Some((before, behind))
    }

    fn heading(&self, level: u8) -> Option<&'static str> {
        match level {
            1 => Some("# "),
            2 => Some("## "),
            3 => Some("### "),
            _ => None,
        }
    }

    fn fence(&self, info: &str) -> (String, String) {
        let is_language = info
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_+-.#".contains(c));
        let info = if is_language { info } else { "" };
        (format!("```{info}\n"), "\n```".to_owned())
    }

    fn text(&self, line: &Line<'_>, range: Range<usize>, written: &mut String) {
        for (at, before, c, behind) in with_neighbours(line.text, range) {
            let escaped = match c {
                '\\' | '*' | '`' | '[' => true,
                '_' => line.marked || !(is_word(before) && is_word(behind)),
                '~' | '|' => before == Some(c) || behind == Some(c),
                '<' => {
                    behind.is_some_and(|behind| behind.is_alphabetic() || "@#:/".contains(behind))
                }
                '#' | '>' | '-' | '+' if at == line.first => {
                    behind.is_none_or(|behind| behind.is_whitespace() || "#>".contains(behind))
                }
                _ => false,
            };
            if escaped {
                written.push('\\');
            }
            written.push(c);
        }
    }

    fn exact(&self, mark: &Mark, text: &str, written: &mut String) {
        match mark {
            Mark::Item => written.push_str(if text == "•" { "-" } else { text }),
            Mark::Pre { .. } => write_fenced(text, |c, written| written.push(c), written),
            _ => written.push_str(text),
        }
    }

    fn letter_price(&self, c: char, in_pre: bool, measure: Measure) -> usize {
        match c {
            '`' if in_pre => measure.of(SPACER.encode_utf8(&mut [0; 4])),
            _ if in_pre => 0,
            '\\' | '*' | '`' | '[' | '_' | '~' | '|' | '<' | '#' | '>' | '-' | '+' => 1,
            _ => 0,
        }
    }

    fn mark_price(&self, mark: &Mark, text: &str, measure: Measure) -> usize {
        let spacer = measure.of(SPACER.encode_utf8(&mut [0; 4]));
        match mark {
            Mark::Bold | Mark::Heading { .. } | Mark::Strike => "****".len() + 2 * spacer,
            Mark::Italic => "**".len() + spacer,
            Mark::Code => 2 * (longest_run(text) + 2) + spacer,
            Mark::Link { url } => measure.of(&address(url)) + " (<>) ".len() + spacer,
            Mark::Address => "<>".len(),
            Mark::Quote => "> ".len(),
            Mark::Pre { info } => measure.of(info) + "\n```\n\n```\n".len(),
            Mark::Reference | Mark::Item => 0,
        }
    }
}

/// A mark on both sides, unless code or an address within holds it, where nothing can be escaped.
fn both(mark: &str, stretch: &Stretch<'_>) -> Option<(String, String)> {
    let is_held = mark
        .chars()
        .next()
        .is_some_and(|c| stretch.exact.contains(c));
    (!is_held).then(|| (mark.to_owned(), mark.to_owned()))
}

/// The mark of struck text, which must not stand before the mark of another kind.
fn struck(stretch: &Stretch<'_>) -> Option<(String, String)> {
    let (before, mut behind) = both("~~", stretch)?;
    if stretch.ends_another || stretch.behind.is_some_and(|c| !c.is_whitespace()) {
        behind.push(SPACER);
    }
    Some((before, behind))
}

/// Whether Discord would read on there, as if it belonged to the address before.
fn goes_on(rest: &str) -> bool {
    let behind = rest
        .trim_start_matches(['.', ',', ':', ';', '"', '\''])
        .chars()
        .next();
    behind.is_some_and(|c| !c.is_whitespace())
}

/// What stands around code with back quotes in it; `None` when there are too many.
fn code_marks(code: &str) -> Option<(String, String)> {
    let run = longest_run(code);
    if run > 1 {
        return None;
    }
    let mark = "`".repeat(run + 1);
    let before = if code.starts_with('`') { " " } else { "" };
    let behind = if code.ends_with('`') { " " } else { "" };
    Some((format!("{mark}{before}"), format!("{behind}{mark}")))
}

/// Whether a reference means something here: every one of Discord's ends with a number, but a
/// time's, which may have a letter behind it.
fn is_ours(reference: &str) -> bool {
    let mut numbers = reference
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    reference.ends_with('>') && numbers.any(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether Discord makes these words a link: they must not look like brackets or an address.
fn can_stand_in_brackets(words: &str) -> bool {
    !words.contains(['[', ']']) && !words.contains("://")
}

/// An address with nothing in it that ends it.
fn address(url: &str) -> String {
    let mut address = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '(' => address.push_str("%28"),
            ')' => address.push_str("%29"),
            '<' => address.push_str("%3C"),
            '>' => address.push_str("%3E"),
            '\\' => address.push_str("%5C"),
            c if c.is_whitespace() => address.push_str("%20"),
            _ => address.push(c),
        }
    }
    address
}

fn is_word(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
}
