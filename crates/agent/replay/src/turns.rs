//! Splits the records of a session into turns.
//!
//! Decision: the end of a turn lists the messages it took in, and that list is trusted. In a log
//! without ends, such as that of another program, a final answer ends a turn. A result that was
//! recorded for a call of an earlier turn, right before the message that begins a turn, belongs to
//! the turn that begins.

use std::ops::Range;
use std::sync::Arc;

use nanobot_session::{Entry, MessageEntry, Record, Seq, TurnEnd};
use nanobot_types::{ChatMessage, INTERRUPTED_RESULT, TraceId};
use serde_json::Value;

/// A recorded turn.
#[derive(Debug)]
pub(crate) struct RecordedTurn<'a> {
    /// The records before it.
    pub(crate) before: &'a [Record],
    /// The indices of its records.
    pub(crate) range: Range<usize>,
    /// Its messages in order; results for calls of earlier turns come first.
    pub(crate) messages: Vec<&'a MessageEntry>,
    /// Index of the message that began it, within its messages.
    pub(crate) opening: usize,
    /// Its end, if it has one.
    pub(crate) end: Option<&'a TurnEnd>,
}

impl RecordedTurn<'_> {
    /// Returns its id, which is recorded with its end.
    pub(crate) fn id(&self) -> Option<&TraceId> {
        self.end.map(|end| &end.turn)
    }

    /// Returns the conversation at the beginning of the turn: the entries from the cursor on.
    pub(crate) fn history(&self) -> Vec<Entry> {
        let cursor = self.cursor();
        let known = self.before.iter().filter(|record| record.seq >= cursor);
        known
            .filter_map(|record| match &record.entry {
                Entry::Message(entry) => Some(Entry::Message(without_files(entry))),
                Entry::TurnEnded(_) | Entry::Reset | Entry::Restored => Some(record.entry.clone()),
                // Positions are relative to the first entry.
                Entry::Rewound { to } => Some(Entry::Rewound {
                    to: Seq(to.0.saturating_sub(cursor.0)),
                }),
                Entry::Consolidated { .. } | Entry::Metadata(_) => None,
            })
            .collect()
    }

    /// Returns the index of the first record that the turn needs.
    pub(crate) fn first_known(&self) -> usize {
        let cursor = self.cursor();
        // A turn's end is not needed without the turn.
        let is_known =
            |record: &Record| record.seq >= cursor && !matches!(record.entry, Entry::TurnEnded(_));
        self.before
            .iter()
            .position(is_known)
            .unwrap_or(self.range.start)
    }

    /// Returns the cursor at the beginning of the turn. Earlier messages were no longer sent.
    fn cursor(&self) -> Seq {
        let cursors = self.before.iter().map(|record| match record.entry {
            Entry::Consolidated { upto } => upto,
            Entry::Reset => record.seq,
            Entry::Message(_)
            | Entry::TurnEnded(_)
            | Entry::Rewound { .. }
            | Entry::Restored
            | Entry::Metadata(_) => Seq(0),
        });
        cursors.max().unwrap_or_default()
    }
}

/// Removes the attached files of an entry, because a replay reads none.
pub(crate) fn without_files(entry: &MessageEntry) -> MessageEntry {
    let mut entry = entry.clone();
    if !entry.message.media().is_empty() {
        match Arc::make_mut(&mut entry.message) {
            ChatMessage::User(user) => user.media.clear(),
            ChatMessage::Tool(result) => result.media.clear(),
            ChatMessage::System { .. } | ChatMessage::Assistant(_) => {}
        }
    }
    entry
}

/// Returns the turns of a log, in order.
pub(crate) fn turns(records: &[Record]) -> Vec<RecordedTurn<'_>> {
    let mut reader = TurnReader {
        records,
        turns: Vec::new(),
        open: None,
    };
    for (index, record) in records.iter().enumerate() {
        reader.take(index, &record.entry);
    }
    reader.close_unfinished(records.len());
    reader.turns
}

struct UnfinishedTurn {
    /// Index of the message that began it.
    opening: usize,
    /// `true` if its last message is a final answer.
    is_answered: bool,
}

struct TurnReader<'a> {
    records: &'a [Record],
    turns: Vec<RecordedTurn<'a>>,
    open: Option<UnfinishedTurn>,
}

