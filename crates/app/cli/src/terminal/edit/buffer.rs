//! The edited text, with undo and one killed text.

use reedline::LineBuffer;

/// Maximum length of the edited text, in bytes.
pub(in crate::terminal) const MAX_INPUT: usize = 512 << 10;

/// Maximum number of states that can be restored.
const MAX_UNDO: usize = 200;

/// A change of the text or a movement in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Moves by a character, a word, to an end of the line, or to an end of the text.
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    /// Deletes a character.
    Backspace,
    Delete,
    /// Kills text: the word before the cursor, the word after it, the rest of the line, and the
    /// line up to the cursor.
    KillWordLeft,
    KillWordRight,
    KillLineEnd,
    KillLineStart,
    /// Inserts the killed text.
    Yank,
    /// Swaps the characters around the cursor.
    Transpose,
    /// Restores the text before the last change.
    Undo,
}

/// The edited text.
#[derive(Debug)]
pub(super) struct EditBuffer {
    line: LineBuffer,
    killed: String,
    /// Earlier states with their cursors, oldest first.
    undo: Vec<(String, usize)>,
    /// Set while characters are inserted one after the other; they are undone together.
    is_typing: bool,
}

impl EditBuffer {
    pub(super) fn new() -> Self {
        Self {
            line: LineBuffer::new(),
            killed: String::new(),
            undo: Vec::new(),
            is_typing: false,
        }
    }

    pub(super) fn text(&self) -> &str {
        self.line.get_buffer()
    }

