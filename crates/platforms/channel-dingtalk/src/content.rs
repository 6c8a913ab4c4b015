//! The content of a message by its type.

use nanobot_channel::Value;
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::{file_of, named_file};
use crate::forward::forwarded_text;
use crate::quote::quoted_pieces;
use crate::rich_text::rich_text_pieces;
use crate::wire::{BotMessage, given};

/// Longest name in a marker, in characters.
const NAME_LIMIT: usize = 100;

/// Returns the pieces of a message: the quoted one first.
pub(crate) fn pieces(message: &BotMessage) -> Vec<Piece> {
    let mut pieces = quoted_pieces(message);
    let content = &message.content;
    match message.kind.as_str() {
        "text" => pieces.push(Piece::Text(plain_text(&message.text))),
        "richText" => pieces.extend(rich_text_pieces(content)),
        "audio" => pieces.push(recording(content)),
        "chatRecord" => pieces.push(Piece::Text(forwarded_text(content))),
        "file" if file_of("file", content).is_none() && !message.download_code.is_empty() => {
            let (code, name) = (&message.download_code, &message.file_name);
            pieces.push(Piece::File(named_file("file", code, name)));
        }
        kind => pieces.push(other(kind, content)),
    }
    pieces
}

/// Returns the text of a `text` object.
pub(crate) fn plain_text(text: &Value) -> String {
    let text = text.get("content").and_then(Value::as_str);
    text.unwrap_or_default().trim().to_owned()
}

/// Returns the words of a recording where DingTalk recognised any, otherwise its file.
fn recording(content: &Value) -> Piece {
    match recognised(content) {
        Some(words) => Piece::Text(words),
        None => other("audio", content),
    }
}

/// Returns the words that DingTalk recognised in a recording.
pub(crate) fn recognised(content: &Value) -> Option<String> {
    let words = given(content, "recognition")?;
    Some(attribute_text("transcription", "", words.trim()))
}

fn other(kind: &str, content: &Value) -> Piece {
    match file_of(kind, content) {
        Some(file) => Piece::File(file),
        None => Piece::Text(marker(kind, content)),
    }
}

/// Returns the marker of content that has no text.
pub(crate) fn marker(kind: &str, content: &Value) -> String {
    let word = match kind {
        "picture" => "image",
        "interactiveCard" | "actionCard" => "card",
        "" => "message",
        kind => kind,
    };
    let texts = ["fileName", "title", "summary", "text"];
    let name = texts.iter().find_map(|key| given(content, key));
    let shown = |text: &str| -> String {
        let text = text.replace(|c: char| c.is_control() || c == ']', " ");
        text.trim().chars().take(NAME_LIMIT).collect()
    };
    match name.map(shown).filter(|name| !name.is_empty()) {
        Some(name) => format!("[{}: {name}]", shown(word)),
        None => format!("[{}]", shown(word)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(kind: &str, text: Value, content: Value) -> Vec<Piece> {
        pieces(&BotMessage {
            kind: kind.to_owned(),
            text,
            content,
            ..BotMessage::default()
        })
    }

    fn said(text: &str) -> Vec<Piece> {
        vec![Piece::Text(text.to_owned())]
    }

    #[test]
    fn every_type_has_a_text_or_a_file() {
        let null = || Value::Null;
        let texts = [
            ("text", json!({"content": " hello\n"}), null(), "hello"),
            ("text", json!({"content": 5}), null(), ""),
            ("text", null(), null(), ""),
            (
                "audio",
                null(),
                json!({"recognition": " a] b "}),
                "[transcription:]\n> a] b",
            ),
            (
                "audio",
                null(),
                json!({"recognition": "spoken", "downloadCode": "d"}),
                "[transcription: spoken]",
            ),
            ("audio", null(), json!({}), "[audio]"),
            ("picture", null(), json!({}), "[image]"),
            (
                "file",
                null(),
                json!({"fileName": "a]\nb.txt"}),
                "[file: a  b.txt]",
            ),
            ("interactiveCard", null(), json!({}), "[card]"),
            (
                "unknown/new",
                null(),
                json!({"title": "/new"}),
                "[unknown/new: /new]",
            ),
            ("", null(), json!([1]), "[message]"),
        ];
        for (kind, text, content, expected) in texts {
            assert_eq!(read(kind, text, content), said(expected), "{kind}");
        }
        let files = [
            (
                "picture",
                json!({"downloadCode": "d", "pictureDownloadCode": "p"}),
                ("image", "image.jpg"),
            ),
            (
                "picture",
                json!({"pictureDownloadCode": "d"}),
                ("image", "image.jpg"),
            ),
            (
                "audio",
                json!({"downloadCode": "d"}),
                ("audio", "audio.amr"),
            ),
            (
                "video",
                json!({"downloadCode": "d", "videoType": "mov"}),
                ("video", "video.mov"),
            ),
            (
                "video",
                json!({"downloadCode": "d", "videoType": "../x"}),
                ("video", "video.mp4"),
            ),
            (
                "file",
                json!({"downloadCode": "d", "fileName": "../x"}),
                ("file", "../x"),
            ),
        ];
        for (kind, content, expected) in files {
            let found = read(kind, null(), content);
            let [Piece::File(file)] = found.as_slice() else {
                panic!("{found:?}");
            };
            assert_eq!(file.source.as_deref(), Some("d"));
            assert_eq!((file.kind, file.name.as_str()), expected);
        }
    }

    #[test]
    fn file_may_be_named_outside_of_the_content() {
        let message = BotMessage {
            kind: "file".to_owned(),
            download_code: "d".to_owned(),
            file_name: "a.txt".to_owned(),
            ..BotMessage::default()
        };
        let expected = named_file("file", "d", "a.txt");
        assert_eq!(pieces(&message), [Piece::File(expected)]);
    }
}
