//! The editor of one message: applies keys and returns what they mean for the conversation.

use crossterm::event::KeyEvent;
use unicode_width::UnicodeWidthStr as _;

use super::buffer::{Edit, EditBuffer, MAX_INPUT};
use super::completion::{Completions, Menu, common_prefix};
use super::keys::Key;
use super::search::{HistoryCursor, Search};
use super::{HistoryFile, InputRows, rows_of};

/// Maximum number of completions shown at once.
const MENU_ROWS: usize = 8;

/// The consequence of a key.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::terminal) enum EditOutcome {
    /// The text, the cursor or a list below it changed.
    Edited,
    /// A half-typed text was cleared; it is in the history.
    Cleared,
    /// Nothing changed.
    Ignored,
    /// The text is to be sent.
    Submit(String),
    /// The text is to be sent after the running turn.
    Queue(String),
    /// Completions of the text before the cursor are to be given to [`LineEditor::complete`].
    Complete(String),
    /// Ctrl-C without text.
    Interrupt,
    /// Ctrl-D without text.
    Leave,
    /// The program is to be suspended.
    Suspend,
    /// The text is to be edited in `$EDITOR`.
    OpenEditor,
    /// The screen is to be cleared.
    ClearScreen,
    /// The details of the last turn are to be shown.
    Details,
    /// The inserted text was too long and is refused.
    TooLong,
}

/// The editor of the message that is being typed.
pub(in crate::terminal) struct LineEditor {
    buffer: EditBuffer,
    file: HistoryFile,
    history: HistoryCursor,
    search: Option<Search>,
    menu: Option<Menu>,
}

impl LineEditor {
    /// Returns an empty editor with the history of a file.
    pub(in crate::terminal) fn new(file: HistoryFile) -> Self {
        Self {
            buffer: EditBuffer::new(),
            history: HistoryCursor::new(file.entries()),
            file,
            search: None,
            menu: None,
        }
    }

    /// Returns the text.
    pub(in crate::terminal) fn text(&self) -> &str {
        self.buffer.text()
    }

    /// Replaces the text; the cursor is at its end.
    pub(in crate::terminal) fn set_text(&mut self, text: &str) {
        self.buffer.set(text);
    }

    /// Inserts pasted text as it is; nothing in it is a key.
    pub(in crate::terminal) fn paste(&mut self, text: &str) -> EditOutcome {
        self.menu = None;
        // Terminals send the line breaks of a paste as carriage returns.
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if let Some(search) = &mut self.search {
            search
                .query
                .push_str(text.lines().next().unwrap_or_default());
            search.restart(&self.history);
            return EditOutcome::Edited;
        }
        self.insert(&text)
    }

    /// Applies a key.
    pub(in crate::terminal) fn key(&mut self, event: KeyEvent) -> EditOutcome {
        let Some(key) = Key::of(event) else {
            return EditOutcome::Ignored;
        };
        if let Some(outcome) = self.search_key(key) {
            return outcome;
        }
        match key {
            Key::Tab => return self.tab(),
            Key::BackTab => return self.select(false),
            Key::Escape | Key::Interrupt if self.menu.take().is_some() => {
                return EditOutcome::Edited;
            }
            _ => self.menu = None,
        }
        if !matches!(key, Key::Up | Key::Down) {
            self.history.reset();
        }
        match key {
            Key::Insert(character) => self.insert(character.encode_utf8(&mut [0; 4])),
            Key::NewLine => self.insert("\n"),
            Key::Edit(edit) => {
                self.buffer.apply(edit);
                EditOutcome::Edited
            }
            Key::Submit => self.submit(),
            Key::Interrupt if self.buffer.is_empty() => EditOutcome::Interrupt,
            Key::Interrupt => {
                let text = self.buffer.take();
                self.remember(&text);
                EditOutcome::Cleared
            }
            Key::EndOfInput if self.buffer.is_empty() => EditOutcome::Leave,
            Key::EndOfInput => {
                self.buffer.apply(Edit::Delete);
                EditOutcome::Edited
            }
            Key::Up => self.up(),
            Key::Down => self.down(),
            Key::Search => {
                self.search = Some(Search::new(&self.history));
                EditOutcome::Edited
            }
            Key::Suspend => EditOutcome::Suspend,
            Key::OpenEditor => EditOutcome::OpenEditor,
            Key::ClearScreen => EditOutcome::ClearScreen,
            Key::Details => EditOutcome::Details,
            Key::Escape | Key::Tab | Key::BackTab => EditOutcome::Ignored,
        }
    }

