//! The subset of Markdown that Discord shows (Discord's help pages, "Markdown Text 101").
//!
//! Decision: an address in the text is left as it is, and Discord shows a preview; one after the
//! words of a link is a source, and is written so that it shows none. Mentions are not changed: who
//! is notified is set by the `allowed_mentions` of the request.

use std::ops::Range;

use nanobot_channel::markup::{
    Document, LineMarkup, Mark, Markup, MarkupLine, Measure, Overhead, TextRun, ZERO_WIDTH_SPACE,
    is_web_address, longest_backtick_run, push_fenced, render_lines, with_neighbours,
};

/// The addresses that Discord links after words.
const SCHEMES: &[&str] = &["http://", "https://"];

/// Discord's Markdown. Discord counts a text with its markup.
#[derive(Clone, Copy, Debug)]
pub struct DiscordMarkdown;

impl Markup for DiscordMarkdown {
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

impl LineMarkup for DiscordMarkdown {
    fn around(&self, mark: &Mark, run: &TextRun<'_>) -> Option<(String, String)> {
        let (mut before, after) = match mark {
            Mark::Bold | Mark::Heading { .. } => both("**", run)?,
            Mark::Italic if [run.before, run.after].into_iter().any(is_word) => both("*", run)?,
            Mark::Italic => both("_", run).or_else(|| both("*", run))?,
            Mark::Strike => struck(run)?,
            Mark::Code => code_marks(run.text)?,
            Mark::Link { url } if can_be_link_text(run.text) => {
                ("[".to_owned(), format!("](<{}>)", address(url)))
            }
            Mark::Link { url } => (String::new(), format!(" (<{}>)", address(url))),
            Mark::Address if !is_web_address(run.text) => return None,
            Mark::Address if reads_on(run.rest) => ("<".to_owned(), ">".to_owned()),
            Mark::Reference if !is_known(run.text) => return None,
            Mark::Address | Mark::Reference | Mark::Item => Default::default(),
            Mark::Quote | Mark::Pre { .. } => return None,
        };
        // Two marks of one kind next to each other would be a different mark.
        if before
            .chars()
            .next()
            .is_some_and(|first| run.before == Some(first))
        {
            before.insert(0, ZERO_WIDTH_SPACE);
        }
        Some((before, after))
    }

    fn heading(&self, level: u8) -> Option<&'static str> {
        match level {
            1 => Some("# "),
            2 => Some("## "),
            3 => Some("### "),
            _ => None,
        }
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
            let escaped = match c {
                '\\' | '*' | '`' | '[' => true,
                '_' => line.marked || !(is_word(before) && is_word(after)),
                '~' | '|' => before == Some(c) || after == Some(c),
                '<' => after.is_some_and(|after| after.is_alphabetic() || "@#:/".contains(after)),
                '#' | '>' | '-' | '+' if at == line.first => {
                    after.is_none_or(|after| after.is_whitespace() || "#>".contains(after))
                }
                _ => false,
            };
            if escaped {
                out.push('\\');
            }
            out.push(c);
        }
    }

    fn literal(&self, mark: &Mark, text: &str, out: &mut String) {
        match mark {
            Mark::Item => out.push_str(if text == "•" { "-" } else { text }),
            Mark::Pre { .. } => push_fenced(text, |c, out| out.push(c), out),
            _ => out.push_str(text),
        }
    }
}

impl Overhead for DiscordMarkdown {
    fn of_char(&self, c: char, in_code_block: bool, measure: Measure) -> usize {
        match c {
            '`' if in_code_block => measure.of_char(ZERO_WIDTH_SPACE),
            _ if in_code_block => 0,
            '\\' | '*' | '`' | '[' | '_' | '~' | '|' | '<' | '#' | '>' | '-' | '+' => 1,
            _ => 0,
        }
    }

    fn of_mark(&self, mark: &Mark, text: &str, measure: Measure) -> usize {
        let spacer = measure.of_char(ZERO_WIDTH_SPACE);
        match mark {
            Mark::Bold | Mark::Heading { .. } | Mark::Strike => "****".len() + 2 * spacer,
            Mark::Italic => "**".len() + spacer,
            Mark::Code => 2 * (longest_backtick_run(text) + 2) + spacer,
            Mark::Link { url } => measure.of(&address(url)) + " (<>) ".len() + spacer,
            Mark::Address => "<>".len(),
            Mark::Quote => "> ".len(),
            Mark::Pre { info } => measure.of(info) + "\n```\n\n```\n".len(),
            Mark::Reference | Mark::Item => 0,
        }
    }
}

/// Returns a mark for both sides; `None` if code or an address inside contains it, where nothing
/// can be escaped.
fn both(mark: &str, run: &TextRun<'_>) -> Option<(String, String)> {
    let is_inside = mark.chars().next().is_some_and(|c| run.literal.contains(c));
    (!is_inside).then(|| (mark.to_owned(), mark.to_owned()))
}

/// Returns the marks of strikethrough, which must not be followed by another mark.
fn struck(run: &TextRun<'_>) -> Option<(String, String)> {
    let (before, mut after) = both("~~", run)?;
    if run.ends_another || run.after.is_some_and(|c| !c.is_whitespace()) {
        after.push(ZERO_WIDTH_SPACE);
    }
    Some((before, after))
}

/// Returns `true` if Discord would read the rest of a line as part of the address before it.
fn reads_on(rest: &str) -> bool {
    let after = rest
        .trim_start_matches(['.', ',', ':', ';', '"', '\''])
        .chars()
        .next();
    after.is_some_and(|c| !c.is_whitespace())
}

/// Returns the marks of inline code that may contain backticks; `None` if it has too many.
fn code_marks(code: &str) -> Option<(String, String)> {
    let run = longest_backtick_run(code);
    if run > 1 {
        return None;
    }
    let mark = "`".repeat(run + 1);
    let before = if code.starts_with('`') { " " } else { "" };
    let after = if code.ends_with('`') { " " } else { "" };
    Some((format!("{mark}{before}"), format!("{after}{mark}")))
}

/// Returns `true` if Discord knows a reference: each of its own contains a number.
fn is_known(reference: &str) -> bool {
    let mut numbers = reference
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    reference.ends_with('>') && numbers.any(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns `true` if Discord shows these words as a link: not with brackets or an address in them.
fn can_be_link_text(words: &str) -> bool {
    !words.contains(['[', ']']) && !words.contains("://")
}

/// Returns an address without characters that would end it.
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
