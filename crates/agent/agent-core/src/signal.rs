//! Live signals of a running turn. They are decoration: nothing breaks if any of them is lost.

use nanobot_types::{StreamId, TurnActivity};

/// A live signal of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// A piece of visible text.
    Delta {
        /// The text stream it belongs to.
        stream: StreamId,
        /// The piece.
        text: String,
    },
    /// A text stream ended.
    StreamEnd {
        /// The stream.
        stream: StreamId,
        /// `true` if tools run now and another stream follows.
        resuming: bool,
    },
    /// The text of a stream is void: the answer broke off, and another stream follows.
    Withdrawn {
        /// The stream.
        stream: StreamId,
    },
    /// Visible text that the model wrote together with tool calls.
    Thought {
        /// The whole text.
        text: String,
        /// The stream that already showed it.
        stream: Option<StreamId>,
    },
    /// A line that names the tools that are running.
    ToolHint(String),
    /// A step of the turn.
    Activity(TurnActivity),
    /// A retry, a failover, or a limit that is near.
    Notice(String),
}

/// Observes a turn. Called in order, from the turn's own task; must not block.
pub trait Observer: Send + Sync {
    /// Handles one signal.
    fn signal(&self, signal: Signal);
}

impl<F: Fn(Signal) + Send + Sync> Observer for F {
    fn signal(&self, signal: Signal) {
        self(signal);
    }
}
