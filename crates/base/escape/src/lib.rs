//! Escapes directional and invisible characters, drops control characters that steer a terminal, and
//! bounds texts of strangers for models.
//!
//! Decision: a character that reorders text (bidi controls) or is invisible (zero-width, tag and
//! filler characters) is written as `\u{202e}`, so that the text a person reads is the content of
//! the file, command or approval. Three uses are kept, because ordinary text looks wrong without
//! them and they cannot hide anything: joiners and variation selectors inside emoji, joiners
//! between letters of Arabic and Indic scripts, and one variation selector after an ideograph. The
//! only tag sequences that are kept are the flags of England, Scotland and Wales. Everything else
//! is escaped, including right-to-left marks, which a terminal does not need to order letters.

mod external;
mod marks;

pub use external::{EXTERNAL_BANNER, ExternalText, close_external_text, has_external_text};
use marks::{HiddenCharFilter, is_hidden};

/// Notation for escaped characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Notation {
    /// `\u{202e}`.
    #[default]
    Text,
    /// `\u202e`, which a JSON parser decodes.
    Json,
    /// Nothing: the character is dropped.
    Removed,
}

/// Sanitizes text for display to a person: drops control characters (except line feed and tab) and
/// escapes hidden characters.
#[must_use]
pub fn sanitize(text: &str) -> String {
    let mut escaper = Escaper::default();
    let mut shown = escaper.push(text);
    shown.push_str(&escaper.finish());
    shown
}

/// Sanitizes text for display in one line: line feeds and tabs become spaces, too.
#[must_use]
pub fn sanitize_line(text: &str) -> String {
    sanitize(text).replace(['\n', '\t'], " ")
}

/// Returns text as one word of a POSIX shell, in single quotes and on one line, for commands that are
/// suggested to a person: names may come from strangers, and people copy commands.
#[must_use]
pub fn shell_word(text: &str) -> String {
    format!("'{}'", sanitize_line(text).replace('\'', r"'\''"))
}

/// Escapes hidden characters and keeps control characters. For text that contains our own terminal
/// styles, and for logs, whose writer has already escaped control characters.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut keep = HiddenCharFilter::default();
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        keep.take(character, &mut shown);
    }
    keep.finish(&mut shown);
    shown
}

/// Removes hidden characters, and control characters except line feed and tab. For texts of strangers
/// that a model reads: a person does not see what such characters spell, and a model does.
#[must_use]
pub fn without_hidden(text: &str) -> String {
    let mut keep = HiddenCharFilter::new(Notation::Removed);
    let mut shown = String::with_capacity(text.len());
    let is_shown = |character: &char| matches!(character, '\n' | '\t') || !character.is_control();
    for character in text.chars().filter(is_shown) {
        keep.take(character, &mut shown);
    }
    keep.finish(&mut shown);
    shown
}

/// Replaces hidden characters in JSON by JSON escapes. The parsed value is unchanged.
#[must_use]
pub fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_hidden(character) {
            escape(character, Notation::Json, &mut shown);
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Streaming form of [`sanitize`], for text that arrives in pieces. A sequence may span several
/// pieces.
#[derive(Debug, Default)]
pub struct Escaper {
    keep: HiddenCharFilter,
}

impl Escaper {
    /// Sanitizes the next piece. A joiner at its end is held back until its neighbour is known.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        let mut shown = String::with_capacity(piece.len());
        let is_shown =
            |character: &char| matches!(character, '\n' | '\t') || !character.is_control();
        for character in piece.chars().filter(is_shown) {
            self.keep.take(character, &mut shown);
        }
        shown
    }

    /// Returns the held-back rest, after the last piece.
    #[must_use]
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.keep.finish(&mut shown);
        shown
    }
}

