//! What is done to Markdown before it is parsed, and undone in whatever comes out.

use std::borrow::Cow;

use super::{depth, flank, shield};

/// Prepares Markdown for the parser.
pub(super) fn prepare(markdown: &str) -> String {
    flank::ease(&shield::shield(&depth::bound(markdown))).into_owned()
}

/// A piece of what the parser says, as it was written.
pub(super) fn settle(text: &str) -> Cow<'_, str> {
    match flank::relax(text) {
        Cow::Borrowed(text) => shield::unshield(text),
        Cow::Owned(text) => Cow::Owned(shield::unshield(&text).into_owned()),
    }
}
