//! The components and settings of an agent, and the request and report of a turn.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_approvals::Approvals;
use nanobot_bus::EventFeed;
use nanobot_context::{ContextBuilder, PromptProfile};
use nanobot_provider::ProviderRouter;
use nanobot_redact::Secrets;
use nanobot_session::{MessageEntry, SessionStore, TurnOutcome};
use nanobot_tool::Registry;
use nanobot_types::{ModelId, StreamId, TraceId};
use tokio_util::sync::CancellationToken;

use crate::Observer;
use crate::consolidation::ConsolidationSettings;
use crate::engine::{Steering, TurnFacts, TurnOptions};

/// The components of an agent.
#[derive(Clone, Debug)]
pub struct AgentParts {
    /// Calls the models.
    pub router: Arc<ProviderRouter>,
    /// The tools.
    pub registry: Arc<Registry>,
    /// Stores the conversations.
    pub sessions: Arc<dyn SessionStore>,
    /// Builds the system prompt and renders messages.
    pub context: Arc<ContextBuilder>,
    /// Receives events for observers.
    pub events: EventFeed,
}

/// Settings of an agent.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// Options of its turns.
    pub options: TurnOptions,
    /// Maximum number of concurrent turns; 0 for no limit.
    pub max_concurrent_turns: usize,
    /// The model shown by `/status`.
    pub model: ModelId,
    /// Settings that keep conversations within the model's window.
    pub consolidation: ConsolidationSettings,
    /// The profile of prompts; `None` for the lean one in small windows only.
    pub prompt_profile: Option<PromptProfile>,
    /// Number of messages of earlier heartbeats that the next one still sees.
    pub heartbeat_keeps: usize,
    /// Folder for whole tool results that are too long for a prompt, where tools can read them.
    /// Without it the rest of such a result is lost.
    pub results_folder: Option<PathBuf>,
    /// Folder of the files that people sent; a turn that reads one has read text of strangers.
    pub media_folder: Option<PathBuf>,
    /// File that stores the calibration of token estimates across restarts.
    pub calibration_file: Option<PathBuf>,
    /// Secrets that are redacted in tool results and in what models write.
    pub secrets: Secrets,
    /// Asks people about calls that need their permission. Without it every call runs, except those
    /// that a tool itself wants to have confirmed.
    pub approvals: Option<Arc<Approvals>>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            options: TurnOptions::default(),
            max_concurrent_turns: 256,
            model: ModelId::from(""),
            consolidation: ConsolidationSettings::default(),
            prompt_profile: None,
            heartbeat_keeps: 8,
            results_folder: None,
            media_folder: None,
            calibration_file: None,
            secrets: Secrets::default(),
            approvals: None,
        }
    }
}

/// A turn to run.
pub struct TurnRequest<'a> {
    /// The facts about its message.
    pub facts: TurnFacts,
    /// The message that begins it. If the message has an inbound id, an interrupted turn is
    /// resumed, and a finished one is not run again.
    pub entry: MessageEntry,
    /// The id of the turn; the same after a restart.
    pub trace: TraceId,
    /// Receives the turn's signals.
    pub observer: Arc<dyn Observer>,
    /// Fires when a person stops the turn: it ends, and its steps are kept.
    pub cancel: CancellationToken,
    /// Fires when the program shuts down: the turn does not end and can be resumed later.
    pub interrupt: CancellationToken,
    /// Source of messages that people send while the turn runs.
    pub steering: &'a mut dyn Steering,
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReport {
    /// The turn.
    pub trace: TraceId,
    /// The outcome.
    pub ended: TurnOutcome,
    /// The text to show to the person; `None` if there is nothing to show.
    pub visible: Option<String>,
    /// The stream that showed the text while it was written.
    pub stream: Option<StreamId>,
}

impl std::fmt::Debug for TurnRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnRequest")
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}
