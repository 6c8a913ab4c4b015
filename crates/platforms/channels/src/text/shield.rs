//! Keeps emphasis out of addresses.
//!
//! `https://e.org/_a_*b*` is one address to everyone but CommonMark, which reads marks in it.
//! Decision: such marks are other characters while the parser reads, and themselves again in
//! whatever comes out.

use std::borrow::Cow;

/// Marks, and code points that no text may hold (Unicode, "noncharacters").
const SHIELDED: [(char, char); 3] = [('*', '\u{FDD1}'), ('_', '\u{FDD2}'), ('~', '\u{FDD3}')];

/// Replaces the marks within addresses.
pub(super) fn shield(markdown: &str) -> Cow<'_, str> {
    let mut shielded = String::new();
    let mut rest = markdown;
    while let Some((before, behind)) = rest.find("://").and_then(|at| rest.split_at_checked(at)) {
        let (address, after) = behind
            .split_at_checked(end_of(behind))
            .unwrap_or((behind, ""));
        shielded.push_str(before);
        write(address, &mut shielded);
        rest = after;
    }
    if shielded.is_empty() {
        return Cow::Borrowed(markdown);
    }
    shielded.push_str(rest);
    Cow::Owned(shielded)
}

/// Where an address ends, as generous as it can be read: brackets belong to it in pairs.
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

/// Undoes it.
pub(super) fn unshield(text: &str) -> Cow<'_, str> {
    if !text.contains(SHIELDED.map(|(_, other)| other)) {
        return Cow::Borrowed(text);
    }
    let undone = |c| {
        SHIELDED
            .iter()
            .find(|(_, other)| *other == c)
            .map_or(c, |(mark, _)| *mark)
    };
    Cow::Owned(text.chars().map(undone).collect())
}

/// Writes an address. A mark that more of the address follows belongs to it; others end what was
/// begun before the address.
fn write(address: &str, shielded: &mut String) {
    let end = address
        .trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '/')
        .len();
    for (at, c) in address.char_indices() {
        let other = SHIELDED.iter().find(|(mark, _)| *mark == c && at < end);
        shielded.push(other.map_or(c, |(_, other)| *other));
    }
}
