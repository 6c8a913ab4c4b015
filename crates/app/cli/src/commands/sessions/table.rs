//! Tables of conversations.

use nanobot_runtime::ConversationSummary;
use nanobot_runtime::session::DeletedSession;
use nanobot_runtime::types::Timestamp;

use crate::output;

/// Formats a list of conversations, which may be the result of a search.
pub(super) fn table(sessions: &[ConversationSummary], search: Option<&str>) -> String {
    if sessions.is_empty() {
        return match search {
            Some(search) => format!("No conversation has “{}”.\n", output::sanitize(search)),
            None => "No conversations yet. Begin one: nanobot agent\n".to_owned(),
        };
    }
    let keys: Vec<String> = sessions
        .iter()
        .map(|session| output::sanitize(session.key.as_str()))
        .collect();
    let width = width(&keys);
    let lines = sessions.iter().zip(&keys).map(|(session, key)| {
        let line = format!(
            "{key:width$}  {}  {:>6} messages  {}",
            time(session.updated_at.as_ref()),
            session.messages,
            output::sanitize(&session.title)
        );
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// Formats a list of deleted conversations.
pub(super) fn deleted_table(sessions: &[DeletedSession]) -> String {
    if sessions.is_empty() {
        return "No deleted conversations.\n".to_owned();
    }
    let keys: Vec<String> = sessions
        .iter()
        .map(|session| output::sanitize(session.key.as_str()))
        .collect();
    let width = width(&keys);
    let lines = sessions.iter().zip(&keys);
    lines
        .map(|(session, key)| format!("{key:width$}  deleted {}\n", time(Some(&session.at))))
        .collect()
}

fn width(keys: &[String]) -> usize {
    let widths = keys.iter().map(|key| key.chars().count());
    widths.max().unwrap_or_default()
}

fn time(at: Option<&Timestamp>) -> String {
    at.map_or_else(
        || " ".repeat(16),
        |at| at.format("%Y-%m-%d %H:%M").to_string(),
    )
}
