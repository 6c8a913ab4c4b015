//! The meaning of keys, as readline and chat programs have them.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::buffer::Edit;

/// The meaning of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Inserts a character.
    Insert(char),
    /// Edits the text, or moves in it.
    Edit(Edit),
    /// Sends the text.
    Submit,
    /// Inserts a line break.
    NewLine,
    /// Completes, or queues the text while a turn runs.
    Tab,
    /// Selects the previous completion.
    BackTab,
    /// Ends what is begun: a search, a list of completions.
    Escape,
    /// Clears the text, stops a turn, leaves.
    Interrupt,
    /// Deletes a character, or leaves at an empty line.
    EndOfInput,
    /// Suspends the program.
    Suspend,
    /// Moves up, or to an older entry.
    Up,
    /// Moves down, or to a newer entry.
    Down,
    /// Searches in the history.
    Search,
    /// Opens the text in an editor.
    OpenEditor,
    /// Clears the screen.
    ClearScreen,
    /// Shows the details of the last turn.
    Details,
}

impl Key {
    /// Returns the meaning of a key; `None` if it has none.
    pub(super) fn of(event: KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        let control = event.modifiers.contains(KeyModifiers::CONTROL);
        let alt = event.modifiers.contains(KeyModifiers::ALT);
        let shift = event.modifiers.contains(KeyModifiers::SHIFT);
        Some(match event.code {
            KeyCode::Enter if alt || shift || control => Self::NewLine,
            KeyCode::Enter => Self::Submit,
            KeyCode::Tab => Self::Tab,
            KeyCode::BackTab => Self::BackTab,
            KeyCode::Esc => Self::Escape,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left if control || alt => Self::Edit(Edit::WordLeft),
            KeyCode::Right if control || alt => Self::Edit(Edit::WordRight),
            KeyCode::Left => Self::Edit(Edit::Left),
            KeyCode::Right => Self::Edit(Edit::Right),
            KeyCode::Home => Self::Edit(Edit::LineStart),
            KeyCode::End => Self::Edit(Edit::LineEnd),
            KeyCode::Backspace if control || alt => Self::Edit(Edit::KillWordLeft),
            KeyCode::Backspace => Self::Edit(Edit::Backspace),
            KeyCode::Delete => Self::Edit(Edit::Delete),
            KeyCode::Char(character) if control && !alt => return Self::control(character),
            KeyCode::Char(character) if alt && !control => return Self::alt(character),
            KeyCode::Char(character) => Self::Insert(character),
            _ => return None,
        })
    }

    fn control(character: char) -> Option<Self> {
        Some(match character.to_ascii_lowercase() {
            'a' => Self::Edit(Edit::LineStart),
            'b' => Self::Edit(Edit::Left),
            'c' => Self::Interrupt,
            'd' => Self::EndOfInput,
            'e' => Self::Edit(Edit::LineEnd),
            'f' => Self::Edit(Edit::Right),
            'g' => Self::OpenEditor,
            'h' => Self::Edit(Edit::Backspace),
            'j' => Self::NewLine,
            'k' => Self::Edit(Edit::KillLineEnd),
            'l' => Self::ClearScreen,
            'n' => Self::Down,
            'o' => Self::Details,
            'p' => Self::Up,
            'r' => Self::Search,
            't' => Self::Edit(Edit::Transpose),
            'u' => Self::Edit(Edit::KillLineStart),
            'w' => Self::Edit(Edit::KillWordLeft),
            'y' => Self::Edit(Edit::Yank),
            'z' => Self::Suspend,
            // Terminals send Ctrl-_ as the same byte as Ctrl-7 and Ctrl-/.
            '_' | '7' | '/' => Self::Edit(Edit::Undo),
            _ => return None,
        })
    }

    fn alt(character: char) -> Option<Self> {
        Some(match character.to_ascii_lowercase() {
            'b' => Self::Edit(Edit::WordLeft),
            'd' => Self::Edit(Edit::KillWordRight),
            'f' => Self::Edit(Edit::WordRight),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_sends_and_its_variants_break_the_line() {
        let key = |code, modifiers| Key::of(KeyEvent::new(code, modifiers));
        for (code, modifiers, expected) in [
            (KeyCode::Enter, KeyModifiers::NONE, Some(Key::Submit)),
            (KeyCode::Enter, KeyModifiers::ALT, Some(Key::NewLine)),
            (KeyCode::Enter, KeyModifiers::SHIFT, Some(Key::NewLine)),
            (
                KeyCode::Char('j'),
                KeyModifiers::CONTROL,
                Some(Key::NewLine),
            ),
            (
                KeyCode::Char('J'),
                KeyModifiers::SHIFT,
                Some(Key::Insert('J')),
            ),
            (
                KeyCode::Char('é'),
                KeyModifiers::NONE,
                Some(Key::Insert('é')),
            ),
            // AltGr is reported as both.
            (
                KeyCode::Char('@'),
                KeyModifiers::ALT.union(KeyModifiers::CONTROL),
                Some(Key::Insert('@')),
            ),
            (KeyCode::F(1), KeyModifiers::NONE, None),
        ] {
            assert_eq!(key(code, modifiers), expected, "{code:?} {modifiers:?}");
        }
    }
}
