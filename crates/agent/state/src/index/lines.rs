//! What a line of a file says to the index.

use std::path::Path;

use nanobot_session::{AUDIENCE, SearchedLine};
use nanobot_types::{SessionKey, Timestamp};
use serde::Deserialize;

use super::database::Family;

/// How the lines of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Markdown,
    /// `history.jsonl` of v0.3.
    Mirror,
    Session,
}

/// A line.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// What can be found; empty when nothing can.
    pub(crate) text: String,
    pub(crate) role: String,
    pub(crate) at: Option<Timestamp>,
    pub(crate) is_message: bool,
    /// What a line of state says of the session: its key, and who hears it.
    pub(crate) state: Option<(Option<SessionKey>, Option<String>)>,
}

impl Form {
    /// The form of a file; `None` for one that is not indexed.
    pub(crate) fn of(family: Family, path: &Path) -> Option<Self> {
        match (family, path.file_name()?.to_str()?) {
            (Family::Sessions, _) => Some(Self::Session),
            (Family::Memory, "history.jsonl") => Some(Self::Mirror),
            (Family::Memory, name) => {
                (name.ends_with(".md") && !name.starts_with('.')).then_some(Self::Markdown)
            }
        }
    }

    /// Whether the file is only ever appended to, line by line.
    pub(crate) fn grows(self, path: &Path) -> bool {
        self != Self::Markdown || path.file_name().is_some_and(|name| name == "HISTORY.md")
    }

    pub(crate) fn read(self, line: &[u8]) -> Read {
        match self {
            Self::Markdown => Read {
                text: String::from_utf8_lossy(line).trim().to_owned(),
                ..Read::default()
            },
            Self::Mirror => Read {
                text: mirrored(line),
                ..Read::default()
            },
            Self::Session => match SearchedLine::read(line) {
                SearchedLine::Nothing => Read::default(),
                SearchedLine::Message { role, text, at } => Read {
                    text,
                    role,
                    at,
                    is_message: true,
                    ..Read::default()
                },
                SearchedLine::State { key, metadata } => {
                    let audience = metadata
                        .get(AUDIENCE)
                        .and_then(|value| value.as_str())
                        .map(str::to_owned);
                    Read {
                        state: Some((key, audience)),
                        ..Read::default()
                    }
                }
            },
        }
    }
}

/// The text of a Markdown heading.
pub(crate) fn heading(line: &str) -> Option<&str> {
    let text = line.strip_prefix('#')?.trim_start_matches('#');
    text.starts_with(' ').then(|| text.trim())
}

fn mirrored(line: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Line {
        content: String,
    }
    serde_json::from_slice(line)
        .map(|Line { content }| content)
        .unwrap_or_default()
}
