//! Changes Markdown before it is parsed, and undoes that in all text that the parser reports.

use std::borrow::Cow;

use crate::{cjk, depth, mask};

/// Prepares Markdown for the parser.
pub(crate) fn preprocess(markdown: &str) -> String {
    cjk::add_spacers(&mask::mask(&depth::bound(markdown))).into_owned()
}

/// Restores a piece of text that the parser reported.
pub(crate) fn restore(text: &str) -> Cow<'_, str> {
    match cjk::remove_spacers(text) {
        Cow::Borrowed(text) => mask::unmask(text),
        Cow::Owned(text) => Cow::Owned(mask::unmask(&text).into_owned()),
    }
}
