//! The desired text of a draft, and the message that shows it.

use nanobot_channel::{Measure, Value};

/// The desired text.
#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) length: usize,
    pub(super) phase: Phase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// More may follow.
    #[default]
    Growing,
    /// The text is complete, and a reply takes the message over.
    Closed,
    /// The text is complete, and the message stays.
    Left,
    /// The message is to be deleted.
    Withdrawn,
    /// The message belongs to the reply.
    Claimed,
}

/// The shown message.
#[derive(Clone, Debug)]
pub(super) struct ShownDraft<M> {
    pub(super) message: Option<M>,
    pub(super) locator: Option<Value>,
    pub(super) is_over: bool,
}

impl Text {
    /// Adds text while it may grow. `false` if nothing changed.
    pub(super) fn add(&mut self, delta: &str, measure: Measure, limit: usize) -> bool {
        let accepts = self.phase == Phase::Growing && self.length <= limit;
        if accepts {
            self.text.push_str(delta);
            self.length += measure.of(delta);
        }
        accepts
    }
}
