//! The prompt of a session for one turn, and the reason if it was rebuilt.

use std::sync::Arc;
use std::time::Duration;

use nanobot_memory::Audience;
use serde::{Deserialize, Serialize};

use crate::{Difference, PromptProfile, SystemPrompt};

/// Facts about a session that decide whether its prompt is still valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts<'a> {
    /// Sequence number at which the conversation starts. A reset and a compaction move it, which
    /// renews the prompt. `None` accepts the current prompt whatever its cursor.
    pub cursor: Option<u64>,
    /// Time since the last activity in the session's log.
    pub silent: Duration,
    /// Summary of the earlier conversation, if that is no longer sent. Used only when the prompt is
    /// built.
    pub summary: Option<&'a str>,
    /// Audience of the session; a prompt that was built for another audience is not used. `None`
    /// accepts the current prompt, and builds a new one from shared memory only.
    pub audience: Option<&'a Audience>,
    /// Profile of the prompt. Used only when the prompt is built.
    pub profile: PromptProfile,
}

/// The prompt of a session for one turn.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// The prompt.
    pub prompt: Arc<SystemPrompt>,
    /// Set when the prompt was built for this turn.
    pub renewed: Option<Renewed>,
}

/// Record of a rebuilt prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Reason for the rebuild.
    pub why: Renewal,
    /// First difference from the previous prompt; `None` if they are equal or the previous one is
    /// unknown.
    pub difference: Option<Difference>,
}

/// Reason for rebuilding a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// No prompt of this session is known.
    Unknown,
    /// The session was silent so long that the providers' caches of the old prompt have expired.
    Cold,
    /// The conversation starts at another position.
    Moved,
    /// A caller asked for a new prompt.
    Asked,
    /// The audience of the session has changed.
    Audience,
    /// The old prompt was built for other settings.
    Settings,
}
