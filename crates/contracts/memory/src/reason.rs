//! Why memory was changed: what a review of its versions begins with.

use std::fmt;

use nanobot_types::{SessionKey, TraceId};
use serde::{Deserialize, Serialize};

/// Who or what changed memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// A conversation was summarised.
    Consolidation {
        /// The conversation.
        session: SessionKey,
    },
    /// A tool of a turn wrote it, or somebody else while that turn ran.
    Turn {
        /// The conversation.
        session: SessionKey,
        /// The turn.
        turn: TraceId,
    },
    /// A person brought an earlier version back.
    Restored {
        /// The number of that version.
        version: u64,
    },
    /// Day notes were merged into the file of their month.
    RolledUp,
    /// Day notes were kept as long as the settings say.
    Expired,
    /// It was found changed: by hand, by another program, or by a change that a crash cut short.
    Found,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consolidation { session } => write!(f, "summary of {session}"),
            Self::Turn { session, turn } => write!(f, "written in a turn of {session} ({turn})"),
            Self::Restored { version } => write!(f, "version {version} brought back"),
            Self::RolledUp => f.write_str("day notes merged into their month"),
            Self::Expired => f.write_str("day notes that were kept long enough"),
            Self::Found => f.write_str("found changed by hand or by another program"),
        }
    }
}
