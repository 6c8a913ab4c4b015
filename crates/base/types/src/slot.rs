//! Slots of a turn's outbound messages, from which their idempotency keys are made.
//!
//! Decision: the slots are named here, and [`OutboundSlot::position`] is the only function that
//! yields their numbers. The numbers are part of the keys in ledgers, so they never change. Slots
//! may share a number if no turn uses two of them durably. A kind of notice of which one turn may
//! have several has a number of its own for each, made of what the notice is about: a second notice
//! under the key of the first would count as a repetition and not be sent.

/// First position of notices about problems of memory.
const MEMORY_PROBLEMS: u32 = 0xC000_0000;
/// First position of notices about finished summaries.
const FINISHED_SUMMARIES: u32 = 0xD000_0000;
/// First position of questions about calls.
const QUESTIONS: u32 = 0xE000_0000;
/// Number of positions of each of these.
const NUMBERED: u32 = 0x1000_0000;

/// Slot of an outbound message among the messages of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutboundSlot {
    /// The reply, the streams that precede it, and the only message of a turn that no person
    /// began.
    Reply,
    /// The message that a tool call sends, by the position of the call in its turn, from 1.
    Tool(u32),
    /// The confirmation that follows the reply to a command. A command calls no tools.
    Confirmation,
    /// A notice from the program itself.
    Notice(NoticeKind),
    /// The question whether a call may run, by the position of the call in its turn.
    Question(u32),
    /// The end of the turn, after everything that it can publish.
    TurnEnd,
}

/// Kind of a notice that has a slot of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    /// The turn is still at work. Lossy.
    Working,
    /// The question about messages that wait to be summarised. One turn asks it once.
    Backlog,
    /// Memory could not be written or summarised, at this message of the session.
    MemoryProblem(u32),
    /// Messages of the session before this one were summarised with consent.
    Summarised(u32),
    /// The message waits because its lane is full. Lossy.
    Waiting,
    /// The message is long, and is kept whole in a file.
    Kept,
    /// The turn could not be recorded, and its message is kept.
    Unrecorded,
    /// A channel is down, for the configured chat of this index.
    OutageBegan(u32),
    /// A channel works again, for the configured chat of this index.
    OutageEnded(u32),
}

impl OutboundSlot {
    /// Returns the position of the slot in [`OutboundKey`](crate::OutboundKey).
    #[must_use]
    pub const fn position(self) -> u32 {
        match self {
            Self::Reply => 0,
            Self::Tool(call) => call,
            Self::Confirmation => 1,
            Self::Notice(NoticeKind::OutageBegan(chat)) => chat.saturating_mul(2),
            Self::Notice(NoticeKind::OutageEnded(chat)) => chat.saturating_mul(2).saturating_add(1),
            Self::Notice(NoticeKind::Working) => u32::MAX / 2,
            Self::Notice(NoticeKind::Backlog) => u32::MAX - 1,
            Self::Notice(NoticeKind::MemoryProblem(message)) => {
                MEMORY_PROBLEMS + message % NUMBERED
            }
            Self::Notice(NoticeKind::Summarised(message)) => {
                FINISHED_SUMMARIES + message % NUMBERED
            }
            Self::Question(call) => QUESTIONS + call % NUMBERED,
            Self::Notice(NoticeKind::Kept) => u32::MAX - 2,
            Self::Notice(NoticeKind::Waiting | NoticeKind::Unrecorded) | Self::TurnEnd => u32::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_in_ledgers_never_change() {
        use NoticeKind as Kind;
        let positions = [
            (OutboundSlot::Reply, 0),
            (OutboundSlot::Tool(1), 1),
            (OutboundSlot::Tool(7), 7),
            (OutboundSlot::Confirmation, 1),
            (OutboundSlot::Notice(Kind::OutageBegan(0)), 0),
            (OutboundSlot::Notice(Kind::OutageEnded(0)), 1),
            (OutboundSlot::Notice(Kind::OutageBegan(3)), 6),
            (OutboundSlot::Notice(Kind::OutageEnded(3)), 7),
            (OutboundSlot::Notice(Kind::Working), 2_147_483_647),
            (OutboundSlot::Notice(Kind::Backlog), 4_294_967_294),
            (OutboundSlot::Notice(Kind::MemoryProblem(0)), 3_221_225_472),
            (OutboundSlot::Notice(Kind::MemoryProblem(7)), 3_221_225_479),
            (OutboundSlot::Notice(Kind::Summarised(0)), 3_489_660_928),
            (OutboundSlot::Notice(Kind::Summarised(7)), 3_489_660_935),
            (OutboundSlot::Question(0), 3_758_096_384),
            (OutboundSlot::Question(7), 3_758_096_391),
            (OutboundSlot::Notice(Kind::Kept), 4_294_967_293),
            (OutboundSlot::Notice(Kind::Waiting), 4_294_967_295),
            (OutboundSlot::Notice(Kind::Unrecorded), 4_294_967_295),
            (OutboundSlot::TurnEnd, 4_294_967_295),
        ];
        for (slot, position) in positions {
            assert_eq!(slot.position(), position, "{slot:?}");
        }
    }
}
