//! Rich text: texts with marks, and pictures between them.

use nanobot_channel::Value;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::file_of;
use crate::wire::given;

/// Most items that are read.
const MAX_ITEMS: usize = 256;

/// Returns the pieces of rich text, in order.
pub(crate) fn rich_text_pieces(content: &Value) -> Vec<Piece> {
    let (mut pieces, mut text) = (Vec::new(), String::new());
    for item in items(content) {
        text.push_str(&item_text(item));
        if let Some(file) = file_of(item_kind(item), item) {
            push_text(&mut pieces, &mut text);
            pieces.push(Piece::File(file));
        }
    }
    push_text(&mut pieces, &mut text);
    pieces
}

/// Returns the texts of rich text.
pub(crate) fn rich_text(content: &Value) -> String {
    let text: String = items(content).map(item_text).collect();
    text.trim().to_owned()
}

fn items(content: &Value) -> impl Iterator<Item = &Value> {
    let list = content.get("richText").unwrap_or(content);
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().take(MAX_ITEMS)
}

/// Returns the type of an item; the items of a quoted message name it `msgType`.
fn item_kind(item: &Value) -> &str {
    let kind = given(item, "type").or_else(|| given(item, "msgType"));
    let is_file = given(item, "fileName").is_some();
    match kind {
        Some(kind @ ("picture" | "video" | "audio" | "file")) => kind,
        _ if is_file => "file",
        _ => "picture",
    }
}

/// Returns the text of an item in Markdown.
fn item_text(item: &Value) -> String {
    let text = ["text", "content"]
        .iter()
        .find_map(|key| item.get(key).and_then(Value::as_str));
    let text = text.unwrap_or_default();
    let (inner, kind) = (text.trim(), item.get("type").and_then(Value::as_str));
    if inner.is_empty() {
        return text.to_owned();
    }
    match kind.unwrap_or_default() {
        "bold" => text.replace(inner, &format!("**{inner}**")),
        "italic" => text.replace(inner, &format!("*{inner}*")),
        "inlineCode" => text.replace(inner, &format!("`{inner}`")),
        "pre" => format!("\n```\n{inner}\n```\n"),
        _ => text.to_owned(),
    }
}

fn push_text(pieces: &mut Vec<Piece>, text: &mut String) {
    let text = std::mem::take(text);
    if !text.trim().is_empty() {
        pieces.push(Piece::Text(text.trim().to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_and_pictures_keep_their_order() {
        let content = json!({"richText": [
            {"text": "see "}, {"text": " this", "type": "bold"}, {"text": " now\n"},
            {"type": "picture", "downloadCode": "a", "pictureDownloadCode": "b"},
            {"text": "and", "type": "text", "downloadCode": "c", "fileName": "x.txt"}, {"text": 5}, 7,
            {"text": "x < y", "type": "pre"},
        ]});
        let shown: Vec<String> = rich_text_pieces(&content)
            .into_iter()
            .map(|piece| match piece {
                Piece::Text(text) => text,
                Piece::File(file) => format!("{} {}", file.kind, file.source.unwrap()),
                piece => panic!("{piece:?}"),
            })
            .collect();
        let expected = [
            "see  **this** now",
            "image a",
            "and",
            "file c",
            "```\nx < y\n```",
        ];
        assert_eq!(shown, expected);
        assert_eq!(
            rich_text(
                &json!([{"msgType": "text", "content": "a"}, {"msgType": "text", "content": "b"}])
            ),
            "ab"
        );
    }

    #[test]
    fn number_of_items_is_bounded() {
        let items = vec![json!({"text": "x"}); MAX_ITEMS + 10];
        assert_eq!(rich_text(&json!({ "richText": items })).len(), MAX_ITEMS);
        assert!(rich_text_pieces(&json!({"richText": "odd"})).is_empty());
    }
}
