//! Extracts what the index needs from the lines of a file.

use std::path::Path;

use nanobot_session::{AUDIENCE, IndexedLine};
use nanobot_types::{SessionKey, Timestamp};
use serde::Deserialize;

use super::database::Corpus;

/// Format of a file's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineFormat {
    Markdown,
    /// `history.jsonl` of v0.3.
    Mirror,
    Session,
}

/// The parsed contents of a line.
#[derive(Debug, Default)]
pub(crate) struct ParsedLine {
    /// The searchable text; empty if there is none.
    pub(crate) text: String,
    pub(crate) role: String,
    pub(crate) at: Option<Timestamp>,
    pub(crate) is_message: bool,
    /// For a state line of a session: the session's key and its audience.
    pub(crate) state: Option<(Option<SessionKey>, Option<String>)>,
}

impl LineFormat {
    /// Returns the format of a file; `None` for one that is not indexed.
    pub(crate) fn of(family: Corpus, path: &Path) -> Option<Self> {
        match (family, path.file_name()?.to_str()?) {
            (Corpus::Sessions, _) => Some(Self::Session),
            (Corpus::Memory, "history.jsonl") => Some(Self::Mirror),
            (Corpus::Memory, name) => {
                (name.ends_with(".md") && !name.starts_with('.')).then_some(Self::Markdown)
            }
        }
    }

    /// Returns `true` if the file is append-only, line by line.
    pub(crate) fn grows(self, path: &Path) -> bool {
        self != Self::Markdown || path.file_name().is_some_and(|name| name == "HISTORY.md")
    }

    pub(crate) fn read(self, line: &[u8]) -> ParsedLine {
        match self {
            Self::Markdown => ParsedLine {
                text: String::from_utf8_lossy(line).trim().to_owned(),
                ..ParsedLine::default()
            },
            Self::Mirror => ParsedLine {
                text: mirrored(line),
                ..ParsedLine::default()
            },
            Self::Session => match IndexedLine::read(line) {
                IndexedLine::Nothing => ParsedLine::default(),
                IndexedLine::Message { role, text, at } => ParsedLine {
                    text,
                    role,
                    at,
                    is_message: true,
                    ..ParsedLine::default()
                },
                IndexedLine::State { key, metadata } => {
                    let audience = metadata
                        .get(AUDIENCE)
                        .and_then(|value| value.as_str())
                        .map(str::to_owned);
                    ParsedLine {
                        state: Some((key, audience)),
                        ..ParsedLine::default()
                    }
                }
            },
        }
    }
}

/// Returns the text of a Markdown heading.
pub(crate) fn heading(line: &str) -> Option<&str> {
    let text = line.strip_prefix('#')?.trim_start_matches('#');
    text.starts_with(' ').then(|| text.trim())
}

fn mirrored(line: &[u8]) -> String {
    #[derive(Deserialize)]
    struct IndexLine {
        content: String,
    }
    serde_json::from_slice(line)
        .map(|IndexLine { content }| content)
        .unwrap_or_default()
}
