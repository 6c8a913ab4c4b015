//! Masks emphasis marks inside addresses.
//!
//! `https://e.org/_a_*b*` is one address to everyone but CommonMark, which reads marks in it.
//! Decision: such marks are replaced by other characters before parsing, and restored in all text
//! that the parser reports.

use std::borrow::Cow;

/// Marks and the Unicode noncharacters that replace them.
const MASKS: [(char, char); 3] = [('*', '\u{FDD1}'), ('_', '\u{FDD2}'), ('~', '\u{FDD3}')];

/// Replaces the marks within addresses.
pub(crate) fn mask(markdown: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let mut rest = markdown;
    while let Some((before, found)) = rest.find("://").and_then(|at| rest.split_at_checked(at)) {
        let (address, after) = found.split_at_checked(end_of(found)).unwrap_or((found, ""));
        masked.push_str(before);
        write(address, &mut masked);
        rest = after;
    }
    if masked.is_empty() {
        return Cow::Borrowed(markdown);
    }
    masked.push_str(rest);
    Cow::Owned(masked)
}

/// Returns the length of the longest address that `address` begins with. Brackets are part of it in
/// pairs only.
fn end_of(address: &str) -> usize {
    let mut open = 0_usize;
    for (at, c) in address.char_indices() {
        match c {
            '(' => open += 1,
            ')' if open > 0 => open -= 1,
            ')' | '[' | ']' | '<' | '>' | '"' | '`' | '|' | '\\' | '^' | '{' | '}' => return at,
            c if !c.is_ascii_graphic() => return at,
            _ => {}
        }
    }
    address.len()
}

/// Restores what [`mask`] replaced.
pub(crate) fn unmask(text: &str) -> Cow<'_, str> {
    if !text.contains(MASKS.map(|(_, other)| other)) {
        return Cow::Borrowed(text);
    }
    let restored = |c| {
        MASKS
            .iter()
            .find(|(_, other)| *other == c)
            .map_or(c, |(mark, _)| *mark)
    };
    Cow::Owned(text.chars().map(restored).collect())
}

/// Appends an address with its marks masked. Marks at its end are kept: they close emphasis that
/// began before the address.
fn write(address: &str, masked: &mut String) {
    let end = address
        .trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '/')
        .len();
    for (at, c) in address.char_indices() {
        let other = MASKS.iter().find(|(mark, _)| *mark == c && at < end);
        masked.push(other.map_or(c, |(_, other)| *other));
    }
}
