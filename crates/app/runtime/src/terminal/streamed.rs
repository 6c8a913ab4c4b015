//! The text of the reply that is being streamed.
//!
//! If the connection ends after the last word of a reply and before its end, the reply is in the
//! session, and the user has read all of it already.

use nanobot_control::TerminalEvent;
use nanobot_types::{OutboundKey, TraceId};

/// Maximum number of bytes that are remembered. A longer text counts as incomplete.
const MAX_BYTES: usize = 256 * 1024;

/// The streamed text of one turn since its last tool call.
#[derive(Debug, Default)]
pub(super) struct StreamedText {
    turn: Option<TraceId>,
    text: String,
    is_too_long: bool,
}

impl StreamedText {
    /// Takes an event that is shown.
    pub(super) fn observe(&mut self, event: &TerminalEvent, key: &OutboundKey) {
        match event {
            TerminalEvent::Delta(text) => {
                if self.turn.as_ref() != Some(&key.turn) {
                    *self = Self {
                        turn: Some(key.turn.clone()),
                        ..Self::default()
                    };
                }
                self.is_too_long |= self.text.len().saturating_add(text.len()) > MAX_BYTES;
                if !self.is_too_long {
                    self.text.push_str(text);
                }
            }
            TerminalEvent::StreamEnd { resuming: true } => *self = Self::default(),
            _ => {}
        }
    }

    /// Returns `true` if this is the whole reply of a turn.
    pub(super) fn is_reply(&self, turn: &TraceId, reply: &str) -> bool {
        !self.is_too_long && self.turn.as_ref() == Some(turn) && self.text.trim() == reply.trim()
    }
}

#[cfg(test)]
mod tests {
    use nanobot_types::OutboundSlot;

    use super::*;

    fn streamed(deltas: &[(&str, &str)]) -> StreamedText {
        let mut streamed = StreamedText::default();
        for (turn, text) in deltas {
            let key = OutboundKey::new(*turn, OutboundSlot::Reply);
            streamed.observe(&TerminalEvent::Delta((*text).to_owned()), &key);
        }
        streamed
    }

    #[test]
    fn whole_reply_is_recognised() {
        let long = "字".repeat(MAX_BYTES);
        let table = [
            (vec![("a", "Hel"), ("a", "lo.\n")], "a", "Hello.", true),
            (vec![("a", "Hel")], "a", "Hello.", false),
            (vec![("a", "Hello.")], "b", "Hello.", false),
            (vec![("a", "Hello."), ("b", "Bye.")], "b", "Bye.", true),
            (vec![("a", long.as_str())], "a", long.as_str(), false),
            (
                vec![("a", "Hello."), ("a", long.as_str())],
                "a",
                "Hello.",
                false,
            ),
            (vec![], "a", "", false),
        ];
        for (deltas, turn, reply, expected) in table {
            let streamed = streamed(&deltas);
            assert_eq!(streamed.is_reply(&turn.into(), reply), expected, "{turn}");
        }
    }

    #[test]
    fn text_before_a_tool_call_is_no_reply() {
        let mut streamed = streamed(&[("a", "Let me look.")]);
        let key = OutboundKey::new("a", OutboundSlot::Reply);
        streamed.observe(&TerminalEvent::StreamEnd { resuming: true }, &key);
        assert!(!streamed.is_reply(&"a".into(), "Let me look."));
    }
}
