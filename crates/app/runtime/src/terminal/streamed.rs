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
    /// `true` once the connection ended; a later stream begins anew.
    is_interrupted: bool,
}

impl StreamedText {
    /// Takes an event of the gateway.
    pub(super) fn observe(&mut self, event: &TerminalEvent, key: &OutboundKey) {
        match event {
            TerminalEvent::Delta(text) => {
                if self.is_interrupted || self.turn.as_ref() != Some(&key.turn) {
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

    /// Records that the connection ended.
    pub(super) fn interrupt(&mut self) {
        self.is_interrupted = true;
    }

    /// Returns `true` if all words of a reply were shown before the connection ended.
    pub(super) fn was_all_of(&self, key: &OutboundKey, reply: &str) -> bool {
        self.is_interrupted
            && key.is_reply()
            && !self.is_too_long
            && self.turn.as_ref() == Some(&key.turn)
            && self.text.trim() == reply.trim()
    }
}

#[cfg(test)]
mod tests {
    use nanobot_types::OutboundSlot;

    use super::*;

    fn key(turn: &str) -> OutboundKey {
        OutboundKey::new(turn, OutboundSlot::Reply)
    }

    fn streamed(deltas: &[(&str, &str)]) -> StreamedText {
        let mut streamed = StreamedText::default();
        for (turn, text) in deltas {
            streamed.observe(&TerminalEvent::Delta((*text).to_owned()), &key(turn));
        }
        streamed
    }

    #[test]
    fn whole_reply_is_recognised() {
        let long = "字".repeat(MAX_BYTES);
        let long = long.as_str();
        let table = [
            (vec![("a", "Hel"), ("a", "lo.\n")], "a", "Hello.", true),
            (vec![("a", "Hel")], "a", "Hello.", false),
            (vec![("a", "Hello.")], "b", "Hello.", false),
            (vec![("a", "Hello."), ("b", "Bye.")], "b", "Bye.", true),
            (vec![("a", long)], "a", long, false),
            (vec![("a", "Hello."), ("a", long)], "a", "Hello.", false),
            (vec![], "a", "", false),
        ];
        for (deltas, turn, reply, expected) in table {
            let mut streamed = streamed(&deltas);
            assert!(!streamed.was_all_of(&key(turn), reply), "{turn}");
            streamed.interrupt();
            assert_eq!(streamed.was_all_of(&key(turn), reply), expected, "{turn}");
        }
    }

    #[test]
    fn text_before_a_tool_call_is_no_reply() {
        let mut streamed = streamed(&[("a", "Let me look.")]);
        streamed.observe(&TerminalEvent::StreamEnd { resuming: true }, &key("a"));
        streamed.interrupt();
        assert!(!streamed.was_all_of(&key("a"), "Let me look."));
    }

    #[test]
    fn reply_that_is_streamed_again_ends_as_usual() {
        let mut streamed = streamed(&[("a", "Hello.")]);
        streamed.interrupt();
        streamed.observe(&TerminalEvent::Delta("Hello.".to_owned()), &key("a"));
        assert!(!streamed.was_all_of(&key("a"), "Hello."));
    }
}
