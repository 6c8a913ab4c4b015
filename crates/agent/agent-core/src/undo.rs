//! Undoes the last exchange of a conversation, and restores it.
//!
//! Decision: an undo is a rewind, so nothing is removed from the log, and one line restores it. What
//! tools did outside of the conversation is not undone, so the report lists those tools. The id of
//! the message that asked for it is recorded in the same append: if that message is delivered
//! again, nothing more is undone.

use std::fmt;

use nanobot_redact::Secrets;
use nanobot_session::{
    Entry, LastExchange, ReadFrom, SessionError, SessionStore, SessionView, one_line,
    restore_rewound,
};
use nanobot_tool::{TOOL_SEARCH, resolve_call};
use nanobot_types::{Map, MessageId, SessionKey, ToolCall};
use serde_json::Value;

use crate::engine::tool_hint;

/// Metadata key of the last message that undid or restored an exchange.
const EDITED_BY: &str = "_edited_by";
/// Tools whose calls change nothing.
const READ_ONLY: [&str; 7] = [
    "list_dir",
    "memory_search",
    "read_file",
    "session_search",
    TOOL_SEARCH,
    "web_fetch",
    "web_search",
];
/// Maximum number of tool calls in a report.
const MAX_LISTED: usize = 6;
/// Maximum length of the message in a report, in characters.
const MAX_ASKED: usize = 80;

/// An exchange that was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoReport {
    /// The person's message, as one line.
    pub asked: String,
    /// The calls of tools that are not read-only. Their effects remain.
    pub effects: Vec<String>,
}

impl UndoReport {
    /// Describes an exchange. Secrets are redacted.
    #[must_use]
    pub fn of(exchange: &LastExchange, secrets: &Secrets) -> Self {
        let calls: Vec<&ToolCall> = exchange
            .calls()
            .filter(|call| !READ_ONLY.contains(&resolve_call(call).name.as_str()))
            .collect();
        let mut effects: Vec<String> = calls
            .iter()
            .take(MAX_LISTED)
            .map(|call| tool_hint(std::slice::from_ref(*call), secrets))
            .map(|hint| one_line(&hint, MAX_ASKED))
            .collect();
        if let more @ 1.. = calls.len().saturating_sub(MAX_LISTED) {
            effects.push(format!("and {more} more"));
        }
        Self {
            asked: one_line(&exchange.asked(), MAX_ASKED),
            effects,
        }
    }

    /// Returns a line that names the remaining effects, if there are any.
    #[must_use]
    pub fn remaining(&self) -> Option<String> {
        (!self.effects.is_empty())
            .then(|| format!("Not undone, what tools did: {}.", self.effects.join(", ")))
    }
}

impl fmt::Display for UndoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Undone: “{}” and what followed.", self.asked)?;
        match self.remaining() {
            Some(remaining) => write!(f, "\n{remaining}"),
            None => Ok(()),
        }
    }
}

/// Undoes the last exchange of a session and returns what it was; `None` if there is none, or it is
/// summarised. `by` is the message that asks for it. No turn may run in the session.
///
/// # Errors
/// Returns any error of the store; nothing is undone then.
pub async fn undo_last_exchange(
    store: &dyn SessionStore,
    session: &SessionKey,
    by: Option<&MessageId>,
    secrets: &Secrets,
) -> Result<Option<UndoReport>, SessionError> {
    let view = store.read(session, ReadFrom::Cursor).await?;
    if was_edited_by(&view, by) {
        let undone = before_the_last_rewind(view);
        return Ok(LastExchange::of(&undone).map(|exchange| UndoReport::of(&exchange, secrets)));
    }
    let Some(exchange) = LastExchange::of(&view) else {
        return Ok(None);
    };
    let rewound = Entry::Rewound { to: exchange.from };
    let entries = [rewound].into_iter().chain(note(by).map(Entry::Metadata));
    store.append(session, view.head, entries.collect()).await?;
    Ok(Some(UndoReport::of(&exchange, secrets)))
}

/// Restores what the last undo or rewind of a session undid. Returns `false` if there is nothing to
/// restore: a message followed it, or it is summarised by now. No turn may run in the session.
///
/// # Errors
/// Returns any error of the store; nothing is restored then.
pub async fn redo_last_exchange(
    store: &dyn SessionStore,
    session: &SessionKey,
    by: Option<&MessageId>,
) -> Result<bool, SessionError> {
    let view = store.read(session, ReadFrom::Cursor).await?;
    if was_edited_by(&view, by) {
        return Ok(true);
    }
    restore_rewound(store, session, note(by)).await
}

fn note(by: Option<&MessageId>) -> Option<Map> {
    by.map(|id| Map::from_iter([(EDITED_BY.to_owned(), Value::from(id.as_str()))]))
}

fn was_edited_by(view: &SessionView, by: Option<&MessageId>) -> bool {
    let editor = view.metadata.get(EDITED_BY).and_then(Value::as_str);
    by.is_some_and(|id| editor == Some(id.as_str()))
}

/// Returns the view without its last rewind and everything after that.
fn before_the_last_rewind(mut view: SessionView) -> SessionView {
    let is_rewind = |entry: &Entry| matches!(entry, Entry::Rewound { .. });
    let last = view
        .records
        .iter()
        .rposition(|record| is_rewind(&record.entry));
    view.records.truncate(last.unwrap_or(view.records.len()));
    view
}
