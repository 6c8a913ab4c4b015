//! Slices of text that cannot panic.

use std::ops::Range;

/// The text in `range`; empty when the range is not one of whole characters.
pub(super) fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}
