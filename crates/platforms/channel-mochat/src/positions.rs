//! Positions in sessions and panels, kept over restarts.
//!
//! Decision: a session has the position that Mochat counts; a panel has none, so the last handled
//! messages take its place: what follows the newest of them in the panel's history is new. A
//! position moves forward, and only past what is stored or passed over; it moves back only if it
//! turns out to be wrong.
//!
//! The note has the form of the Python program's `mochat/session_cursors.json`, and one member
//! more. The note begins with that file.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use nanobot_channel::{MAX_NOTE_BYTES, Value};
use nanobot_channel_kit::Noted;
use serde::{Deserialize, Serialize};

/// The version of the note's form.
const SCHEMA_VERSION: u32 = 1;
/// Number of messages that mark the position in a panel. One can be recalled.
const MARKS: usize = 4;
/// Room in the note for positions; those that moved last are kept.
const BUDGET: usize = MAX_NOTE_BYTES - 4096;
/// Room that an entry takes besides its texts.
const ENTRY: usize = 32;

/// The positions.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    sessions: HashMap<String, Moved<u64>>,
    panels: HashMap<String, Moved<VecDeque<String>>>,
    /// Counts movements.
    clock: u64,
}

#[derive(Debug)]
struct Moved<T> {
    at: u64,
    position: T,
}

/// The form on disk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PositionNote {
    schema_version: u32,
    /// Numbers, by session.
    cursors: BTreeMap<String, Value>,
    /// Message ids, the oldest first, by panel.
    #[serde(default)]
    panels: BTreeMap<String, Vec<String>>,
}

impl Positions {
    /// Returns the position in a session.
    pub(crate) fn cursor(&self, session: &str) -> Option<u64> {
        self.sessions.get(session).map(|moved| moved.position)
    }

    /// Moves forward in a session. `true` if that changed something.
    pub(crate) fn advance(&mut self, session: &str, cursor: u64) -> bool {
        if self.cursor(session).is_some_and(|known| known >= cursor) {
            return false;
        }
        self.set(session, cursor);
        true
    }

    /// Moves back in a session. `true` if that changed something.
    pub(crate) fn set_back(&mut self, session: &str, cursor: u64) -> bool {
        let is_back = self.cursor(session).is_some_and(|known| known > cursor);
        if is_back {
            self.set(session, cursor);
        }
        is_back
    }

    fn set(&mut self, session: &str, position: u64) {
        self.clock += 1;
        let moved = Moved {
            at: self.clock,
            position,
        };
        self.sessions.insert(session.to_owned(), moved);
    }

    /// `true` if a panel has a position.
    pub(crate) fn knows_panel(&self, panel: &str) -> bool {
        self.panels.contains_key(panel)
    }

    /// `true` if a message is one of the last that were handled in a panel.
    pub(crate) fn is_marked(&self, panel: &str, message: &str) -> bool {
        let marks = self.panels.get(panel);
        marks.is_some_and(|moved| moved.position.iter().any(|mark| mark == message))
    }

    /// Moves forward in a panel. `true` if that changed something.
    pub(crate) fn mark<'a>(
        &mut self,
        panel: &str,
        messages: impl IntoIterator<Item = &'a str>,
    ) -> bool {
        self.clock += 1;
        let mut is_changed = !self.knows_panel(panel);
        let moved = self.panels.entry(panel.to_owned()).or_insert(Moved {
            at: 0,
            position: VecDeque::new(),
        });
        for message in messages {
            if message.is_empty() || moved.position.iter().any(|mark| mark == message) {
                continue;
            }
            moved.position.push_back(message.to_owned());
            if moved.position.len() > MARKS {
                moved.position.pop_front();
            }
            is_changed = true;
        }
        moved.at = self.clock;
        is_changed
    }
}

impl Noted for Positions {
    const NAME: &'static str = "session-cursors";
    // Soon, but once for the messages of a flood: what comes again after a kill is known in the ledger.
    const INTERVAL: Duration = Duration::from_millis(50);
    type Form = PositionNote;

