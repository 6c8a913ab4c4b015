//! Finds the addresses in the text itself, and mentions in angle brackets.
//!
//! Platforms turn them into links on their own. They are marked because they must be neither split
//! nor escaped. Decision: an address ends at the first character that is not ASCII, since Chinese
//! text follows it without a space.

use std::cmp::Reverse;

use nanobot_markup::{Document, Mark, Span, slice};

/// Maximum length of a reference, in bytes.
const LONGEST_REFERENCE: usize = 64;

/// Marks the addresses and references of a document, except in code and in links.
pub(crate) fn mark(document: &mut Document) {
    if !(document.text.contains("://") || document.text.contains('<')) {
        return;
    }
    let mut bounds: Vec<usize> = document
        .spans
        .iter()
        .flat_map(|span| [span.range.start, span.range.end])
        .collect();
    bounds.push(document.text.len());
    bounds.sort_unstable();
    let mut spans = document
        .spans
        .iter()
        .filter(|span| is_closed(&span.mark))
        .peekable();
    let mut found = Vec::new();
    let mut closed_until = 0;
    let mut start = 0;
    for end in bounds {
        while let Some(span) = spans.next_if(|span| span.range.start <= start) {
            closed_until = closed_until.max(span.range.end);
        }
        if start < end && start >= closed_until {
            find(&document.text, start, end, &mut found);
            find_references(&document.text, start, end, &mut found);
        }
        start = start.max(end);
    }
    document.spans.append(&mut found);
    document
        .spans
        .sort_by_key(|span| (span.range.start, Reverse(span.range.end)));
}

/// Returns `true` if no addresses are searched for inside this mark.
fn is_closed(mark: &Mark) -> bool {
    matches!(mark, Mark::Code | Mark::Pre { .. } | Mark::Link { .. })
}

/// Finds addresses in a range of text that has the same marks throughout.
fn find(text: &str, start: usize, end: usize, found: &mut Vec<Span>) {
    let mut at = start;
    while let Some(colon) = slice(text, at..end).find("://").map(|offset| at + offset) {
        let scheme = ["https", "http"]
            .into_iter()
            .find(|scheme| ends_with(slice(text, at..colon), scheme));
        let address = slice(text, colon..end);
        let stop = address.find(|c: char| !c.is_ascii_graphic() || "<>\"`|\\^{}".contains(c));
        let stop = colon + stop.unwrap_or(address.len());
        if let Some(scheme) = scheme {
            let range = colon - scheme.len()..colon + end_of(slice(text, colon..stop));
            if range.end > colon + "://".len() {
                found.push(Span {
                    range,
                    mark: Mark::Address,
                });
            }
        }
        at = stop.max(colon + "://".len());
    }
}

/// Finds references in such a range.
fn find_references(text: &str, start: usize, end: usize, found: &mut Vec<Span>) {
    for (offset, _) in slice(text, start..end).match_indices('<') {
        let at = start + offset;
        let near = slice(text, at + 1..end)
            .bytes()
            .take(LONGEST_REFERENCE)
            .position(|byte| byte == b'>');
        let Some(length) = near else { continue };
        if is_reference(slice(text, at + 1..at + 1 + length)) {
            found.push(Span {
                range: at..at + length + 2,
                mark: Mark::Reference,
            });
        }
    }
}

/// Returns `true` if a text between angle brackets is a mention (`@id`, `@!id`, `@&id`, `#id`), a
/// custom emoji (`:name:id`, `a:name:id`) or a time (`t:seconds:style`), as several chat platforms
/// write them. A markup decides which of them it writes unescaped.
fn is_reference(inner: &str) -> bool {
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(id) = inner.strip_prefix('@') {
        return is_id(id.strip_prefix(['!', '&']).unwrap_or(id));
    }
    if let Some(id) = inner.strip_prefix('#') {
        return is_id(id);
    }
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut fields = inner.split(':');
    match (fields.next(), fields.next(), fields.next(), fields.next()) {
        (Some("" | "a"), Some(name), Some(id), None) => is_name(name) && is_id(id),
        (Some("t"), Some(time), style, None) => is_id(time) && style.is_none_or(is_id),
        _ => false,
    }
}

fn ends_with(text: &str, scheme: &str) -> bool {
    let start = text.len().checked_sub(scheme.len());
    start
        .and_then(|start| text.get(start..))
        .is_some_and(|end| end.eq_ignore_ascii_case(scheme))
}

/// Returns the length of an address without the punctuation of the sentence around it.
fn end_of(address: &str) -> usize {
    let opened = address.matches('(').count();
    let mut closed = address.matches(')').count();
    let mut end = address.len();
    for c in address.chars().rev() {
        match c {
            '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_' | '~' | ']' => {}
            ')' if closed > opened => closed -= 1,
            _ => break,
        }
        end -= c.len_utf8();
    }
    end
}
