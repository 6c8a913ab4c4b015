//! The content of a message by its type.

use nanobot_channel::{Value, json};
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::message_file;
use crate::card_text::card_text;
use crate::mention::Mentions;
use crate::post::{post_pieces, post_text};

/// Longest name or id in a marker, in characters.
const NAME_LIMIT: usize = 100;

/// Parses the content of a message: JSON in a text.
pub(crate) fn parse_content(content: &str) -> Value {
    json::from_str(content).unwrap_or_default()
}

/// Returns the pieces of a message of type `kind`.
pub(crate) fn pieces(
    kind: &str,
    content: &Value,
    message: &str,
    mentions: Mentions<'_>,
) -> Vec<Piece> {
    if let Some(file) = message_file(kind, content, message) {
        return vec![Piece::File(file)];
    }
    match kind {
        "post" => post_pieces(content, message, mentions),
        _ => vec![Piece::Text(text_of(kind, content, mentions))],
    }
}

/// Returns the text of a message of type `kind`, with markers in place of files.
pub(crate) fn text_of(kind: &str, content: &Value, mentions: Mentions<'_>) -> String {
    let given = |key: &str| content.get(key).and_then(Value::as_str).unwrap_or_default();
    let named = |what: &str, name: &str| match name.trim() {
        "" => format!("[{what}]"),
        name => {
            let name = name.replace(char::is_control, " ");
            let name: String = name.chars().take(NAME_LIMIT).collect();
            format!("[{what}: {name}]")
        }
    };
    match kind {
        "text" => mentions.resolve(given("text")),
        "post" => post_text(content, mentions),
        // Written by a program, or passed on: it is no command of the sender.
        "interactive" => match card_text(content) {
            text if text.is_empty() => "[card]".to_owned(),
            text => attribute_text("card", "", &text),
        },
        "file" | "media" => named(kind, given("file_name")),
        "share_chat" => named("shared chat", given("chat_id")),
        "share_user" => named("shared user", given("user_id")),
        "share_calendar_event" => named("shared calendar event", given("summary")),
        "calendar" => named("calendar event", given("summary")),
        "general_calendar" => named("shared calendar", given("summary")),
        "location" => named("location", given("name")),
        "vote" => named("vote", given("topic")),
        "todo" => match todo_title(content).trim() {
            "" => "[task]".to_owned(),
            title => attribute_text("task", "", title),
        },
        "video_chat" => named("video meeting", given("topic")),
        "system" => named("system message", given("template")),
        "merge_forward" => "[forwarded messages]".to_owned(),
        "sticker" => "[sticker]".to_owned(),
        kind => named(kind, ""),
    }
}

fn todo_title(content: &Value) -> String {
    let title = content
        .get("summary")
        .and_then(|summary| summary.get("content"));
    let paragraphs = title.and_then(Value::as_array).into_iter().flatten();
    let elements = paragraphs.filter_map(Value::as_array).flatten();
    let texts = elements.filter_map(|element| element.get("text").and_then(Value::as_str));
    texts.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_type_has_a_text() {
        let table = [
            ("text", json!({"text": "hello"}), "hello"),
            ("text", json!({"text": 5}), ""),
            (
                "post",
                json!({"title": "T", "content": [[{"tag": "img", "image_key": "i"}]]}),
                "T\n[image]",
            ),
            (
                "interactive",
                json!({"header": {"title": {"content": "/new"}}}),
                "[card: /new]",
            ),
            ("interactive", json!({}), "[card]"),
            (
                "share_chat",
                json!({"chat_id": "oc_1"}),
                "[shared chat: oc_1]",
            ),
            (
                "share_user",
                json!({"user_id": "ou_1"}),
                "[shared user: ou_1]",
            ),
            (
                "share_calendar_event",
                json!({"summary": "Lunch\n/new"}),
                "[shared calendar event: Lunch /new]",
            ),
            (
                "system",
                json!({"template": "{from_user} invited"}),
                "[system message: {from_user} invited]",
            ),
            (
                "merge_forward",
                json!({"content": "Merged"}),
                "[forwarded messages]",
            ),
            ("sticker", json!({"file_key": "k"}), "[sticker]"),
            (
                "todo",
                json!({"summary": {"content": [[{"tag": "text", "text": "Buy milk"}]]}}),
                "[task: Buy milk]",
            ),
            ("image", json!({}), "[image]"),
            ("of_tomorrow", json!(null), "[of_tomorrow]"),
        ];
        for (kind, content, text) in table {
            let mentions = Mentions {
                list: &[],
                bot: "ou_bot",
            };
            assert_eq!(text_of(kind, &content, mentions), text, "{kind} {content}");
        }
    }

    #[test]
    fn unreadable_content_is_empty() {
        for content in ["", "{", "[[[[", "text"] {
            assert_eq!(parse_content(content), Value::Null, "{content}");
        }
    }
}
