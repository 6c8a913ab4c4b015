//! Small helpers for text and addresses.

use std::ops::Range;

/// Returns the text in `range`. Returns an empty text if the range is out of bounds or does not lie
/// on character boundaries; never panics.
#[must_use]
pub fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

/// Returns `true` if `text` begins with `http://` or `https://`. The tail of an address that was
/// cut does not.
#[must_use]
pub fn is_web_address(text: &str) -> bool {
    starts_with_scheme(text, &["http://", "https://"])
}

/// Returns `true` if `url` begins with one of `schemes`, such as `https://`, in either case.
#[must_use]
pub fn starts_with_scheme(url: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| {
        url.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}
