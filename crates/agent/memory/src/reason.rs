//! Reasons for changes of memory, as shown in a review of its versions.

use std::fmt;

use nanobot_types::{SessionKey, TraceId};
use serde::{Deserialize, Serialize};

/// Reason for a change of memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// A conversation was summarised.
    Consolidation {
        /// The conversation.
        session: SessionKey,
    },
    /// Written by a tool of a turn, or by another program while the turn ran.
    Turn {
        /// The conversation.
        session: SessionKey,
        /// The turn.
        turn: TraceId,
    },
    /// A person restored an earlier version.
    Restored {
        /// The number of that version.
        version: u64,
    },
    /// Day notes were merged into the file of their month.
    RolledUp,
    /// The retention period of day notes ended.
    Expired,
    /// The change was found: made by hand, by another program, or by a write that a crash
    /// interrupted.
    Found,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Consolidation { session } => write!(f, "summary of {session}"),
            Self::Turn { session, turn } => write!(f, "written in a turn of {session} ({turn})"),
            Self::Restored { version } => write!(f, "version {version} brought back"),
            Self::RolledUp => f.write_str("day notes merged into their month"),
            Self::Expired => f.write_str("expired day notes"),
            Self::Found => f.write_str("found changed by hand or by another program"),
        }
    }
}