impl<'a> TurnReader<'a> {
    fn take(&mut self, index: usize, entry: &'a Entry) {
        match entry {
            Entry::Message(message) if belongs_to_turn(message) => match &*message.message {
                ChatMessage::User(_) => self.on_user_message(index),
                ChatMessage::Assistant(assistant) => {
                    if let Some(open) = &mut self.open {
                        open.is_answered = assistant.tool_calls.is_empty();
                    }
                }
                ChatMessage::Tool(_) | ChatMessage::System { .. } => {}
            },
            Entry::TurnEnded(end) => self.end(index, end),
            Entry::Reset | Entry::Rewound { .. } | Entry::Restored => self.close_unfinished(index),
            Entry::Message(_) | Entry::Consolidated { .. } | Entry::Metadata(_) => {}
        }
    }

    /// Handles a person's message, which begins a turn or arrives in the middle of one.
    fn on_user_message(&mut self, index: usize) {
        if self.open.as_ref().is_some_and(|open| open.is_answered) {
            self.close_unfinished(index);
        }
        if self.open.is_none() {
            self.open = Some(UnfinishedTurn {
                opening: index,
                is_answered: false,
            });
        }
    }

    fn end(&mut self, index: usize, end: &'a TurnEnd) {
        let Some(UnfinishedTurn { opening, .. }) = self.open.take() else {
            return;
        };
        let own = self.opening_of(end, opening..index);
        if own > opening {
            // The records before belong to a turn that was never resumed.
            self.push(opening, self.first_repair(own, opening + 1), None);
        }
        self.push(own, index + 1, Some(end));
    }

    fn close_unfinished(&mut self, index: usize) {
        if let Some(UnfinishedTurn { opening, .. }) = self.open.take() {
            self.push(opening, index, None);
        }
    }

    /// Returns the index of the message that began the turn with this end.
    fn opening_of(&self, end: &TurnEnd, range: Range<usize>) -> usize {
        let first = range.start;
        let mut inbound = range.filter_map(|index| match &self.records.get(index)?.entry {
            Entry::Message(entry)
                if belongs_to_turn(entry) && matches!(*entry.message, ChatMessage::User(_)) =>
            {
                Some((index, entry.inbound.as_ref()))
            }
            _ => None,
        });
        let own = match end.inbound.first() {
            Some(id) => inbound
                .find(|(_, inbound)| *inbound == Some(id))
                .map(|(index, _)| index),
            // The turn took in no message with an id.
            None => inbound.fold(None, |own, (index, inbound)| match inbound {
                Some(_) => None,
                None => own.or(Some(index)),
            }),
        };
        own.unwrap_or(first)
    }

    /// Returns the index of the first of the results that were recorded right before a message for
    /// calls of an earlier turn.
    fn first_repair(&self, opening: usize, floor: usize) -> usize {
        let before = self.records.get(floor..opening).unwrap_or_default();
        let repairs = before
            .iter()
            .rev()
            .take_while(|record| match &record.entry {
                Entry::Message(entry) => {
                    matches!(*entry.message, ChatMessage::Tool(_))
                        && entry.message.text() == INTERRUPTED_RESULT
                }
                _ => false,
            });
        opening - repairs.count()
    }

    fn push(&mut self, opening: usize, end_of_range: usize, end: Option<&'a TurnEnd>) {
        let floor = self.turns.last().map_or(0, |turn| turn.range.end);
        let begin = self.first_repair(opening, floor);
        let messages_in = |range: Range<usize>| {
            self.records
                .get(range)
                .unwrap_or_default()
                .iter()
                .filter_map(|record| match &record.entry {
                    Entry::Message(entry) if belongs_to_turn(entry) => Some(entry),
                    _ => None,
                })
        };
        self.turns.push(RecordedTurn {
            before: self.records.get(..begin).unwrap_or_default(),
            opening: messages_in(begin..opening).count(),
            messages: messages_in(begin..end_of_range).collect(),
            range: begin..end_of_range,
            end,
        });
    }
}

/// Returns `true` if a turn would record the message. Commands, instructions and empty answers are
/// never sent to a model.
fn belongs_to_turn(entry: &MessageEntry) -> bool {
    let is_command = entry
        .extra
        .get("_command")
        .is_some_and(|mark| *mark != Value::Bool(false) && !mark.is_null());
    !is_command
        && match &*entry.message {
            ChatMessage::System { .. } => false,
            ChatMessage::Assistant(said) => {
                !said.tool_calls.is_empty()
                    || said
                        .content
                        .as_ref()
                        .is_some_and(|content| !content.is_empty())
            }
            ChatMessage::User(_) | ChatMessage::Tool(_) => true,
        }
}

