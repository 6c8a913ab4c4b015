//! The message that is quoted. DingTalk includes it in the one that quotes it.
//!
//! Cards are trees of elements, and their texts are in nodes of the type `TEXT`. They are collected
//! within bounds of depth and number.

use nanobot_channel::Value;
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::file_of;
use crate::content::{marker, recognised};
use crate::rich_text::{rich_text, rich_text_pieces};
use crate::wire::{BotMessage, given};

/// The mark of a quoted message.
const MARK: &str = "Reply to";
/// Longest quoted text, in characters.
const QUOTE_LIMIT: usize = 200;
/// Deepest element of a card that is read, and most texts of one.
const MAX_DEPTH: usize = 16;
const MAX_TEXTS: usize = 64;

/// Returns the pieces of the message that is quoted; none without one.
pub(crate) fn quoted_pieces(message: &BotMessage) -> Vec<Piece> {
    let holders = [&message.text, &message.content];
    let is_reply = |holder: &&&Value| holder.get("isReplyMsg") != Some(&Value::Bool(false));
    let quoted = holders
        .iter()
        .filter(is_reply)
        .find_map(|holder| holder.get("repliedMsg"));
    let Some(quoted) = quoted.filter(|quoted| quoted.is_object()) else {
        return Vec::new();
    };
    let kind = given(quoted, "msgType").or_else(|| given(quoted, "msgtype"));
    let kind = kind.unwrap_or("text");
    let nothing = Value::Null;
    let content = quoted.get("content").unwrap_or(&nothing);
    let files = if kind == "richText" {
        let pieces = rich_text_pieces(content).into_iter();
        let files = pieces.filter_map(|piece| match piece {
            Piece::File(file) => Some(Piece::Hidden(file)),
            _ => None,
        });
        files.collect()
    } else {
        Vec::new()
    };
    if recognised(content).is_none()
        && let Some(file) = file_of(kind, content)
    {
        return vec![Piece::Framed(format!("[{MARK}: "), file, "]")];
    }
    let text = shortened(quoted_text(kind, content).trim());
    if text.is_empty() {
        return files;
    }
    let text = Piece::Text(attribute_text(MARK, "", &text));
    std::iter::once(text).chain(files).collect()
}

/// Returns the text of a quoted message, with a marker for content without text.
fn quoted_text(kind: &str, content: &Value) -> String {
    let plain = || {
        let text = given(content, "text").or_else(|| given(content, "content"));
        text.or(content.as_str()).unwrap_or_default().to_owned()
    };
    match kind {
        "text" => plain(),
        "richText" => match rich_text(content) {
            text if text.is_empty() => marker("picture", &Value::Null),
            text => text,
        },
        "audio" => recognised(content).unwrap_or_else(|| marker(kind, content)),
        "interactiveCard" => match card_text(content) {
            text if text.is_empty() => marker(kind, content),
            text => text,
        },
        "markdown" => match plain() {
            text if text.is_empty() => marker(kind, content),
            text => text,
        },
        kind => marker(kind, content),
    }
}

fn card_text(content: &Value) -> String {
    let mut texts = Vec::new();
    if let Some(card) = content.get("cardContent") {
        collect_texts(card, 0, &mut texts);
    }
    texts.join("\n")
}

fn collect_texts<'a>(element: &'a Value, depth: usize, texts: &mut Vec<&'a str>) {
    if depth > MAX_DEPTH || texts.len() >= MAX_TEXTS {
        return;
    }
    if let Value::Array(elements) = element {
        for element in elements {
            collect_texts(element, depth + 1, texts);
        }
        return;
    }
    if given(element, "elementType").is_some_and(|kind| kind.eq_ignore_ascii_case("text")) {
        texts.extend(given(element, "value"));
    }
    if let Some(children) = element.get("children") {
        collect_texts(children, depth + 1, texts);
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(QUOTE_LIMIT).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(quoted: &Value) -> Vec<String> {
        let message = BotMessage {
            text: json!({"content": "x", "isReplyMsg": true, "repliedMsg": quoted}),
            ..BotMessage::default()
        };
        let pieces = quoted_pieces(&message).into_iter();
        let shown = pieces.map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Hidden(file) => format!("hidden {}", file.kind),
            Piece::Framed(head, file, tail) => format!("{head}{}{tail}", file.name),
            Piece::File(file) => file.name,
        });
        shown.collect()
    }

    #[test]
    fn quoted_messages_of_every_type_are_marked() {
        let card = json!({"cardContent": {"elementType": "BOX", "children": [
            {"elementType": "TEXT", "value": "one", "children": []}, {"elementType": "IMAGE", "value": "x"},
            [{"elementType": "text", "value": "two"}],
        ]}});
        let long = "語".repeat(QUOTE_LIMIT + 1);
        let cut = format!("[Reply to: {}...]", "語".repeat(QUOTE_LIMIT));
        let table = [
            (
                json!({"msgType": "text", "content": {"text": "/new"}}),
                vec!["[Reply to: /new]"],
            ),
            (
                json!({"msgType": "text", "content": {"content": "a]"}}),
                vec!["[Reply to:]\n> a]"],
            ),
            (
                json!({"msgType": "text", "content": {"text": long}}),
                vec![cut.as_str()],
            ),
            (json!({"msgType": "text", "content": {}}), vec![]),
            (json!({"content": "bare"}), vec!["[Reply to: bare]"]),
            (
                json!({"msgType": "picture", "content": {"downloadCode": "d"}}),
                vec!["[Reply to: image.jpg]"],
            ),
            (
                json!({"msgType": "picture", "content": {}}),
                vec!["[Reply to:]\n> [image]"],
            ),
            (
                json!({"msgType": "file", "content": {"downloadCode": "d", "fileName": "a.txt"}}),
                vec!["[Reply to: a.txt]"],
            ),
            (
                json!({"msgType": "audio", "content": {"downloadCode": "d", "recognition": "said"}}),
                vec!["[Reply to:]\n> [transcription: said]"],
            ),
            (
                json!({"msgType": "richText", "content": {"richText": [
                    {"msgType": "text", "content": "see"}, {"msgType": "picture", "downloadCode": "d"},
                ]}}),
                vec!["[Reply to: see]", "hidden image"],
            ),
            (
                json!({"msgType": "interactiveCard", "content": card}),
                vec!["[Reply to:]\n> one\n> two"],
            ),
            (
                json!({"msgType": "interactiveCard"}),
                vec!["[Reply to:]\n> [card]"],
            ),
            (json!("odd"), vec![]),
        ];
        for (quoted, expected) in table {
            assert_eq!(read(&quoted), expected, "{quoted}");
        }
    }

    #[test]
    fn depth_and_number_of_a_card_are_bounded() {
        let mut deep = json!({"elementType": "TEXT", "value": "bottom"});
        for _ in 0..100 {
            deep = json!({"children": [deep]});
        }
        assert_eq!(card_text(&json!({ "cardContent": deep })), "");
        let wide = vec![json!({"elementType": "TEXT", "value": "x"}); 1000];
        let text = card_text(&json!({ "cardContent": wide }));
        assert_eq!(text.lines().count(), MAX_TEXTS);
    }
}
