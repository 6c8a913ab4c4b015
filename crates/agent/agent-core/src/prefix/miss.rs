//! A request that did not begin with the previous one.

use std::fmt;

use nanobot_context::{PromptRecord, PromptStore};
use nanobot_types::{SessionKey, Timestamp};
use serde::{Deserialize, Serialize};

use super::watch::SavedPrefixState;

/// The event that broke the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissEvent {
    /// Old messages were summarised, left out or shortened.
    Compaction,
    /// A new conversation was begun.
    Reset,
    /// Messages were undone.
    Rewound,
    /// A tool was added, removed or changed.
    ToolsChanged,
    /// The session was idle for so long that its prompt was rebuilt.
    ColdEpoch,
    /// The prompt was rebuilt on request.
    Renewed,
    /// Another provider or model answered.
    ProviderSwitch,
    /// An image no longer exists, or the model does not support images.
    ImagesDropped,
    /// The prompt was rebuilt for other settings.
    ConfigChanged,
    /// The state of the session that an earlier process saved is lost.
    LostState,
    /// No known event explains it; this is a bug.
    Unexplained,
}

impl fmt::Display for MissEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compaction => "the conversation was shortened",
            Self::Reset => "a new conversation was begun",
            Self::Rewound => "messages were undone",
            Self::ToolsChanged => "tools changed",
            Self::ColdEpoch => "the prompt was renewed after a long silence",
            Self::Renewed => "the prompt was renewed on request",
            Self::ProviderSwitch => "another provider or model answered",
            Self::ImagesDropped => "an image is no longer sent",
            Self::ConfigChanged => "the settings changed",
            Self::LostState => "the state of the session was lost",
            Self::Unexplained => "nothing explains it, please report it",
        })
    }
}

/// The place and cause of a request's divergence from the previous one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Miss {
    /// The cause.
    pub event: MissEvent,
    /// The part of the newer request in which they diverge: a section of the system prompt, `tool
    /// <name>`, `message <number>`, or `provider`.
    pub section: String,
    /// Offset of the divergence in bytes: exact within the system prompt, otherwise the beginning
    /// of the part.
    pub byte: u64,
    /// Time of the request.
    pub at: Timestamp,
}

impl fmt::Display for Miss {
    /// Formats a miss as `memory at byte 8412 (2026-11-22 03:04): the prompt was renewed after a
    /// long silence`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            event,
            section,
            byte,
            at,
        } = self;
        write!(
            f,
            "{section} at byte {byte} ({}): {event}",
            at.format("%Y-%m-%d %H:%M")
        )
    }
}

/// Returns the last miss of a session that any process recorded.
pub async fn last_miss(notes: &dyn PromptStore, session: &SessionKey) -> Option<Miss> {
    SavedPrefixState::read(session, &notes.load(session, PromptRecord::Prefix).await?)?.miss
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn miss_renders_as_a_line_and_round_trips_as_json() {
        let at = Timestamp::parse_from_rfc3339("2026-11-22T03:04:05+01:00").unwrap();
        let miss = Miss {
            event: MissEvent::ColdEpoch,
            section: "memory".to_owned(),
            byte: 8412,
            at,
        };
        assert_eq!(
            miss.to_string(),
            "memory at byte 8412 (2026-11-22 03:04): the prompt was renewed after a long silence"
        );
        let json = serde_json::to_string(&miss).unwrap();
        assert_eq!(
            json,
            r#"{"event":"cold_epoch","section":"memory","byte":8412,"at":"2026-11-22T03:04:05+01:00"}"#
        );
        assert_eq!(serde_json::from_str::<Miss>(&json).unwrap(), miss);
    }
}
