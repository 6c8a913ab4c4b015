//! Transcripts that every vendor accepts: each tool call is followed by exactly one result.
//!
//! Decision: [`Transcript::repair`] is the only way to build one from messages, so a request cannot
//! be built from an invalid history. Repair never reorders user or assistant messages. It moves
//! each result to its call, drops orphaned results, and synthesises a result for a call without
//! one. The synthesised results are returned so that the session can record them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::{AssistantMessage, CallId, ChatMessage, ToolCall, ToolMessage};

/// Result synthesised for a call without a recorded result.
pub const INTERRUPTED_RESULT: &str =
    "Error: interrupted before a result was recorded. Inspect the state before repeating the call.";

/// Messages in which every tool call is directly followed by exactly one result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    messages: Vec<Arc<ChatMessage>>,
}

/// A valid transcript, and the repairs that were needed.
#[derive(Debug)]
pub struct RepairedTranscript {
    /// The valid transcript.
    pub transcript: Transcript,
    /// Results synthesised for calls without one, in order.
    pub synthesised: Vec<Arc<ChatMessage>>,
    /// Number of tool messages dropped because they answered no call, or the same call twice.
    pub dropped: usize,
}

impl Transcript {
    /// Builds a valid transcript from any list of messages.
    ///
    /// A result belongs to the latest preceding call with its id. System messages are left out,
    /// because a request carries its instructions separately.
    #[must_use]
    pub fn repair(messages: impl IntoIterator<Item = Arc<ChatMessage>>) -> RepairedTranscript {
        let mut repair = TranscriptRepair::default();
        for message in messages {
            repair.take(message);
        }
        repair.finish()
    }

    /// Returns the messages, in order.
    #[must_use]
    pub fn messages(&self) -> &[Arc<ChatMessage>] {
        &self.messages
    }

    /// Returns the messages, consuming the transcript.
    #[must_use]
    pub fn into_messages(self) -> Vec<Arc<ChatMessage>> {
        self.messages
    }

    /// Renders messages differently, for example with their images read from disk. `render` sees
    /// each message and must not change its role or its calls; if it does, the original message is
    /// kept.
    #[must_use]
    pub fn map(mut self, mut render: impl FnMut(&Arc<ChatMessage>) -> Arc<ChatMessage>) -> Self {
        for message in &mut self.messages {
            let rendered = render(message);
            if same_shape(message, &rendered) {
                *message = rendered;
            }
        }
        self
    }
}

fn same_shape(before: &ChatMessage, after: &ChatMessage) -> bool {
    match (before, after) {
        (ChatMessage::System { .. }, ChatMessage::System { .. })
        | (ChatMessage::User(_), ChatMessage::User(_)) => true,
        (ChatMessage::Assistant(before), ChatMessage::Assistant(after)) => {
            before.tool_calls == after.tool_calls
        }
        (ChatMessage::Tool(before), ChatMessage::Tool(after)) => {
            before.tool_call_id == after.tool_call_id
        }
        _ => false,
    }
}

/// Returns the message with only the first call of each id, or `None` if no id repeats.
fn without_repeated_ids(assistant: &AssistantMessage) -> Option<Arc<ChatMessage>> {
    let mut seen = HashSet::new();
    let distinct: Vec<ToolCall> = assistant
        .tool_calls
        .iter()
        .filter(|call| seen.insert(call.id.clone()))
        .cloned()
        .collect();
    (distinct.len() < assistant.tool_calls.len()).then(|| {
        Arc::new(ChatMessage::Assistant(AssistantMessage {
            tool_calls: distinct,
            ..assistant.clone()
        }))
    })
}

/// One message of the output, with the results of its calls.
struct RepairSlot {
    message: Arc<ChatMessage>,
    results: HashMap<CallId, Arc<ChatMessage>>,
}

#[derive(Default)]
struct TranscriptRepair {
    slots: Vec<RepairSlot>,
    latest: HashMap<CallId, usize>,
    dropped: usize,
}

