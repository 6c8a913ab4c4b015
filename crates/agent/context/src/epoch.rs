//! Which prompt a session has now, and why it is another one than before.

use std::sync::Arc;
use std::time::Duration;

use nanobot_memory::Audience;
use serde::{Deserialize, Serialize};

use crate::{Difference, SystemPrompt};

/// What is known of a session when its prompt is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts<'a> {
    /// Where its conversation begins: a reset and a compaction move it, and renew the prompt with
    /// it. `None` takes the prompt as it stands.
    pub cursor: Option<u64>,
    /// How long it was silent, as its log tells.
    pub silent: Duration,
    /// What its earlier conversation was about, where that is no longer sent. Read when the prompt
    /// is built.
    pub summary: Option<&'a str>,
    /// Who hears it: a prompt that was built for others is not used. `None` takes the prompt as it
    /// stands, and builds one of what is everybody's.
    pub audience: Option<&'a Audience>,
}

/// The prompt of a session for one turn.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// The prompt.
    pub prompt: Arc<SystemPrompt>,
    /// Set when it was built for this turn.
    pub renewed: Option<Renewed>,
}

/// A prompt that was built anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    /// Why.
    pub why: Renewal,
    /// Where it parts from the one before it; `None` when it is the same or nothing is known of
    /// that one.
    pub difference: Option<Difference>,
}

/// Why a prompt was built anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// No prompt of this session is known.
    Unknown,
    /// The session was silent so long that vendors have forgotten the old one.
    Cold,
    /// The conversation begins elsewhere.
    Moved,
    /// Somebody asked for it.
    Asked,
    /// Others hear the session than before.
    Audience,
    /// The old one was built for other settings.
    Settings,
}