#[cfg(test)]
mod tests {
    use nanobot_session::TurnOutcome;
    use nanobot_types::{AssistantMessage, ToolCall};

    use super::*;

    fn user(id: &str) -> Entry {
        let inbound = (!id.is_empty()).then(|| id.into());
        Entry::Message(MessageEntry {
            inbound,
            ..MessageEntry::new(ChatMessage::user("said"))
        })
    }

    fn calls() -> Entry {
        let tool_calls = vec![ToolCall::new("1", "look", "{}")];
        Entry::message(ChatMessage::Assistant(AssistantMessage {
            tool_calls,
            ..AssistantMessage::default()
        }))
    }

    fn result(text: &str) -> Entry {
        Entry::message(ChatMessage::tool(&ToolCall::new("1", "look", "{}"), text))
    }

    fn assistant() -> Entry {
        Entry::message(ChatMessage::assistant("done"))
    }

    fn end(inbound: &[&str]) -> Entry {
        let inbound = inbound.iter().map(|id| (*id).into()).collect();
        Entry::TurnEnded(TurnEnd {
            turn: "t".into(),
            inbound,
            outcome: TurnOutcome::Replied,
            visible: None,
        })
    }

    /// Returns for each turn its range, the index of its opening message, and `true` if it ended.
    fn ranges(entries: Vec<Entry>) -> Vec<(Range<usize>, usize, bool)> {
        let mut seq = 0;
        let records: Vec<Record> = entries
            .into_iter()
            .map(|entry| {
                let record = Record {
                    seq: Seq(seq),
                    entry,
                };
                seq += u64::from(matches!(record.entry, Entry::Message(_)));
                record
            })
            .collect();
        turns(&records)
            .into_iter()
            .map(|turn| (turn.range.clone(), turn.opening, turn.end.is_some()))
            .collect()
    }

    #[test]
    fn splits_logs_into_turns() {
        for (name, entries, expected) in [
            ("nothing", vec![], vec![]),
            (
                "two with ends",
                vec![
                    user("a"),
                    assistant(),
                    end(&["a"]),
                    user(""),
                    assistant(),
                    end(&[]),
                ],
                vec![(0..3, 0, true), (3..6, 0, true)],
            ),
            (
                "steered",
                vec![
                    user("a"),
                    calls(),
                    result("x"),
                    user("b"),
                    assistant(),
                    end(&["a", "b"]),
                ],
                vec![(0..6, 0, true)],
            ),
            (
                "of another program",
                vec![
                    user(""),
                    calls(),
                    result("x"),
                    assistant(),
                    user(""),
                    assistant(),
                ],
                vec![(0..4, 0, false), (4..6, 0, false)],
            ),
            (
                "left open",
                vec![user("a"), calls()],
                vec![(0..2, 0, false)],
            ),
            (
                "abandoned, its call answered by the next one",
                vec![
                    user("a"),
                    calls(),
                    result(INTERRUPTED_RESULT),
                    user("b"),
                    assistant(),
                    end(&["b"]),
                ],
                vec![(0..2, 0, false), (2..6, 1, true)],
            ),
            (
                "stopped, its call answered by the next one",
                vec![
                    user("a"),
                    calls(),
                    end(&["a"]),
                    result(INTERRUPTED_RESULT),
                    user("b"),
                    assistant(),
                    end(&["b"]),
                ],
                vec![(0..3, 0, true), (3..7, 1, true)],
            ),
            (
                "abandoned before one without an id",
                vec![user("a"), user(""), assistant(), end(&[])],
                vec![(0..1, 0, false), (1..4, 0, true)],
            ),
            (
                "reset in between",
                vec![user("a"), Entry::Reset, user("b"), assistant(), end(&["b"])],
                vec![(0..1, 0, false), (2..5, 0, true)],
            ),
            (
                "an answer without a message",
                vec![assistant(), user("a"), assistant(), end(&["a"])],
                vec![(1..4, 0, true)],
            ),
        ] {
            assert_eq!(ranges(entries), expected, "{name}");
        }
    }
}
