//! The content of a message by its type, which is in the member of the same name.

use nanobot_channel::Value;
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::file_of;
use crate::quote::quoted_pieces;
use crate::wire::given;

/// Most items of a mixed message that are read.
const MAX_ITEMS: usize = 64;
/// Longest name in a marker, in characters.
const NAME_LIMIT: usize = 100;

/// Returns the pieces of a message: the quoted one first. `is_group` is `true` if its text may
/// begin with the mention of the bot.
pub(crate) fn pieces(body: &Value, is_group: bool) -> Vec<Piece> {
    let mut pieces = quoted_pieces(body);
    let own = own_pieces(body);
    let mut may_mention = is_group;
    for piece in own {
        pieces.push(match piece {
            Piece::Text(text) if may_mention => {
                may_mention = false;
                Piece::Text(without_mention(&text).to_owned())
            }
            other => other,
        });
    }
    pieces
}

/// Returns the pieces of a message or of a quoted one.
pub(crate) fn own_pieces(body: &Value) -> Vec<Piece> {
    let kind = given(body, "msgtype").unwrap_or_default();
    let nothing = Value::Null;
    let content = body.get(kind).unwrap_or(&nothing);
    if kind != "mixed" {
        return vec![piece(kind, content)];
    }
    let items = content.get("msg_item").and_then(Value::as_array);
    let items = items.map_or(&[][..], Vec::as_slice).iter().take(MAX_ITEMS);
    let read = |item: &Value| {
        let kind = given(item, "msgtype").unwrap_or_default();
        piece(kind, item.get(kind).unwrap_or(&Value::Null))
    };
    items.map(read).collect()
}

fn piece(kind: &str, content: &Value) -> Piece {
    let words = given(content, "content").map(str::trim);
    match (kind, words) {
        ("text", words) => Piece::Text(words.unwrap_or_default().to_owned()),
        ("voice", Some(words)) => Piece::Text(attribute_text("transcription", "", words)),
        _ => match file_of(kind, content) {
            Some(file) => Piece::File(file),
            None => Piece::Text(marker(kind)),
        },
    }
}

/// Returns the marker of content that has no text.
fn marker(kind: &str) -> String {
    let kind = kind.replace(|c: char| c.is_control() || c == ']', " ");
    let kind: String = kind.trim().chars().take(NAME_LIMIT).collect();
    if kind.is_empty() {
        "[message]".to_owned()
    } else {
        format!("[{kind}]")
    }
}

/// Returns a text of a group without the mention at its beginning. WeCom does not say which mention
/// is that of the bot, so several mentions in a row are left as they are.
fn without_mention(text: &str) -> &str {
    let text = text.trim();
    let Some(rest) = text.strip_prefix('@') else {
        return text;
    };
    let Some(end) = rest.find(char::is_whitespace) else {
        return "";
    };
    let rest = rest.get(end..).unwrap_or_default().trim_start();
    if rest.starts_with('@') { text } else { rest }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(body: &Value, is_group: bool) -> Vec<String> {
        let text = |piece| match piece {
            Piece::Text(text) => text,
            Piece::File(file) => format!("<{} {}>", file.kind, file.name),
            other => format!("{other:?}"),
        };
        pieces(body, is_group).into_iter().map(text).collect()
    }

    #[test]
    fn every_type_has_a_text_or_a_file() {
        let file = json!({"url": "https://x.test/a", "aeskey": "k"});
        let table = [
            ("text", json!({"content": " hello\n"}), "hello"),
            ("text", json!({"content": 5}), ""),
            ("text", json!(null), ""),
            (
                "voice",
                json!({"content": " a] b "}),
                "[transcription:]\n> a] b",
            ),
            (
                "voice",
                json!({"content": "spoken"}),
                "[transcription: spoken]",
            ),
            ("voice", file.clone(), "<voice voice.amr>"),
            ("voice", json!({}), "[voice]"),
            ("image", file.clone(), "<image image.jpg>"),
            ("video", file.clone(), "<video video.mp4>"),
            ("file", file, "<file file>"),
            ("file", json!({}), "[file]"),
            ("of]tomorrow", json!({"content": "/new"}), "[of tomorrow]"),
        ];
        for (kind, content, expected) in table {
            let mut body = json!({"msgtype": kind});
            body[kind] = content;
            assert_eq!(texts(&body, false), [expected], "{body}");
        }
        assert_eq!(texts(&json!({}), false), ["[message]"]);
    }

    #[test]
    fn mixed_message_keeps_its_order() {
        let image = json!({"msgtype": "image", "image": {"url": "https://x.test/a"}});
        let items = json!([
            {"msgtype": "text", "text": {"content": "@bot /new"}}, image,
            {"msgtype": "text", "text": {"content": "@ann too"}}, {"msgtype": 5}, 7,
        ]);
        let body = json!({"msgtype": "mixed", "mixed": {"msg_item": items}});
        let expected = [
            "/new",
            "<image image.jpg>",
            "@ann too",
            "[message]",
            "[message]",
        ];
        assert_eq!(texts(&body, true), expected);
        let many = json!({"msgtype": "mixed", "mixed": {"msg_item": vec![json!({}); 5000]}});
        assert_eq!(texts(&many, true).len(), MAX_ITEMS);
    }

    #[test]
    fn only_the_mention_of_the_bot_is_removed() {
        let table = [
            ("@bot /new", "/new"),
            (" @bot\u{2005}hello @ann ", "hello @ann"),
            ("@bot", ""),
            ("hello @bot", "hello @bot"),
            ("@ann @bot hello", "@ann @bot hello"),
            ("@語 hello", "hello"),
        ];
        for (text, expected) in table {
            assert_eq!(without_mention(text), expected, "{text}");
        }
    }
}
