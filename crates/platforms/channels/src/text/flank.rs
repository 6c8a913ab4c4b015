//! Lets emphasis end beside Chinese, Japanese and Korean text.
//!
//! `**注意：**请` is bold to everyone who writes it, but not to CommonMark: a closing mark between
//! punctuation and a letter does not close, a rule made for languages with spaces. Decision: where
//! such a mark stands, a character that is neither is put between mark and punctuation before
//! parsing, and taken out again of whatever comes out. Text without such places is not touched.

use std::borrow::Cow;

/// A code point that no text may hold (Unicode, "noncharacters"), and so nothing is lost with it.
const SPACER: char = '\u{FDD0}';

/// Prepares Markdown for the parser.
pub(super) fn ease(markdown: &str) -> Cow<'_, str> {
    if markdown.is_ascii() || !markdown.contains('*') {
        return Cow::Borrowed(markdown);
    }
    let mut eased = String::with_capacity(markdown.len() + 16);
    let mut before = '\n';
    let mut rest = markdown;
    while let Some(at) = rest.find('*') {
        let (text, from_mark) = rest.split_at(at);
        let after_mark = from_mark.trim_start_matches('*');
        let (mark, _) = from_mark.split_at(from_mark.len() - after_mark.len());
        eased.push_str(text);
        before = text.chars().next_back().unwrap_or(before);
        let after = after_mark.chars().next().unwrap_or('\n');
        if is_punctuation(before) && before != '\\' && is_wide_letter(after) {
            eased.push(SPACER);
        }
        eased.push_str(mark);
        if is_wide_letter(before) && is_punctuation(after) {
            eased.push(SPACER);
        }
        before = '*';
        rest = after_mark;
    }
    eased.push_str(rest);
    Cow::Owned(eased)
}

/// Takes out what [`ease`] put in.
pub(super) fn relax(text: &str) -> Cow<'_, str> {
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
