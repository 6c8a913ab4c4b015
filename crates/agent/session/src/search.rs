//! The contract of a search over conversations, and how session files are indexed.
//!
//! Decision: every search takes its reach as an argument, so that a result cannot contain anything
//! that the asker must not see. The index is implemented elsewhere; this module reads a session
//! file for it line by line, so that only this crate knows the format.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nanobot_types::{ChatMessage, Map, SessionKey, Timestamp};

use crate::line::{self, Line};
use crate::paths::key_of_file;
use crate::{Seq, SessionPaths, visible_text};

/// Reach of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReach {
    /// All sessions.
    All,
    /// One session, and the sessions with the same audience if that is a single person.
    Of {
        /// The session.
        session: SessionKey,
        /// The value under [`AUDIENCE`](crate::AUDIENCE), if the audience is a single person.
        audience: Option<String>,
    },
}

/// A message that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHit {
    /// The session.
    pub session: SessionKey,
    /// Position of the message in the session.
    pub seq: Seq,
    /// Role of the author, as in the file.
    pub role: String,
    /// Time of the message, if the file has it.
    pub at: Option<Timestamp>,
    /// The file.
    pub path: PathBuf,
    /// Line number in the file, from 1.
    pub line: u32,
    /// The text around the match.
    pub excerpt: String,
    /// Higher is better; comparable within one search only.
    pub score: f64,
}

/// Error if the search is not available.
#[derive(Debug, thiserror::Error)]
#[error("conversations cannot be searched")]
pub struct SessionSearchError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Search over conversations.
#[async_trait]
pub trait SessionSearch: Send + Sync + std::fmt::Debug {
    /// Returns the best `limit` matches for `query` within `reach`, the best first.
    ///
    /// # Errors
    /// Returns an error if the search is not available.
    async fn search(
        &self,
        reach: &SessionReach,
        query: &str,
        limit: usize,
    ) -> Result<Vec<SessionHit>, SessionSearchError>;
}

/// A line of a session file, as a search index needs it.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexedLine {
    /// A message.
    Message {
        /// Role of the author.
        role: String,
        /// The text that users see; empty for tool results.
        text: String,
        /// Time of the message, if the line has it.
        at: Option<Timestamp>,
    },
    /// The state of the session.
    State {
        /// The session's key.
        key: Option<SessionKey>,
        /// Its metadata.
        metadata: Map,
    },
    /// A line without searchable content.
    Nothing,
}

impl IndexedLine {
    /// Parses a line, with or without its newline. Never fails.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        match line::parse(bytes).line {
            Line::Blank | Line::Foreign | Line::Bad => Self::Nothing,
            Line::State(state) => Self::State {
                key: state.key,
                metadata: state.state.metadata,
            },
            Line::Message(fields) => {
                let role = fields
                    .get("role")
                    .and_then(serde_json::Value::as_str)
                    .unwrap_or_default()
                    .to_owned();
                let entry = line::message_entry(fields);
                let text = match &*entry.message {
                    ChatMessage::User(_) | ChatMessage::Assistant(_) => {
                        visible_text(&entry.message)
                    }
                    ChatMessage::Tool(_) | ChatMessage::System { .. } => String::new(),
                };
                Self::Message {
                    role,
                    text,
                    at: (entry.at != Timestamp::default()).then_some(entry.at),
                }
            }
        }
    }
}

impl SessionPaths {
    /// Returns the session folders in lookup order. They need not exist.
    #[must_use]
    pub fn searched(&self) -> Vec<PathBuf> {
        self.folders().map(Path::to_owned).collect()
    }
}

/// Returns the session files in a folder, which need not exist.
///
/// # Errors
/// Returns an error if the folder cannot be listed.
pub fn session_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    Ok(paths
        .filter(|path| key_of_file(path, None).is_some())
        .collect())
}

/// Returns the session of a file, by its name and the key in its metadata.
#[must_use]
pub fn session_of(path: &Path, inside: Option<&SessionKey>) -> Option<SessionKey> {
    key_of_file(path, inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_only_visible_text() {
        let message = |role: &str, text: &str| IndexedLine::Message {
            role: role.into(),
            text: text.into(),
            at: None,
        };
        for (line, expected) in [
            (
                "{\"role\":\"user\",\"content\":\"茶\",\"_runtime\":\"[Runtime Context]\"}\n",
                message("user", "茶"),
            ),
            (
                r#"{"role":"assistant","content":null,"tool_calls":[]}"#,
                message("assistant", ""),
            ),
            (
                r#"{"role":"tool","content":"a long listing"}"#,
                message("tool", ""),
            ),
            (
                r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}"#,
                message("user", "a\nb"),
            ),
            (r#"{"_type":"provider_state"}"#, IndexedLine::Nothing),
            ("{\"role\":", IndexedLine::Nothing),
            ("", IndexedLine::Nothing),
        ] {
            assert_eq!(IndexedLine::read(line.as_bytes()), expected, "{line}");
        }
        let state = IndexedLine::read(br#"{"_type":"metadata","key":"a:1","metadata":{"x":1}}"#);
        let IndexedLine::State { key, metadata } = state else {
            panic!("{state:?}")
        };
        assert_eq!((key, metadata.len()), (Some("a:1".into()), 1));
    }
}
