//! The running turn of the session at a terminal.
//!
//! Decision: a turn is known by its id, from the message that was sent here or from a step that was
//! shown here. So a turn of another terminal is known as well, once it shows something.

use nanobot_control::TerminalEvent;
use nanobot_types::{OutboundKey, TraceId};

/// The running turns that a terminal knows of.
#[derive(Debug, Default)]
pub(super) struct RunningTurns {
    /// The turn of the last message that was sent here, and after it those of messages that were
    /// sent while it waited for an answer.
    own: Vec<OwnTurn>,
    /// Number of open questions.
    questions: usize,
    /// The turn whose step was shown last, while it runs.
    seen: Option<TraceId>,
    /// The turn that ended last; late events of it begin nothing.
    ended: Option<TraceId>,
}

/// The turn of a message that was sent here.
#[derive(Debug)]
struct OwnTurn {
    turn: TraceId,
    /// `true` if a question was open when the message was sent. An answer ends at once, and any
    /// other text begins a turn of its own or joins the one that asked.
    is_answer: bool,
}

impl RunningTurns {
    /// `true` while a turn runs.
    pub(super) fn is_any(&self) -> bool {
        !self.own.is_empty() || self.seen.is_some()
    }

    /// Records a message that was sent here.
    pub(super) fn sent(&mut self, turn: TraceId) {
        let is_answer = self.questions > 0;
        self.questions = self.questions.saturating_sub(1);
        if !is_answer {
            self.own.clear();
        }
        self.own.push(OwnTurn { turn, is_answer });
    }

    /// Records a question that was shown here.
    pub(super) fn asked(&mut self) {
        self.questions += 1;
    }

    /// Records a shown event and the key of its message.
    pub(super) fn observe(&mut self, event: &TerminalEvent, key: Option<&OutboundKey>) {
        let Some(key) = key else { return };
        match event {
            TerminalEvent::Delta(_) | TerminalEvent::ToolHint(_) | TerminalEvent::Activity(_)
                if self.ended.as_ref() != Some(&key.turn) =>
            {
                self.seen = Some(key.turn.clone());
            }
            // The notice of an end may be lost; the reply is not.
            TerminalEvent::Reply { .. }
                if key.is_reply() && self.seen.as_ref() == Some(&key.turn) =>
            {
                self.seen = None;
                self.ended = Some(key.turn.clone());
            }
            _ => {}
        }
    }

    /// Records the end of a turn. Returns `true` if it was the turn of the last message, or one of
    /// another terminal while none runs for a message from here.
    pub(super) fn end(&mut self, turn: &TraceId) -> bool {
        if let Some(index) = self.own.iter().position(|own| own.turn == *turn) {
            if self.own.remove(index).is_answer {
                return !self.is_any();
            }
            // Turns of a session run one after the other: earlier ones have ended.
            self.own.drain(..index);
            self.questions = 0;
            self.ended = Some(turn.clone());
            self.seen = None;
            return self.own.is_empty();
        }
        self.ended = Some(turn.clone());
        if self.seen.as_ref() == Some(turn) {
            self.seen = None;
            return self.own.is_empty();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use nanobot_types::OutboundSlot;

    use super::*;

    fn delta(turns: &mut RunningTurns, turn: &str) {
        let key = OutboundKey::new(turn, OutboundSlot::Reply);
        turns.observe(&TerminalEvent::Delta("a".to_owned()), Some(&key));
    }

    #[test]
    fn turn_of_another_terminal_runs_until_its_end() {
        let mut turns = RunningTurns::default();
        assert!(!turns.is_any());
        delta(&mut turns, "theirs");
        assert!(turns.is_any());
        assert!(!turns.end(&"of a command".into()));
        assert!(turns.end(&"theirs".into()));
        delta(&mut turns, "theirs");
        assert!(!turns.is_any());
    }

    #[test]
    fn reply_ends_a_turn_whose_end_is_lost() {
        let mut turns = RunningTurns::default();
        delta(&mut turns, "theirs");
        let reply = TerminalEvent::Reply {
            text: "a".to_owned(),
            streamed: true,
            ok: true,
            job: None,
        };
        let key = OutboundKey::new("theirs", OutboundSlot::Reply);
        turns.observe(&reply, Some(&key));
        assert!(!turns.is_any());
    }

    #[test]
    fn answer_does_not_end_the_turn_that_asked() {
        let mut turns = RunningTurns::default();
        turns.sent("first".into());
        turns.asked();
        turns.sent("yes".into());
        assert!(!turns.end(&"yes".into()));
        assert!(turns.is_any());
        assert!(turns.end(&"first".into()));
        // A text that refuses and asks for something else may get a turn of its own.
        turns.sent("second".into());
        turns.asked();
        turns.sent("rather not".into());
        assert!(!turns.end(&"second".into()));
        assert!(turns.end(&"rather not".into()));
        assert!(!turns.is_any());
    }

    #[test]
    fn last_message_keeps_the_turn_running() {
        let mut turns = RunningTurns::default();
        turns.sent("first".into());
        delta(&mut turns, "first");
        turns.sent("second".into());
        assert!(!turns.end(&"first".into()));
        assert!(turns.is_any());
        assert!(turns.end(&"second".into()));
        assert!(!turns.is_any());
    }
}
