//! What a turn tells while it runs. Decoration: losing any of it loses nothing.

use nanobot_types::StreamId;

/// A sign of work.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// A piece of visible text.
    Delta {
        /// The run of text it continues.
        stream: StreamId,
        /// The piece.
        text: String,
    },
    /// A run of text ended.
    StreamEnd {
        /// The run.
        stream: StreamId,
        /// Tools run now and another run follows.
        resuming: bool,
    },
    /// Visible text that the model wrote beside calls of tools.
    Thought {
        /// All of it.
        text: String,
        /// The run of text that showed it already.
        stream: Option<StreamId>,
    },
    /// Which tools run.
    ToolHint(String),
    /// A retry, a failover, a limit that is near.
    Notice(String),
}

/// Watches a turn. Called in order, from the turn's own task; must not block.
pub trait Observer: Send + Sync {
    /// Takes one signal.
    fn signal(&self, signal: Signal);
}

impl<F: Fn(Signal) + Send + Sync> Observer for F {
    fn signal(&self, signal: Signal) {
        self(signal);
    }
}
