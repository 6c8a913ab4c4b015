//! Lets emphasis end next to Chinese, Japanese and Korean text.
//!
//! `**注意：**请` is bold to everyone who writes it, but not to CommonMark: a closing mark between
//! punctuation and a letter does not close (the rule of flanking delimiter runs, made for languages
//! with spaces). Decision: at such a mark, a character that is neither is inserted between mark and
//! punctuation before parsing, and removed from all text that the parser reports. Text without such
//! marks is not changed.

use std::borrow::Cow;

/// A Unicode noncharacter: valid text does not contain it, so nothing is lost when it is removed.
const SPACER: char = '\u{FDD0}';

/// Inserts a spacer at each mark that would otherwise not open or close emphasis.
pub(crate) fn add_spacers(markdown: &str) -> Cow<'_, str> {
    if markdown.is_ascii() || !markdown.contains('*') {
        return Cow::Borrowed(markdown);
    }
    let mut spaced = String::with_capacity(markdown.len() + 16);
    let mut before = '\n';
    let mut rest = markdown;
    while let Some(at) = rest.find('*') {
        let (text, from_mark) = rest.split_at(at);
        let after_mark = from_mark.trim_start_matches('*');
        let (mark, _) = from_mark.split_at(from_mark.len() - after_mark.len());
        spaced.push_str(text);
        before = text.chars().next_back().unwrap_or(before);
        let after = after_mark.chars().next().unwrap_or('\n');
        if is_punctuation(before) && before != '\\' && is_wide_letter(after) {
            spaced.push(SPACER);
        }
        spaced.push_str(mark);
        if is_wide_letter(before) && is_punctuation(after) {
            spaced.push(SPACER);
        }
        before = '*';
        rest = after_mark;
    }
    spaced.push_str(rest);
    Cow::Owned(spaced)
}

/// Removes what [`add_spacers`] inserted.
pub(crate) fn remove_spacers(text: &str) -> Cow<'_, str> {
    if text.contains(SPACER) {
        Cow::Owned(text.replace(SPACER, ""))
    } else {
        Cow::Borrowed(text)
    }
}

fn is_punctuation(c: char) -> bool {
    !c.is_alphanumeric() && !c.is_whitespace() && !c.is_control()
}

fn is_wide_letter(c: char) -> bool {
    !c.is_ascii() && c.is_alphanumeric()
}
