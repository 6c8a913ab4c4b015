//! Bounds how deep quotes and lists stand in each other.
//!
//! The parser's work is depth times lines, which no real text notices and ten thousand quotes do.
//! Decision: the marker that goes too deep is escaped before parsing, so it is shown as itself.

use std::borrow::Cow;

/// The most markers in one line.
const DEEPEST: usize = 64;

/// Prepares Markdown for the parser.
pub(super) fn bound(markdown: &str) -> Cow<'_, str> {
    let mut bounded = String::new();
    let mut copied = 0;
    let mut start = 0;
    for line in markdown.split_inclusive('\n') {
        if let Some((before, behind)) =
            too_deep(line).and_then(|at| markdown.split_at_checked(start + at))
        {
            bounded.push_str(before.get(copied..).unwrap_or_default());
            bounded.push('\\');
            copied = markdown.len() - behind.len();
        }
        start += line.len();
    }
    if copied == 0 {
        return Cow::Borrowed(markdown);
    }
    bounded.push_str(markdown.get(copied..).unwrap_or_default());
    Cow::Owned(bounded)
}

/// Where the first marker stands that goes too deep: at the sign that makes it one.
fn too_deep(line: &str) -> Option<usize> {
    if line.len() <= DEEPEST || is_rule(line) {
        return None;
    }
    let mut rest = line;
    for _ in 0..DEEPEST {
        rest = behind_marker(rest)?;
    }
    let sign = rest.len()
        - rest
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    behind_marker(rest).map(|_| line.len() - rest.len() + sign)
}

/// What is behind the marker that a text begins with.
fn behind_marker(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t']);
    if let Some(behind) = text.strip_prefix('>') {
        return Some(behind);
    }
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = digits.len() < text.len();
    let behind = digits.strip_prefix(|c| {
        if is_number {
            matches!(c, '.' | ')')
        } else {
            matches!(c, '-' | '*' | '+')
        }
    })?;
    behind.starts_with([' ', '\t']).then_some(behind)
}

/// Whether a line is one sign over and over, which is a rule.
fn is_rule(line: &str) -> bool {
    let mut signs = line.chars().filter(|c| !c.is_whitespace());
    let first = signs.next();
    matches!(first, Some('-' | '*')) && signs.all(|sign| Some(sign) == first)
}