    /// Adds a text to the history.
    pub(in crate::terminal) fn remember(&mut self, text: &str) {
        if let Err(error) = self.file.append(text) {
            tracing::debug!(%error, "the line could not be added to the history file");
        }
        self.history.push(text);
    }

    /// Returns the rows of the editor with the text after `prompt`, and what belongs below it.
    pub(in crate::terminal) fn rows(&self, prompt: &str, width: usize, height: usize) -> InputRows {
        if let Some(search) = &self.search {
            let found = search.entry(&self.history).unwrap_or_default();
            let mut shown = rows_of(prompt, found, 0, width, height.saturating_sub(1));
            let query = format!("search history: {}", search.query);
            let query = rows_of("", &query, query.len(), width, 1);
            shown.cursor = (shown.rows.len(), query.cursor.1);
            shown.rows.extend(query.rows);
            return shown;
        }
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let mut shown = rows_of(prompt, text, cursor, width, height);
        if let Some(menu) = &self.menu {
            let room = height.saturating_sub(shown.rows.len()).min(MENU_ROWS);
            shown.rows.extend(menu_rows(menu, room, width));
        }
        shown
    }

    fn insert(&mut self, text: &str) -> EditOutcome {
        if self.buffer.insert(text) {
            EditOutcome::Edited
        } else {
            EditOutcome::TooLong
        }
    }

    fn submit(&mut self) -> EditOutcome {
        // A backslash at the end of the text continues it on the next line.
        let text = self.buffer.text();
        if self.buffer.cursor() == text.len() && text.ends_with('\\') && !text.ends_with("\\\\") {
            self.buffer.apply(Edit::Backspace);
            return self.insert("\n");
        }
        if text.trim().is_empty() {
            return EditOutcome::Ignored;
        }
        let text = self.buffer.take().trim_end().to_owned();
        self.remember(&text);
        EditOutcome::Submit(text)
    }

    fn up(&mut self) -> EditOutcome {
        if self.buffer.up() {
            return EditOutcome::Edited;
        }
        let text = self.buffer.text().to_owned();
        match self.history.older(&text) {
            Some(entry) => self.buffer.set(entry),
            None => return EditOutcome::Ignored,
        }
        EditOutcome::Edited
    }

    fn down(&mut self) -> EditOutcome {
        if self.buffer.down() {
            return EditOutcome::Edited;
        }
        let text = self.buffer.text().to_owned();
        match self.history.newer(&text) {
            Some(entry) => self.buffer.set(entry),
            None => return EditOutcome::Ignored,
        }
        EditOutcome::Edited
    }

    fn tab(&mut self) -> EditOutcome {
        if self.menu.is_some() {
            return self.select(true);
        }
        let before = self.buffer.text().get(..self.buffer.cursor());
        EditOutcome::Complete(before.unwrap_or_default().to_owned())
    }