    fn form(&self) -> PositionNote {
        enum Entry<'a> {
            Session(&'a String, u64),
            Panel(&'a String, &'a VecDeque<String>),
        }
        let sessions = self.sessions.iter();
        let sessions = sessions.map(|(id, moved)| (moved.at, Entry::Session(id, moved.position)));
        let panels = self.panels.iter();
        let panels = panels.map(|(id, moved)| (moved.at, Entry::Panel(id, &moved.position)));
        let mut entries: Vec<_> = sessions.chain(panels).collect();
        entries.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let mut note = PositionNote {
            schema_version: SCHEMA_VERSION,
            cursors: BTreeMap::new(),
            panels: BTreeMap::new(),
        };
        let mut room = BUDGET;
        for (_, entry) in entries {
            // Any character of an id may be escaped.
            let size = |text: &String| ENTRY + 2 * text.len();
            let needed = match &entry {
                Entry::Session(id, _) => size(id),
                Entry::Panel(id, marks) => size(id) + marks.iter().map(size).sum::<usize>(),
            };
            let Some(left) = room.checked_sub(needed) else {
                break;
            };
            room = left;
            match entry {
                Entry::Session(id, cursor) => {
                    note.cursors.insert(id.clone(), cursor.into());
                }
                Entry::Panel(id, marks) => {
                    note.panels
                        .insert(id.clone(), marks.iter().cloned().collect());
                }
            }
        }
        note
    }

    fn restore(&mut self, form: PositionNote) {
        for (session, cursor) in form.cursors {
            if let Some(cursor) = cursor.as_u64() {
                self.advance(&session, cursor);
            }
        }
        for (panel, marks) in form.panels {
            self.mark(&panel, marks.iter().map(String::as_str));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn restored(note: Value) -> Positions {
        let mut positions = Positions::default();
        positions.restore(serde_json::from_value(note).unwrap());
        positions
    }

    #[test]
    fn cursors_of_the_python_program_are_read() {
        let positions = restored(json!({
            "schemaVersion": 1, "updatedAt": "2026-03-01T00:00:00",
            "cursors": {"session_1": 42, "session_2": 0, "session_3": -1, "session_4": "x"},
        }));
        let cursors = ["session_1", "session_2", "session_3", "session_4"];
        let cursors = cursors.map(|session| positions.cursor(session));
        assert_eq!(cursors, [Some(42), Some(0), None, None]);
    }

    #[test]
    fn positions_only_move_forward() {
        let mut positions = Positions::default();
        assert!(positions.advance("s", 0) && positions.advance("s", 5));
        assert!(!positions.advance("s", 5) && !positions.advance("s", 4));
        assert_eq!(positions.cursor("s"), Some(5));
        assert!(positions.mark("p", []) && positions.knows_panel("p"));
        assert!(positions.mark("p", ["1", "2", "3", "4", "5", ""]));
        assert!(!positions.mark("p", ["5"]));
        let marked = ["1", "2", "5"].map(|message| positions.is_marked("p", message));
        assert_eq!(marked, [false, true, true]);
    }

    #[test]
    fn note_survives_a_round_trip() {
        let mut positions = Positions::default();
        positions.advance("s", 7);
        positions.mark("p", ["a", "b"]);
        positions.mark("q", []);
        let note = serde_json::to_value(positions.form()).unwrap();
        let expected =
            json!({"schemaVersion": 1, "cursors": {"s": 7}, "panels": {"p": ["a", "b"], "q": []}});
        assert_eq!(note, expected);
        assert_eq!(
            serde_json::to_value(restored(note).form()).unwrap(),
            expected
        );
    }

    #[test]
    fn note_keeps_the_positions_that_moved_last() {
        let mut positions = Positions::default();
        for number in 0..1000 {
            positions.advance(&format!("{number}{}", "\"".repeat(200)), 1);
            positions.mark(&format!("panel{number}"), ["語".repeat(60).as_str()]);
        }
        let note = positions.form();
        assert!(serde_json::to_string(&note).unwrap().len() <= MAX_NOTE_BYTES);
        assert!(note.cursors.keys().any(|id| id.starts_with("999")));
        assert!(note.panels.contains_key("panel999") && !note.panels.contains_key("panel1"));
    }
}