impl TranscriptRepair {
    fn take(&mut self, message: Arc<ChatMessage>) {
        match &*message {
            ChatMessage::System { .. } => {}
            ChatMessage::Tool(result) => {
                let slot = self
                    .latest
                    .get(&result.tool_call_id)
                    .and_then(|index| self.slots.get_mut(*index));
                match slot {
                    Some(slot) if !slot.results.contains_key(&result.tool_call_id) => {
                        slot.results.insert(result.tool_call_id.clone(), message);
                    }
                    _ => self.dropped += 1,
                }
            }
            ChatMessage::Assistant(assistant) => {
                let message = without_repeated_ids(assistant).unwrap_or_else(|| message.clone());
                for call in &assistant.tool_calls {
                    self.latest.insert(call.id.clone(), self.slots.len());
                }
                self.slots.push(RepairSlot {
                    message,
                    results: HashMap::new(),
                });
            }
            ChatMessage::User(_) => self.slots.push(RepairSlot {
                message,
                results: HashMap::new(),
            }),
        }
    }

    fn finish(self) -> RepairedTranscript {
        let mut messages = Vec::with_capacity(self.slots.len());
        let mut synthesised = Vec::new();
        for mut slot in self.slots {
            let calls = match &*slot.message {
                ChatMessage::Assistant(assistant) => assistant.tool_calls.clone(),
                _ => Vec::new(),
            };
            messages.push(slot.message);
            for call in calls {
                let result = slot.results.remove(&call.id).unwrap_or_else(|| {
                    let made_up = Arc::new(ChatMessage::Tool(ToolMessage {
                        tool_call_id: call.id.clone(),
                        name: Some(call.name.clone()),
                        content: INTERRUPTED_RESULT.into(),
                        media: Vec::new(),
                    }));
                    synthesised.push(made_up.clone());
                    made_up
                });
                messages.push(result);
            }
        }
        RepairedTranscript {
            transcript: Transcript { messages },
            synthesised,
            dropped: self.dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(ids: &[&str]) -> Arc<ChatMessage> {
        Arc::new(ChatMessage::Assistant(AssistantMessage {
            tool_calls: ids
                .iter()
                .map(|id| ToolCall::new(*id, "read_file", "{}"))
                .collect(),
            ..AssistantMessage::default()
        }))
    }

    fn result(id: &str, text: &str) -> Arc<ChatMessage> {
        Arc::new(ChatMessage::tool(
            &ToolCall::new(id, "read_file", "{}"),
            text,
        ))
    }

    fn user(text: &str) -> Arc<ChatMessage> {
        Arc::new(ChatMessage::user(text))
    }

    #[test]
    fn repair_leaves_a_valid_history_unchanged() {
        let history = vec![
            user("a"),
            calls(&["1", "2"]),
            result("1", "x"),
            result("2", "y"),
            user("b"),
        ];
        let repaired = Transcript::repair(history.clone());
        assert_eq!(repaired.transcript.messages(), history);
        assert!(repaired.synthesised.is_empty());
        assert_eq!(repaired.dropped, 0);
    }

    #[test]
    fn repair_drops_orphans_fills_gaps_and_moves_late_results() {
        let repaired = Transcript::repair(vec![
            result("0", "orphan"),
            user("a"),
            calls(&["1", "2"]),
            result("2", "y"),
            user("b"),
            result("1", "late"),
            result("1", "twice"),
            calls(&["3"]),
        ]);
        let texts: Vec<String> = repaired
            .transcript
            .messages()
            .iter()
            .map(|message| message.text())
            .collect();
        assert_eq!(texts, ["a", "", "late", "y", "b", "", INTERRUPTED_RESULT]);
        assert_eq!(repaired.synthesised.len(), 1);
        assert_eq!(repaired.dropped, 2);
    }

    #[test]
    fn reused_call_id_belongs_to_the_latest_call() {
        let history = vec![
            user("a"),
            calls(&["1"]),
            result("1", "x"),
            user("b"),
            calls(&["1"]),
            result("1", "y"),
        ];
        assert_eq!(
            Transcript::repair(history.clone()).transcript.messages(),
            history
        );
    }
}
