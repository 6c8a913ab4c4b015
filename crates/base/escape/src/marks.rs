//! Tables of characters that hide or reorder text, and the contexts in which they are harmless.

use crate::{Notation, escape};

const ZERO_WIDTH_NON_JOINER: char = '\u{200c}';
const ZERO_WIDTH_JOINER: char = '\u{200d}';
const BLACK_FLAG: char = '🏴';
/// Tag sequences of flags, in ASCII; the last character is U+E007F.
const FLAGS: [&str; 3] = ["gbeng\u{7f}", "gbsct\u{7f}", "gbwls\u{7f}"];

/// Returns `true` for a character that is invisible or changes the order of others.
pub(crate) fn is_hidden(character: char) -> bool {
    matches!(
        u32::from(character),
        // Soft hyphen, grapheme joiner, Arabic letter mark, Hangul and Khmer fillers, Mongolian
        // selectors.
        0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            // Zero-width characters and direction marks; separators, embeddings, overrides.
            | 0x200B..=0x200F | 0x2028..=0x202E
            // Word joiner, invisible operators, isolates, deprecated formats.
            | 0x2060..=0x206F
            | 0x3164 | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF9..=0xFFFB
            | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
            // Tags and further variation selectors.
            | 0xE0000..=0xE0FFF
    )
}

/// Copies characters, escaping hidden ones unless their neighbours make them harmless.
#[derive(Debug, Default)]
pub(crate) struct HiddenCharFilter {
    /// The last character that was copied, unescaped.
    last: Option<char>,
    /// A joiner whose right neighbour is not known yet, or the tags after a flag.
    held: String,
    /// Form of a hidden character.
    notation: Notation,
}

impl HiddenCharFilter {
    pub(crate) fn new(notation: Notation) -> Self {
        Self {
            notation,
            ..Self::default()
        }
    }

    pub(crate) fn take(&mut self, character: char, into: &mut String) {
        if !self.held.is_empty() && self.continues(character, into) {
            return;
        }
        if !is_hidden(character) {
            into.push(character);
            self.last = Some(character);
        } else if self.may_be_kept(character) {
            self.held.push(character);
        } else if self.last.is_some_and(|last| selects(last, character)) {
            into.push(character);
            // A second selector has nothing to select, while a joiner may follow.
            self.last = if character == '\u{fe0f}' {
                Some(character)
            } else {
                None
            };
        } else {
            escape(character, self.notation, into);
            self.last = None;
        }
    }

    pub(crate) fn finish(&mut self, into: &mut String) {
        for character in std::mem::take(&mut self.held).chars() {
            escape(character, self.notation, into);
        }
        self.last = None;
    }

    /// Returns `true` if the next characters may show that this one is harmless.
    fn may_be_kept(&self, character: char) -> bool {
        match (character, self.last) {
            (ZERO_WIDTH_JOINER, Some(last)) => {
                is_emoji(last) || last == '\u{fe0f}' || is_joining(last)
            }
            (ZERO_WIDTH_NON_JOINER, Some(last)) => is_joining(last),
            (tag, Some(BLACK_FLAG)) => begins_flag(&tag.to_string()),
            _ => false,
        }
    }

    /// Copies or escapes the held characters. Returns `true` if `character` has been consumed, too.
    fn continues(&mut self, character: char, into: &mut String) -> bool {
        if self.last == Some(BLACK_FLAG) && !self.held.starts_with(ZERO_WIDTH_JOINER) {
            let longer = format!("{}{character}", self.held);
            if !begins_flag(&longer) {
                self.finish(into);
                return false;
            }
            self.held = longer;
            if character == '\u{e007f}' {
                into.push_str(&std::mem::take(&mut self.held));
                self.last = None;
            }
            return true;
        }
        let joins = match self.last {
            Some(last) if is_joining(last) => is_joining(character),
            _ => is_emoji(character),
        };
        if joins {
            into.push_str(&std::mem::take(&mut self.held));
        } else {
            self.finish(into);
        }
        false
    }
}

/// Returns `true` if the tags are a prefix of a known flag.
fn begins_flag(tags: &str) -> bool {
    let letters: Option<String> = tags
        .chars()
        .map(|tag| u32::from(tag).checked_sub(0xE0000).and_then(char::from_u32))
        .collect();
    letters.is_some_and(|letters| FLAGS.iter().any(|flag| flag.starts_with(&letters)))
}

/// Returns `true` if a variation selector is meaningful after `last`.
fn selects(last: char, selector: char) -> bool {
    match u32::from(selector) {
        0xFE0E | 0xFE0F => is_emoji(last) || matches!(last, '#' | '*' | '0'..='9' | '©' | '®'),
        0xFE00..=0xFE0D | 0xE0100..=0xE01EF => is_ideograph(last),
        _ => false,
    }
}

fn is_emoji(character: char) -> bool {
    matches!(u32::from(character), 0x203C | 0x2049 | 0x2122..=0x2BFF | 0x3030 | 0x303D | 0x3297 | 0x3299 | 0x1F000..=0x1FAFF)
}

/// Returns `true` for letters of scripts that need joiners: Arabic, Syriac, and the Indic scripts.
fn is_joining(character: char) -> bool {
    matches!(u32::from(character), 0x620..=0x6FF | 0x700..=0x74F | 0x750..=0x77F | 0x8A0..=0x8FF | 0x900..=0xDFF)
}

fn is_ideograph(character: char) -> bool {
    matches!(u32::from(character), 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF)
}
