//! Formats a conversation for a terminal, as Markdown, and as the JSON lines it is stored in.
//! Undone messages are left out.

use nanobot_runtime::session::{Entry, MessageEntry, Seq, SessionInfo, SessionView, visible_text};
use nanobot_runtime::types::{ChatMessage, Map, Timestamp};
use serde_json::{Value, json};

use crate::failure::CommandFailure;
use crate::output::sanitize;

/// Maximum number of lines of a tool's result.
const RESULT_LINES: usize = 12;

/// Formats the conversation for a terminal, with the number of each message.
pub(super) fn as_text(view: &SessionView) -> String {
    let numbered = |(seq, entry): (Seq, &MessageEntry)| {
        sanitize(&format_message(entry, &format!("{}  ", seq.next()))) + "\n"
    };
    messages(view).into_iter().map(numbered).collect()
}

/// Formats the conversation as a Markdown document.
pub(super) fn as_markdown(info: &SessionInfo, view: &SessionView) -> String {
    let parts: String = messages(view)
        .into_iter()
        .map(|(_, entry)| format_message(entry, "## ") + "\n")
        .collect();
    format!("# {}\n\n{parts}", info.key)
}

/// Formats the conversation as in a session file: a metadata line, then one message per line.
///
/// # Errors
/// Returns an error if a message cannot be written as JSON, which cannot happen to a message that
/// was read.
pub(super) fn as_json_lines(
    info: &SessionInfo,
    view: &SessionView,
) -> Result<String, CommandFailure> {
    let time = |at: Option<&Timestamp>| at.map(timestamp);
    let messages = messages(view);
    let head = json!({
        "_type": "metadata",
        "key": info.key,
        "created_at": time(info.created_at.as_ref()),
        "updated_at": time(info.updated_at.as_ref()),
        "metadata": info.metadata,
        "last_consolidated": messages.iter().filter(|(seq, _)| *seq < view.cursor).count(),
    });
    let mut lines = head.to_string() + "\n";
    for (_, entry) in messages {
        lines.push_str(&json_line(entry).map_err(std::io::Error::from)?.to_string());
        lines.push('\n');
    }
    Ok(lines)
}

fn messages(view: &SessionView) -> Vec<(Seq, &MessageEntry)> {
    let standing = view.effective_records().into_iter();
    let messages = standing.filter_map(|record| match &record.entry {
        Entry::Message(entry) => Some((record.seq, entry)),
        _ => None,
    });
    messages.collect()
}

fn json_line(entry: &MessageEntry) -> serde_json::Result<Value> {
    let mut fields: Map = entry.extra.clone();
    if let Value::Object(message) = serde_json::to_value(&*entry.message)? {
        fields.extend(message);
    }
    if let ChatMessage::User(user) = &*entry.message
        && !user.media.is_empty()
    {
        fields.insert(
            "media".to_owned(),
            user.media
                .iter()
                .map(|media| media.location.as_str())
                .collect(),
        );
    }
    if let Some(runtime) = &entry.runtime {
        fields.insert("_runtime".to_owned(), Value::from(runtime.as_str()));
    }
    fields.insert("timestamp".to_owned(), Value::from(timestamp(&entry.at)));
    Ok(Value::Object(fields))
}

/// Formats a local time without an offset, as in session files.
fn timestamp(at: &Timestamp) -> String {
    at.with_timezone(&chrono::Local)
        .format("%Y-%m-%dT%H:%M:%S%.6f")
        .to_string()
}

fn format_message(entry: &MessageEntry, heading: &str) -> String {
    let message = &*entry.message;
    let who = match message {
        ChatMessage::System { .. } => "System".to_owned(),
        ChatMessage::User(_) => "You".to_owned(),
        ChatMessage::Assistant(_) => "nanobot".to_owned(),
        ChatMessage::Tool(tool) => {
            format!(
                "Tool {}",
                tool.name.as_ref().map_or("(unnamed)", |name| name.as_str())
            )
        }
    };
    let time = entry.at.format("%Y-%m-%d %H:%M:%S");
    let mut text = format!("{heading}{who}  {time}\n");
    let content = match message {
        ChatMessage::Tool(_) => truncate_lines(&visible_text(message)),
        ChatMessage::System { .. } | ChatMessage::User(_) | ChatMessage::Assistant(_) => {
            visible_text(message)
        }
    };
    if !content.trim().is_empty() {
        text.push_str(content.trim_end());
        text.push('\n');
    }
    if let ChatMessage::User(user) = message {
        text.extend(
            user.media
                .iter()
                .map(|media| format!("[file: {}]\n", media.location)),
        );
    }
    if let ChatMessage::Assistant(assistant) = message {
        text.extend(
            assistant
                .tool_calls
                .iter()
                .map(|call| format!("↳ {} {}\n", call.name, call.arguments)),
        );
    }
    text
}

fn truncate_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let format_message: Vec<&str> = lines.iter().take(RESULT_LINES).copied().collect();
    match lines.len().saturating_sub(RESULT_LINES) {
        0 => format_message.join("\n"),
        more => format!("{}\n… ({more} more lines)", format_message.join("\n")),
    }
}
