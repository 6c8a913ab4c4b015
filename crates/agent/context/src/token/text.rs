//! Estimates the tokens of a text without a vocabulary.
//!
//! Decision: text is split into runs of one kind of character, as tokenizers do before they look
//! anything up, and each kind has a price fitted to the output of such tokenizers. For prose, code
//! and most scripts the result is right within about a fifth; the remaining, model-specific error
//! is what [`Calibrator`](super::Calibrator) learns.

/// Kind of a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    /// ASCII letters.
    Word,
    Digit,
    Space,
    /// Line breaks.
    Break,
    /// ASCII punctuation.
    Mark,
    /// Latin letters beyond ASCII, which split words into more tokens.
    Accented,
    /// Greek, Cyrillic, Armenian.
    Alphabet,
    /// Hebrew, Arabic, Indic scripts, Thai and their neighbours.
    Script,
    /// Han characters, kana, Hangul and their punctuation.
    Wide,
    /// Emoji and other symbols.
    Sign,
    /// Characters that modify the symbol before them: variation selectors, joiners, skin tones.
    Joiner,
}

/// Price units per token.
const UNIT: usize = 20;

/// Estimates the tokens of a text. At least 1 for a text that is not empty.
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    let mut price = 0_usize;
    let mut run: Option<(CharClass, usize)> = None;
    for character in text.chars() {
        let kind = kind(character);
        match &mut run {
            Some((current, length)) if *current == kind => *length += 1,
            _ => {
                price += run.map_or(0, |(kind, length)| cost(kind, length));
                run = Some((kind, 1));
            }
        }
    }
    price += run.map_or(0, |(kind, length)| cost(kind, length));
    price.div_ceil(UNIT)
}

/// Price of a run, in [`UNIT`]s of a token.
fn cost(kind: CharClass, length: usize) -> usize {
    match kind {
        // Common words are one token; long ones are assembled from several.
        CharClass::Word => match length {
            0..=7 => UNIT,
            8..=11 => 27,
            _ => length * UNIT / 5,
        },
        CharClass::Digit => length.div_ceil(3) * UNIT,
        // A single space belongs to the token that follows it; a run of spaces is one token.
        CharClass::Space => {
            if length == 1 {
                0
            } else {
                UNIT
            }
        }
        CharClass::Break => UNIT,
        // Short runs often have a token of their own, such as `", "` and `":` in JSON.
        CharClass::Mark => 8 + length * 4,
        CharClass::Accented => length * 16,
        CharClass::Alphabet => length * 8,
        CharClass::Script => length * 13,
        CharClass::Wide => length * 19,
        CharClass::Sign => length * 40,
        CharClass::Joiner => length * UNIT,
    }
}

fn kind(character: char) -> CharClass {
    match character {
        'a'..='z' | 'A'..='Z' => CharClass::Word,
        '0'..='9' => CharClass::Digit,
        ' ' | '\t' => CharClass::Space,
        '\n' | '\r' => CharClass::Break,
        '\0'..='\u{7f}' => CharClass::Mark,
        '\u{80}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => CharClass::Accented,
        '\u{370}'..='\u{58f}' => CharClass::Alphabet,
        '\u{590}'..='\u{10ff}' => CharClass::Script,
        '\u{1100}'..='\u{11ff}'
        | '\u{2e80}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}'
        | '\u{ff00}'..='\u{ffef}'
        | '\u{20000}'..='\u{3ffff}' => CharClass::Wide,
        '\u{200d}' | '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' => CharClass::Joiner,
        '\u{1f000}'..='\u{1faff}' => CharClass::Sign,
        // General punctuation: dashes, quotes, bullets.
        '\u{2000}'..='\u{206f}' => CharClass::Accented,
        _ => CharClass::Script,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_every_kind_of_text() {
        for (text, tokens) in [
            ("", 0),
            ("a", 1),
            ("hello world", 2),
            ("internationalisation", 4),
            ("2026-11-22", 6),
            ("你好", 2),
            ("안녕 hi", 3),
            ("Привет", 3),
            ("🐈", 2),
            ("\n\n\n", 1),
        ] {
            assert_eq!(estimate_tokens(text), tokens, "{text}");
        }
    }

    #[test]
    fn estimate_grows_with_the_text() {
        let text = "Remember: Ann's flight LH123 lands at 09:45 — 请在机场等她。🛬\n".repeat(50);
        assert!(
            estimate_tokens(&text)
                > 49 * estimate_tokens("Remember: Ann's flight LH123 lands at 09:45")
        );
    }
}