    /// Completes the word before the cursor, or lists its completions. Without any, the text is
    /// queued while a turn is running.
    pub(in crate::terminal) fn complete(
        &mut self,
        Completions { start, candidates }: Completions,
        is_working: bool,
    ) -> EditOutcome {
        match candidates.as_slice() {
            [] if is_working && !self.buffer.text().trim().is_empty() => {
                let text = self.buffer.take();
                self.remember(&text);
                return EditOutcome::Queue(text);
            }
            [] => return EditOutcome::Ignored,
            [only] => {
                let end = if only.is_open { "" } else { " " };
                self.buffer
                    .replace_before_cursor(start, &format!("{}{end}", only.text));
                return EditOutcome::Edited;
            }
            _ => {}
        }
        let prefix = common_prefix(&candidates);
        if prefix.len() > self.buffer.cursor().saturating_sub(start) {
            self.buffer.replace_before_cursor(start, &prefix);
        }
        self.menu = Some(Menu {
            start,
            candidates,
            selected: None,
        });
        EditOutcome::Edited
    }

    fn select(&mut self, forward: bool) -> EditOutcome {
        let Some(menu) = &mut self.menu else {
            return EditOutcome::Ignored;
        };
        if let Some(text) = menu.step(forward) {
            self.buffer.replace_before_cursor(menu.start, &text);
        }
        EditOutcome::Edited
    }

    /// Applies a key to a search; `None` if no search is open, or the key ends it and has a meaning
    /// of its own.
    fn search_key(&mut self, key: Key) -> Option<EditOutcome> {
        let search = self.search.as_mut()?;
        match key {
            Key::Insert(character) => {
                if search.query.len() < MAX_INPUT {
                    search.query.push(character);
                }
                search.restart(&self.history);
            }
            Key::Edit(Edit::Backspace) => {
                search.query.pop();
                search.restart(&self.history);
            }
            Key::Search | Key::Up => search.older(&self.history),
            Key::Escape | Key::Interrupt | Key::OpenEditor => self.search = None,
            other => {
                let found = search.entry(&self.history).map(str::to_owned);
                self.search = None;
                if let Some(found) = found {
                    self.buffer.set(&found);
                }
                if other != Key::Tab {
                    return None;
                }
            }
        }
        Some(EditOutcome::Edited)
    }
}