    /// Returns the position of the cursor, in bytes.
    pub(super) fn cursor(&self) -> usize {
        self.line.insertion_point()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    /// Replaces the whole text; the cursor is at its end.
    pub(super) fn set(&mut self, text: &str) {
        self.save();
        self.line.set_buffer(text.to_owned());
        self.line.move_to_end();
    }

    /// Returns the text and clears it. Earlier states are forgotten.
    pub(super) fn take(&mut self) -> String {
        let text = self.text().to_owned();
        self.line.clear();
        self.undo.clear();
        self.is_typing = false;
        text
    }

    /// Inserts typed or pasted text. Returns `false` if it would exceed [`MAX_INPUT`].
    pub(super) fn insert(&mut self, text: &str) -> bool {
        if self.text().len() + text.len() > MAX_INPUT {
            return false;
        }
        let is_character = text.chars().count() == 1 && !text.contains(char::is_whitespace);
        if !(self.is_typing && is_character) {
            self.save();
        }
        self.is_typing = is_character;
        self.line.insert_str(text);
        true
    }

    /// Replaces the text from `start` up to the cursor.
    pub(super) fn replace_before_cursor(&mut self, start: usize, text: &str) {
        self.save();
        self.line.clear_range_safe(start..self.cursor());
        self.line.set_insertion_point(start);
        self.line.insert_str(text);
    }

    /// Moves the cursor to the line above; `false` if it is on the first line.
    pub(super) fn up(&mut self) -> bool {
        self.is_typing = false;
        let moves = !self.line.is_cursor_at_first_line();
        if moves {
            self.line.move_line_up();
        }
        moves
    }

    /// Moves the cursor to the line below; `false` if it is on the last line.
    pub(super) fn down(&mut self) -> bool {
        self.is_typing = false;
        let moves = !self.line.is_cursor_at_last_line();
        if moves {
            self.line.move_line_down();
        }
        moves
    }

    pub(super) fn apply(&mut self, edit: Edit) {
        match edit {
            Edit::Left => self.line.move_left(),
            Edit::Right => self.line.move_right(),
            Edit::WordLeft => self.line.set_insertion_point(self.word_left()),
            Edit::WordRight => self.line.set_insertion_point(self.word_right()),
            Edit::LineStart => self.line.move_to_line_start(),
            Edit::LineEnd => self.line.move_to_line_end(),
            Edit::Undo => self.restore(),
            Edit::Backspace => self.change(LineBuffer::delete_left_grapheme),
            Edit::Delete => self.change(LineBuffer::delete_right_grapheme),
            Edit::Transpose => self.change(LineBuffer::swap_graphemes),
            Edit::KillWordLeft => self.kill(self.word_left(), self.cursor()),
            Edit::KillWordRight => self.kill(self.cursor(), self.word_right()),
            Edit::KillLineStart => self.kill(self.line.line_start_index(), self.cursor()),
            Edit::KillLineEnd => {
                let end = self.line.find_current_line_end();
                // At the end of a line its line break is killed.
                let end = if end == self.cursor() { end + 1 } else { end };
                self.kill(self.cursor(), end.min(self.text().len()));
            }
            Edit::Yank => {
                let killed = self.killed.clone();
                self.insert(&killed);
            }
        }
        self.is_typing = false;
    }

    fn change(&mut self, change: impl FnOnce(&mut LineBuffer)) {
        self.save();
        change(&mut self.line);
    }

    fn kill(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        self.save();
        self.killed = self.text().get(start..end).unwrap_or_default().to_owned();
        self.line.clear_range_safe(start..end);
        self.line.set_insertion_point(start);
    }

    fn save(&mut self) {
        self.is_typing = false;
        if self.undo.len() == MAX_UNDO {
            self.undo.remove(0);
        }
        self.undo.push((self.text().to_owned(), self.cursor()));
    }

    fn restore(&mut self) {
        if let Some((text, cursor)) = self.undo.pop() {
            self.line.set_buffer(text);
            self.line.set_insertion_point(cursor);
        }
    }

    /// Returns the beginning of the word before the cursor. Words end at white space and
    /// punctuation.
    fn word_left(&self) -> usize {
        let before = self.text().get(..self.cursor()).unwrap_or_default();
        let word = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        word.trim_end_matches(char::is_alphanumeric).len()
    }

    /// Returns the end of the word after the cursor.
    fn word_right(&self) -> usize {
        let after = self.text().get(self.cursor()..).unwrap_or_default();
        let word = after.trim_start_matches(|c: char| !c.is_alphanumeric());
        let rest = word.trim_start_matches(char::is_alphanumeric);
        self.text().len() - rest.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, edits: &[Edit]) -> String {
        let mut buffer = EditBuffer::new();
        buffer.insert(text);
        for edit in edits {
            buffer.apply(*edit);
        }
        let (before, after) = buffer.text().split_at(buffer.cursor());
        format!("{before}|{after}")
    }

    #[test]
    fn keys_edit_words_lines_and_characters() {
        use Edit::*;
        for (text, edits, expected) in [
            ("ab cd", &[WordLeft][..], "ab |cd"),
            ("ab cd", &[WordLeft, WordLeft, WordRight], "ab| cd"),
            ("ab cd", &[KillWordLeft], "ab |"),
            ("ab cd", &[LineStart, KillWordRight], "| cd"),
            ("ab cd", &[KillLineStart, Yank, Yank], "ab cdab cd|"),
            ("ab\ncd", &[LineStart, Backspace], "ab|cd"),
            ("ab\ncd", &[LineStart, Left, KillLineEnd], "ab|cd"),
            ("ab", &[Transpose], "ba|"),
            ("日本", &[Left, Backspace], "|本"),
            ("a👩‍👩‍👧b", &[Left, Backspace], "a|b"),
            ("e\u{301}x", &[Left, Left, Delete], "|x"),
            ("ab cd", &[KillWordLeft, Undo], "ab cd|"),
        ] {
            assert_eq!(after(text, edits), expected, "{text:?} {edits:?}");
        }
    }

    #[test]
    fn typed_word_is_undone_at_once() {
        let mut buffer = EditBuffer::new();
        for character in ["o", "n", "e", " ", "t", "w", "o"] {
            buffer.insert(character);
        }
        buffer.apply(Edit::Undo);
        assert_eq!(buffer.text(), "one ");
        for _ in 0..5 {
            buffer.apply(Edit::Undo);
        }
        assert_eq!(buffer.text(), "");
    }

    #[test]
    fn too_long_text_is_refused_whole() {
        let mut buffer = EditBuffer::new();
        assert!(buffer.insert("a"));
        assert!(!buffer.insert(&"b".repeat(MAX_INPUT)));
        assert_eq!(buffer.text(), "a");
    }
}