fn escape(character: char, notation: Notation, into: &mut String) {
    match notation {
        Notation::Text => into.extend(character.escape_unicode()),
        Notation::Removed => {}
        Notation::Json => {
            for unit in character.encode_utf16(&mut [0; 2]) {
                into.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_one_word_of_a_shell() {
        for (text, expected) in [
            ("telegram:40", "'telegram:40'"),
            ("'; reboot; '", r"''\''; reboot; '\'''"),
            ("a\n$(b)\t`c`", "'a $(b) `c`'"),
            ("\u{1b}[2J\u{202e}x", "'[2J\\u{202e}x'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), expected, "{text:?}");
        }
    }

    #[test]
    fn hidden_characters_are_removed_for_models() {
        for (text, expected) in [
            ("a\u{200b}b\u{202e}c\u{feff}d\r\n\te", "abcd\n\te"),
            ("x\u{e0049}\u{e0067}\u{e006e}y\u{1b}[2J", "xy[2J"),
            ("👨\u{200d}👩", "👨\u{200d}👩"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("🏴\u{e0067}\u{e0062}x", "🏴x"),
        ] {
            assert_eq!(without_hidden(text), expected, "{text:?}");
        }
    }

    #[test]
    fn escapes_hidden_characters() {
        let table = [
            ("rm \u{202e}txt.exe", "rm \\u{202e}txt.exe"),
            ("\u{2066}a\u{2069}", "\\u{2066}a\\u{2069}"),
            (
                "a\u{200b}b\u{2060}c\u{feff}d\u{ad}e",
                "a\\u{200b}b\\u{2060}c\\u{feff}d\\u{ad}e",
            ),
            ("a\u{200d}b\u{200c}c", "a\\u{200d}b\\u{200c}c"),
            ("hi\u{e0068}\u{e0069}", "hi\\u{e0068}\\u{e0069}"),
            ("x\u{fe0f}y", "x\\u{fe0f}y"),
            ("😀\u{fe0f}\u{fe0f}", "😀\u{fe0f}\\u{fe0f}"),
            ("😀\u{e0101}\u{e0102}", "😀\\u{e0101}\\u{e0102}"),
            ("👩\u{200d}", "👩\\u{200d}"),
            ("👩\u{200d}\u{200d}💻", "👩\\u{200d}\\u{200d}💻"),
            (
                "🏴\u{e0068}\u{e0069}\u{e007f}",
                "🏴\\u{e0068}\\u{e0069}\\u{e007f}",
            ),
            ("\u{3164}\u{115f}", "\\u{3164}\\u{115f}"),
            ("a\u{2028}b", "a\\u{2028}b"),
            ("שלום\u{200f}!", "שלום\\u{200f}!"),
        ];
        for (text, shown) in table {
            assert_eq!(visible(text), shown, "{text:?}");
            assert_eq!(sanitize(text), shown, "{text:?}");
        }
    }

    #[test]
    fn leaves_ordinary_text_unchanged() {
        let table = [
            "plain, 中文, العربية, עברית",
            "👩\u{200d}💻 👨\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 👩🏽\u{200d}🚀",
            "❤\u{fe0f} ☺\u{fe0e} 1\u{fe0f}\u{20e3} ©\u{fe0f}",
            "می\u{200c}خواهم क्\u{200d}ष",
            "葛\u{e0100}城",
            "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}!",
        ];
        for text in table {
            assert_eq!(sanitize(text), text);
            // The result does not depend on how the text is split.
            let mut escaper = Escaper::default();
            let mut shown: String = text
                .chars()
                .map(|character| escaper.push(&character.to_string()))
                .collect();
            shown.push_str(&escaper.finish());
            assert_eq!(shown, text);
        }
    }

    #[test]
    fn removes_terminal_control_characters() {
        assert_eq!(sanitize("a\u{1b}[2J\tb\r\nc\u{9b}d\u{7}"), "a[2J\tb\ncd");
        assert_eq!(visible("\u{1b}[1ma"), "\u{1b}[1ma");
    }

    #[test]
    fn escaped_json_keeps_its_value() {
        assert_eq!(
            visible_json("\"a\u{202e}\u{e0041}👩\u{200d}💻\""),
            "\"a\\u202e\\udb40\\udc41👩\\u200d💻\""
        );
    }
}