/// Returns the rows of a list of completions; the selected one is marked.
fn menu_rows(menu: &Menu, rows: usize, width: usize) -> Vec<String> {
    let range = menu.visible(rows);
    let shown = menu.candidates.iter().enumerate();
    let shown = shown.skip(range.start).take(range.len());
    let widest = menu
        .candidates
        .iter()
        .map(|candidate| candidate.text.width())
        .max()
        .unwrap_or_default()
        .min(width / 2);
    shown
        .map(|(index, candidate)| {
            let mark = if menu.selected == Some(index) {
                "›"
            } else {
                " "
            };
            let padding = " ".repeat(widest.saturating_sub(candidate.text.width()));
            let row = format!("{mark} {}{padding}  {}", candidate.text, candidate.about);
            let row = rows_of("", row.trim_end(), 0, width, 1).rows;
            row.into_iter().next().unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyModifiers};

    use super::super::Candidate;
    use super::*;

    fn words(before: &str) -> Completions {
        let start = before.rfind(' ').map_or(0, |index| index + 1);
        let word = before.get(start..).unwrap_or_default();
        let known = ["/status", "/stop", "@src/"];
        let candidates = known
            .iter()
            .filter(|known| !word.is_empty() && known.starts_with(word));
        let candidates = candidates.map(|known| Candidate {
            text: (*known).to_owned(),
            about: "about".to_owned(),
            is_open: known.ends_with('/'),
        });
        Completions {
            start,
            candidates: candidates.collect(),
        }
    }

    fn key(editor: &mut LineEditor, event: KeyEvent, is_working: bool) -> EditOutcome {
        match editor.key(event) {
            EditOutcome::Complete(before) => editor.complete(words(&before), is_working),
            other => other,
        }
    }

    fn editor(home: &tempfile::TempDir) -> LineEditor {
        let file = HistoryFile::new(home.path().join("history"));
        for entry in ["old one", "newer"] {
            file.append(entry).unwrap();
        }
        LineEditor::new(file)
    }

    fn press(editor: &mut LineEditor, keys: &str) -> EditOutcome {
        let mut last = EditOutcome::Ignored;
        for character in keys.chars() {
            let event = match character {
                '\n' => KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE),
                '\t' => KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE),
                '↑' => KeyEvent::new(KeyCode::Up, KeyModifiers::NONE),
                '↓' => KeyEvent::new(KeyCode::Down, KeyModifiers::NONE),
                '⎋' => KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE),
                'Ⓒ' => KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
                'Ⓙ' => KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL),
                'Ⓡ' => KeyEvent::new(KeyCode::Char('r'), KeyModifiers::CONTROL),
                other => KeyEvent::new(KeyCode::Char(other), KeyModifiers::NONE),
            };
            last = key(editor, event, false);
        }
        last
    }

    #[test]
    fn text_is_sent_by_enter_and_continued_by_a_backslash() {
        let home = tempfile::tempdir().unwrap();
        let mut editor = editor(&home);
        assert_eq!(press(&mut editor, "\n"), EditOutcome::Ignored);
        press(&mut editor, "aⒿb\\\nc");
        assert_eq!(
            press(&mut editor, "\n"),
            EditOutcome::Submit("a\nb\nc".to_owned())
        );
        assert_eq!(editor.text(), "");
        press(&mut editor, "↑");
        assert_eq!(editor.text(), "a\nb\nc");
    }

    #[test]
    fn cleared_text_is_in_the_history() {
        let home = tempfile::tempdir().unwrap();
        let mut editor = editor(&home);
        press(&mut editor, "half");
        assert_eq!(press(&mut editor, "Ⓒ"), EditOutcome::Cleared);
        assert_eq!(press(&mut editor, "Ⓒ"), EditOutcome::Interrupt);
        press(&mut editor, "↑");
        assert_eq!(editor.text(), "half");
        press(&mut editor, "↑");
        assert_eq!(editor.text(), "newer");
        press(&mut editor, "↓↓");
        assert_eq!(editor.text(), "");
    }

    #[test]
    fn search_takes_the_found_entry() {
        let home = tempfile::tempdir().unwrap();
        let mut editor = editor(&home);
        press(&mut editor, "typedⓇON");
        assert_eq!(
            editor.rows("> ", 40, 9).rows,
            ["> old one", "search history: ON"]
        );
        assert_eq!(
            press(&mut editor, "\n"),
            EditOutcome::Submit("old one".to_owned())
        );
        press(&mut editor, "draftⓇnew⎋");
        assert_eq!(editor.text(), "draft");
    }

    #[test]
    fn tab_completes_lists_and_queues() {
        let home = tempfile::tempdir().unwrap();
        let mut editor = editor(&home);
        press(&mut editor, "/s\t");
        assert_eq!(editor.text(), "/st");
        assert_eq!(
            editor.rows("> ", 40, 9).rows,
            ["> /st", "  /status  about", "  /stop    about"]
        );
        press(&mut editor, "\t\t");
        assert_eq!(editor.text(), "/stop");
        press(&mut editor, "ⒸⒸ@s\t");
        assert_eq!(editor.text(), "@src/");
        let tab = KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE);
        press(&mut editor, " later");
        assert_eq!(key(&mut editor, tab, false), EditOutcome::Ignored);
        assert_eq!(
            key(&mut editor, tab, true),
            EditOutcome::Queue("@src/ later".to_owned())
        );
    }

    #[test]
    fn paste_is_one_text() {
        let home = tempfile::tempdir().unwrap();
        let mut editor = editor(&home);
        assert_eq!(editor.paste("a\r\nb\rc\n"), EditOutcome::Edited);
        assert_eq!(editor.text(), "a\nb\nc\n");
        assert_eq!(editor.paste(&"x".repeat(MAX_INPUT)), EditOutcome::TooLong);
    }
}
