//! Events for observers. They are lossy: nothing may depend on seeing every event.

use serde::Serialize;

use crate::{ModelId, ProviderName, SessionKey, ToolName, TraceId, Usage};

/// Something that happened within a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A turn began.
    TurnStarted {
        /// The session.
        session: SessionKey,
        /// The turn.
        trace: TraceId,
    },
    /// A model answered.
    ModelCalled {
        /// The turn.
        trace: TraceId,
        /// The provider that answered.
        provider: Option<ProviderName>,
        /// The model that answered.
        model: Option<ModelId>,
        /// Tokens that the call used.
        usage: Option<Usage>,
    },
    /// A tool ran.
    ToolFinished {
        /// The turn.
        trace: TraceId,
        /// The tool.
        tool: ToolName,
        /// `true` if the tool did what was asked.
        success: bool,
        /// Run time, in milliseconds.
        elapsed_ms: u64,
    },
    /// A turn ended.
    TurnFinished {
        /// The session.
        session: SessionKey,
        /// The turn.
        trace: TraceId,
    },
    /// A message of a session is settled in the ledger, and its replies are in the ledger.
    MessageSettled {
        /// The session.
        session: SessionKey,
    },
}
