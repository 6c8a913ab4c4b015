//! The contract of a search over what was said, and what it has to know of session files.
//!
//! Decision: where a search may look is an argument of every search, so that an answer cannot
//! hold what its asker must not hear. The index itself is somebody else's; here is how a file of a
//! session reads to it, line by line, so that only this crate knows the format.

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use nanobot_types::{ChatMessage, Map, SessionKey, Timestamp};

use crate::line::{self, Line};
use crate::paths::key_of_file;
use crate::{Seq, SessionPaths, visible_text};

/// The key of a session's metadata under which is kept who hears it.
pub const AUDIENCE: &str = "_audience";

/// Where a search may look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionReach {
    /// Everywhere.
    All,
    /// In one session, and in those of the same audience where that is a single person: the
    /// value that these have under [`AUDIENCE`].
    Of {
        /// The session.
        session: SessionKey,
        /// The audience, if it is a single person.
        audience: Option<String>,
    },
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionHit {
    /// The session.
    pub session: SessionKey,
    /// Its position there.
    pub seq: Seq,
    /// Who said it, as the file calls them.
    pub role: String,
    /// When, where the file says so.
    pub at: Option<Timestamp>,
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: u32,
    /// The text around it.
    pub excerpt: String,
    /// Higher is better; comparable within one search only.
    pub score: f64,
}

/// The search is not to be had.
#[derive(Debug, thiserror::Error)]
#[error("conversations cannot be searched")]
pub struct SessionSearchError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Search over what was said.
#[async_trait]
pub trait SessionSearch: Send + Sync + std::fmt::Debug {
    /// The best `limit` places for `query` within `reach`, the best first.
    ///
    /// # Errors
    /// When there is no search.
    async fn search(
        &self,
        reach: &SessionReach,
        query: &str,
        limit: usize,
    ) -> Result<Vec<SessionHit>, SessionSearchError>;
}

/// A line of a session file, as a search sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchedLine {
    /// A message.
    Message {
        /// Who said it.
        role: String,
        /// What people see of it: nothing for what tools answered.
        text: String,
        /// When, where the line says so.
        at: Option<Timestamp>,
    },
    /// The state of the session.
    State {
        /// The session's key.
        key: Option<SessionKey>,
        /// Its metadata.
        metadata: Map,
    },
    /// Nothing to be found.
    Nothing,
}

impl SearchedLine {
    /// Reads a line, with its newline or without; never fails.
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
    /// The folders that exist or may exist, in the order in which a session is looked for.
    #[must_use]
    pub fn searched(&self) -> Vec<PathBuf> {
        self.folders().map(Path::to_owned).collect()
    }
}

/// The session files in a folder, which need not exist.
///
/// # Errors
/// When it cannot be listed.
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

/// The session of a file, by its name and what its metadata says.
#[must_use]
pub fn session_of(path: &Path, inside: Option<&SessionKey>) -> Option<SessionKey> {
    key_of_file(path, inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_see_is_what_is_searched() {
        let message = |role: &str, text: &str| SearchedLine::Message {
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
            (r#"{"_type":"provider_state"}"#, SearchedLine::Nothing),
            ("{\"role\":", SearchedLine::Nothing),
            ("", SearchedLine::Nothing),
        ] {
            assert_eq!(SearchedLine::read(line.as_bytes()), expected, "{line}");
        }
        let state = SearchedLine::read(br#"{"_type":"metadata","key":"a:1","metadata":{"x":1}}"#);
        let SearchedLine::State { key, metadata } = state else {
            panic!("{state:?}")
        };
        assert_eq!((key, metadata.len()), (Some("a:1".into()), 1));
    }
}
