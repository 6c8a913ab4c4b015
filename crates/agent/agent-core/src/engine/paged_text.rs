//! Splits a text into lines that `read_file` can page through.
//!
//! Decision: every line break becomes a newline, and long lines are broken, so that no line is
//! longer than a result may be and every reader counts the same lines. No other character is lost.

/// A text in short lines, or the part of it that fits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PagedText {
    pub(super) text: String,
    pub(super) lines: usize,
    /// Number, from 1, of the line with the first character that was not shown.
    pub(super) next_line: usize,
    /// `true` if a line was too long and was broken.
    pub(super) is_broken: bool,
    /// `true` if the text was longer than the limit.
    pub(super) is_cut: bool,
}

impl PagedText {
    /// Splits `text` into lines of at most `width` characters, and stops after about `bytes` bytes.
    /// The first `shown` characters of `text` were already shown.
    pub(super) fn new(text: &str, shown: usize, width: usize, bytes: usize) -> Self {
        let mut lines = LineCutter {
            text: String::with_capacity(text.len().min(bytes)),
            number: 1,
            column: 0,
            space: None,
        };
        let mut next_line = None;
        let (mut is_broken, mut after_return) = (false, false);
        let mut rest = text.chars().enumerate();
        let is_cut = loop {
            let Some((index, character)) = rest.next() else {
                break false;
            };
            if lines.text.len() + character.len_utf8() > bytes {
                break true;
            }
            if index == shown {
                next_line = Some(lines.number);
            }
            let is_second_half = after_return && character == '\n';
            after_return = character == '\r';
            if is_second_half {
                continue;
            }
            if is_line_break(character) {
                lines.end();
                continue;
            }
            if lines.column == width {
                lines.wrap(width);
                is_broken = true;
            }
            lines.push(character);
        };
        let count = lines.number - usize::from(lines.column == 0 && lines.number > 1);
        Self {
            text: lines.text,
            lines: count,
            next_line: next_line.unwrap_or(count),
            is_broken,
            is_cut,
        }
    }
}

struct LineCutter {
    text: String,
    number: usize,
    column: usize,
    /// Position after the last whitespace of the line, in bytes of the text and characters of the
    /// line.
    space: Option<(usize, usize)>,
}

impl LineCutter {
    fn push(&mut self, character: char) {
        self.text.push(character);
        self.column += 1;
        if character.is_whitespace() {
            self.space = Some((self.text.len(), self.column));
        }
    }

    fn end(&mut self) {
        self.text.push('\n');
        self.number += 1;
        self.column = 0;
        self.space = None;
    }

    /// Breaks the line after whitespace in its last quarter, or else at its end.
    fn wrap(&mut self, width: usize) {
        match self
            .space
            .filter(|(_, column)| *column > width / 4 * 3 && *column < width)
        {
            Some((at, column)) => {
                self.text.insert(at, '\n');
                self.number += 1;
                self.column -= column;
                self.space = None;
            }
            None => self.end(),
        }
    }
}

/// Returns `true` for every character that `read_file` treats as a line break.
fn is_line_break(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r'
            | '\u{b}'
            | '\u{c}'
            | '\u{1c}'
            | '\u{1d}'
            | '\u{1e}'
            | '\u{85}'
            | '\u{2028}'
            | '\u{2029}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_long_lines_without_loss() {
        let table = [
            ("", 10, "", 1, false),
            (
                "a\r\nb\rc\u{2028}d\u{85}\n e",
                10,
                "a\nb\nc\nd\n\n e",
                6,
                false,
            ),
            ("one\ntwo\n", 10, "one\ntwo\n", 2, false),
            ("咖啡咖啡咖", 4, "咖啡咖啡\n咖", 2, true),
            ("a word andmore", 8, "a word \nandmore", 2, true),
            ("12345678", 8, "12345678", 1, false),
            ("12345678\n9", 8, "12345678\n9", 2, false),
        ];
        for (text, width, expected, lines, is_broken) in table {
            let readable = PagedText::new(text, 0, width, 100);
            let expected = PagedText {
                text: expected.to_owned(),
                lines,
                next_line: 1,
                is_broken,
                is_cut: false,
            };
            assert_eq!(readable, expected, "{text:?}");
        }
    }

    #[test]
    fn next_line_is_the_first_one_not_shown_completely() {
        let text = "first\nsecond\nthird\n";
        for (shown, line) in [(0, 1), (5, 1), (6, 2), (8, 2), (13, 3), (400, 3)] {
            assert_eq!(
                PagedText::new(text, shown, 80, 100).next_line,
                line,
                "{shown}"
            );
        }
    }

    #[test]
    fn text_is_cut_at_the_limit() {
        let readable = PagedText::new("咖啡咖啡", 0, 80, 7);
        assert_eq!((readable.text.as_str(), readable.is_cut), ("咖啡", true));
    }
}
