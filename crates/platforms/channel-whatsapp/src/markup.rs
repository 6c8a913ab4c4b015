//! The marks of WhatsApp: `*bold*`, `_italic_`, `~strike~`, code, quotes and lists (WhatsApp's help
//! pages, "How to format your messages").
//!
//! A mark counts only at the edge of a word, and there is no escape for it. Decision: a zero-width
//! space is inserted where a mark would be inside a word, and where a character would be read as a
//! mark; nowhere else. Links have no text of their own, so their addresses follow in brackets.
//! Addresses are left as they are, because a space would break them. Headings are bold, tables are
//! aligned text.

use std::ops::Range;

use nanobot_channel::markup::{
    Document, LineMarkup, Mark, Markup, MarkupLine, Measure, Overhead, TextRun, ZERO_WIDTH_SPACE,
    push_fenced, render_lines, with_neighbours,
};

/// The addresses that WhatsApp links.
const SCHEMES: &[&str] = &["http://", "https://"];
const FENCE: &str = "```";

/// The marks of WhatsApp. A text is counted with its marks.
#[derive(Clone, Copy, Debug)]
pub struct WhatsAppMarkup;

impl Markup for WhatsAppMarkup {
    fn render(&self, document: &Document) -> String {
        render_lines(document, self)
    }

    fn link_schemes(&self) -> &'static [&'static str] {
        SCHEMES
    }

    fn overhead(&self) -> Option<&dyn Overhead> {
        Some(self)
    }
}

impl LineMarkup for WhatsAppMarkup {
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)> {
        let sign = match mark {
            Mark::Bold | Mark::Heading { .. } => '*',
            Mark::Italic => '_',
            Mark::Strike => '~',
            // There is no longer mark for code with backticks.
            Mark::Code if run.text.contains('`') => return None,
            Mark::Code => '`',
            Mark::Item | Mark::Address => return Some(Default::default()),
            Mark::Link { url } if run.text.trim() == url => return Some(Default::default()),
            Mark::Link { url } => return Some((String::new(), format!(" ({})", written(url)))),
            Mark::Reference | Mark::Quote | Mark::Pre { .. } => return None,
        };
        // A space between two marks would keep the outer one from counting, and a mark in an
        // address could end it.
        let touches = run.text.starts_with(is_sign) || run.text.ends_with(is_sign);
        if sign != '`' && (touches || run.literal.contains(sign)) {
            return None;
        }
        let is_apart = |outside: Option<char>| outside.is_none_or(|c| c != sign && is_edge(c));
        let gap = |outside| match is_apart(outside) {
            true => String::new(),
            false => ZERO_WIDTH_SPACE.to_string(),
        };
        Some((
            format!("{}{sign}", gap(run.before)),
            format!("{sign}{}", gap(run.after)),
        ))
    }

    fn heading(&self, _level: u8) -> Option<&'static str> {
        None
    }

    fn quote(&self) -> &'static str {
        "> "
    }

    fn fence(&self, _info: &str) -> (String, String) {
        (format!("{FENCE}\n"), format!("\n{FENCE}"))
    }

    fn text(&self, line: &MarkupLine<'_>, range: Range<usize>, out: &mut String) {
        let (start, end) = (range.start, range.end);
        for (at, before, c, after) in with_neighbours(line.text, range) {
            if c == '>' && at == line.first && !out.ends_with(is_sign) {
                out.push(ZERO_WIDTH_SPACE);
            }
            if !is_sign(c) || !(line.marked || line.repeated.contains(c)) {
                out.push(c);
                continue;
            }
            // What was written before the run may be a mark.
            let before = match at == start {
                true => out.chars().next_back().filter(|c| *c != '\n'),
                false => before,
            };
            let is_last = at + c.len_utf8() == end;
            let counts = is_last || before.is_none_or(is_edge) || after.is_none_or(is_edge);
            // A space on one side only would let it count from the other side.
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
            Mark::Pre { .. } => push_fenced(text, |c, out| out.push(c), out),
            Mark::Item if text == "•" => out.push('-'),
            _ => out.push_str(text),
        }
    }
}

impl Overhead for WhatsAppMarkup {
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize {
        let space = measure.of_char(ZERO_WIDTH_SPACE);
        match (c, in_code_block) {
            ('`', true) | ('>', false) => space,
            (c, false) if is_sign(c) => 2 * space,
            _ => 0,
        }
    }

    fn of_mark(&self, mark: &Mark, _text: &str, measure: Measure) -> usize {
        match mark {
            Mark::Bold | Mark::Heading { .. } | Mark::Italic | Mark::Strike | Mark::Code => {
                "**".len() + 2 * measure.of_char(ZERO_WIDTH_SPACE)
            }
            Mark::Quote => "> ".len(),
            Mark::Pre { .. } => "\n```\n\n```\n".len(),
            Mark::Link { url } => " ()".len() + measure.of(&written(url)),
            Mark::Address | Mark::Reference | Mark::Item => 0,
        }
    }
}

/// Returns an address without white space and without marks that could end those around it.
fn written(url: &str) -> String {
    let mut written = String::with_capacity(url.len());
    for c in url.chars() {
        match c {
            '*' => written.push_str("%2A"),
            '~' => written.push_str("%7E"),
            '`' => written.push_str("%60"),
            c if c.is_whitespace() => written.push_str("%20"),
            c => written.push(c),
        }
    }
    written
}

/// `true` if WhatsApp reads `c` as a mark.
fn is_sign(c: char) -> bool {
    matches!(c, '*' | '_' | '~' | '`')
}

/// `true` if a mark counts next to `c`.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || c.is_ascii_punctuation() || c == ZERO_WIDTH_SPACE
}
