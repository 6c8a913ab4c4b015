//! What observers are told. Lossy: nobody may depend on seeing every event.

use serde::Serialize;

use crate::{ModelId, ProviderName, SessionKey, ToolName, TraceId, Usage};

/// Something that happened inside a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A turn began.
    TurnStarted {
        /// Its session.
        session: SessionKey,
        /// The turn.
        trace: TraceId,
    },
    /// A model answered.
    ModelCalled {
        /// The turn.
        trace: TraceId,
        /// Who answered.
        provider: Option<ProviderName>,
        /// With which model.
        model: Option<ModelId>,
        /// What it cost.
        usage: Option<Usage>,
    },
    /// A tool ran.
    ToolFinished {
        /// The turn.
        trace: TraceId,
        /// The tool.
        tool: ToolName,
        /// Whether it did what was asked.
        success: bool,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
    /// A turn ended.
    TurnFinished {
        /// Its session.
        session: SessionKey,
        /// The turn.
        trace: TraceId,
    },
    /// A message of a session is dealt with: what was said is in the ledger, and it is settled there.
    MessageSettled {
        /// The session.
        session: SessionKey,
    },
}
