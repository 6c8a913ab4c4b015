//! Bounds the nesting of quotes and lists.
//!
//! The parser's time is depth times lines: fine for any real text, too much for ten thousand nested
//! quotes. Decision: the marker that goes too deep is escaped before parsing, so it is shown
//! literally.

use std::borrow::Cow;

/// Maximum number of markers in one line.
const DEEPEST: usize = 64;

/// Escapes the first marker of each line that is nested too deep.
pub(crate) fn bound(markdown: &str) -> Cow<'_, str> {
    let mut bounded = String::new();
    let mut copied = 0;
    let mut start = 0;
    for line in markdown.split_inclusive('\n') {
        if let Some((before, after)) =
            too_deep(line).and_then(|at| markdown.split_at_checked(start + at))
        {
            bounded.push_str(before.get(copied..).unwrap_or_default());
            bounded.push('\\');
            copied = markdown.len() - after.len();
        }
        start += line.len();
    }
    if copied == 0 {
        return Cow::Borrowed(markdown);
    }
    bounded.push_str(markdown.get(copied..).unwrap_or_default());
    Cow::Owned(bounded)
}

/// Returns the offset of the first marker that goes too deep, at the character that makes it a
/// marker.
fn too_deep(line: &str) -> Option<usize> {
    if line.len() <= DEEPEST || is_rule(line) {
        return None;
    }
    let mut rest = line;
    for _ in 0..DEEPEST {
        rest = after_marker(rest)?;
    }
    let sign = rest.len()
        - rest
            .trim_start()
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .len();
    after_marker(rest).map(|_| line.len() - rest.len() + sign)
}

/// Returns the text after the marker that `text` begins with.
fn after_marker(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t']);
    if let Some(after) = text.strip_prefix('>') {
        return Some(after);
    }
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = digits.len() < text.len();
    let after = digits.strip_prefix(|c| {
        if is_number {
            matches!(c, '.' | ')')
        } else {
            matches!(c, '-' | '*' | '+')
        }
    })?;
    after.starts_with([' ', '\t']).then_some(after)
}

/// Returns `true` for a line of one repeated character, which is a thematic break.
fn is_rule(line: &str) -> bool {
    let mut signs = line.chars().filter(|c| !c.is_whitespace());
    let first = signs.next();
    matches!(first, Some('-' | '*')) && signs.all(|sign| Some(sign) == first)
}
