//! Renders a conversation as the text to summarise.
//!
//! Decision: each message is one line, `[time] ROLE [tools: …]: text`. A long message is split into
//! pieces, so that it fits into consecutive requests however much a person pasted. Tool results are
//! truncated: the conversation after them contains what mattered, and the log has them whole.

use nanobot_session::{Entry, MessageEntry, SessionView};
use nanobot_tool::resolve_call;
use nanobot_types::{ChatMessage, Timestamp};

use super::state::{Chunk, Position};
use crate::engine::untrusted_origin;

/// Maximum number of characters of a piece.
const PIECE: usize = 2_000;
/// Maximum number of characters of a tool result.
const RESULT: usize = 1_500;

/// A piece of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TranscriptPiece {
    pub(super) text: String,
    /// `true` if strangers may have written the message.
    pub(super) untrusted: bool,
    /// Time of the message.
    pub(super) at: Timestamp,
    /// The position after it.
    pub(super) done: Position,
}

/// Returns the pieces of a chunk that are not summarised yet.
pub(super) fn pieces(view: &SessionView, chunk: &Chunk) -> Vec<TranscriptPiece> {
    let mut pieces = Vec::new();
    for record in view.effective_records() {
        let seq = record.seq.0;
        let Entry::Message(entry) = &record.entry else {
            continue;
        };
        if !(chunk.from..chunk.upto).contains(&seq) {
            continue;
        }
        let texts = split(&line(entry));
        let count = texts.len();
        for (index, text) in texts.into_iter().enumerate() {
            let is_last = index + 1 == count;
            let done = if is_last {
                Position {
                    seq: seq + 1,
                    piece: 0,
                }
            } else {
                Position {
                    seq,
                    piece: index + 1,
                }
            };
            if (Position { seq, piece: index }) >= chunk.done {
                pieces.push(TranscriptPiece {
                    text,
                    untrusted: untrusted_origin(entry).is_some(),
                    at: entry.at,
                    done,
                });
            }
        }
    }
    pieces
}

/// Renders a message as a line; empty if it has no text.
fn line(entry: &MessageEntry) -> String {
    let message = &entry.message;
    let mut text = message.text();
    if let ChatMessage::User(user) = &**message {
        for file in &user.media {
            if !text.contains(&file.location) {
                text.push_str(&format!(" [file: {}]", file.location));
            }
        }
    }
    let (role, tools) = match &**message {
        ChatMessage::System { .. } => return String::new(),
        ChatMessage::User(_) => ("USER", String::new()),
        ChatMessage::Assistant(assistant) => {
            let names: Vec<String> = assistant
                .tool_calls
                .iter()
                .map(|call| resolve_call(call).name.to_string())
                .collect();
            (
                "ASSISTANT",
                if names.is_empty() {
                    String::new()
                } else {
                    format!(" [tools: {}]", names.join(", "))
                },
            )
        }
        ChatMessage::Tool(result) => {
            text = shortened(&text);
            (
                "TOOL",
                result
                    .name
                    .as_ref()
                    .map(|name| format!(" [{name}]"))
                    .unwrap_or_default(),
            )
        }
    };
    if text.trim().is_empty() {
        return String::new();
    }
    format!(
        "[{}] {role}{tools}: {text}",
        entry.at.format("%Y-%m-%d %H:%M")
    )
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(RESULT) {
        Some((end, _)) => format!("{} […]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Splits a text into pieces; an empty text has none.
fn split(text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(PIECE)
            .map_or(rest.len(), |(end, _)| end);
        let (piece, behind) = rest.split_at(end);
        pieces.push(piece.to_owned());
        rest = behind;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use nanobot_session::{Record, Seq};
    use nanobot_types::{AssistantMessage, ToolCall};

    use super::*;

    fn view(messages: Vec<ChatMessage>) -> SessionView {
        let at = Timestamp::parse_from_rfc3339("2026-11-22T10:30:00+00:00").unwrap();
        let entry = |message| {
            Entry::Message(MessageEntry {
                at,
                ..MessageEntry::new(message)
            })
        };
        let records = messages.into_iter().enumerate();
        let records = records.map(|(seq, message)| Record {
            seq: Seq(seq as u64),
            entry: entry(message),
        });
        SessionView {
            records: records.collect(),
            ..SessionView::default()
        }
    }

    #[test]
    fn renders_one_line_per_message() {
        let call = ToolCall::new("1", "exec", "{}");
        let answer = AssistantMessage {
            content: Some("let me see".into()),
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        };
        let silent = AssistantMessage {
            tool_calls: vec![call.clone()],
            ..AssistantMessage::default()
        };
        let view = view(vec![
            ChatMessage::user("hello"),
            ChatMessage::Assistant(answer),
            ChatMessage::tool(&call, "x".repeat(3000)),
            ChatMessage::Assistant(silent),
            ChatMessage::user("later"),
        ]);
        let pieces = pieces(&view, &Chunk::new(Seq(0), Seq(4)));
        let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
        let result = format!("[2026-11-22 10:30] TOOL [exec]: {} […]", "x".repeat(1500));
        assert_eq!(
            texts,
            [
                "[2026-11-22 10:30] USER: hello",
                "[2026-11-22 10:30] ASSISTANT [tools: exec]: let me see",
                &result
            ]
        );
    }

    #[test]
    fn pieces_of_a_long_message_can_be_resumed() {
        let view = view(vec![
            ChatMessage::user("很".repeat(5_000)),
            ChatMessage::user("end"),
        ]);
        let mut chunk = Chunk::new(Seq(0), Seq(2));
        let all = pieces(&view, &chunk);
        let places: Vec<(u64, usize)> = all
            .iter()
            .map(|piece| (piece.done.seq, piece.done.piece))
            .collect();
        assert_eq!(places, [(0, 1), (0, 2), (1, 0), (2, 0)]);
        for piece in &all {
            chunk.done = piece.done;
            let rest = pieces(&view, &chunk);
            assert!(all.ends_with(&rest) && !rest.contains(piece));
        }
    }
}
