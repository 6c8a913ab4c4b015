//! The content of a message: quoted messages, text, files, cards.

use nanobot_channel::Value;
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::file_of;
use crate::face::readable;
use crate::wire::{FileEntry, Message, QuotedMessage};

/// The mark of a quoted message.
const QUOTE_MARK: &str = "Reply to";
/// Longest quoted text, in characters.
const QUOTE_LIMIT: usize = 200;
/// Longest text of a card, in characters.
const CARD_LIMIT: usize = 200;
/// Most quoted messages that are read.
const MAX_QUOTES: usize = 4;

/// Returns the pieces of a message. `own` are the names by which it mentions the bot.
pub(crate) fn pieces(message: &Message, own: &[&str]) -> Vec<Piece> {
    let quotes = message.msg_elements.iter().take(MAX_QUOTES);
    let mut pieces: Vec<Piece> = quotes.flat_map(quoted).collect();
    let text = readable(&message.content, own).trim().to_owned();
    let is_empty = text.is_empty() && message.attachments.is_empty();
    pieces.push(Piece::Text(text));
    pieces.extend(message.attachments.iter().filter_map(file));
    if is_empty && let Some(card) = card(&message.ark_data) {
        pieces.push(Piece::Text(card));
    }
    pieces
}

/// Returns a file, or the words of a recording where QQ recognised any.
fn file(entry: &FileEntry) -> Option<Piece> {
    recognised(entry).map(Piece::Text).or_else(|| {
        let file = file_of(entry)?;
        Some(Piece::File(file))
    })
}

fn recognised(entry: &FileEntry) -> Option<String> {
    let words = entry.asr_refer_text.trim();
    (!words.is_empty()).then(|| attribute_text("transcription", "", words))
}

/// Returns the pieces of a quoted message: its first words, and its files.
fn quoted(message: &QuotedMessage) -> Vec<Piece> {
    let text = readable(&message.content, &[]);
    let text = shortened(text.trim(), QUOTE_LIMIT);
    let files = message.attachments.iter().filter_map(file_of);
    let name = message.author.username.as_str();
    if text.is_empty() {
        let mark = format!("[{QUOTE_MARK}: ");
        let framed = files.map(|file| Piece::Framed(mark.clone(), file, "]"));
        return framed.collect();
    }
    let text = Piece::Text(attribute_text(QUOTE_MARK, name, &text));
    std::iter::once(text)
        .chain(files.map(Piece::Hidden))
        .collect()
}

/// Returns the mark of a card.
fn card(data: &Value) -> Option<String> {
    let data = data.as_object()?;
    let texts = ["prompt", "ark_name", "title", "desc"];
    let text = texts
        .iter()
        .filter_map(|key| data.get(*key)?.as_str())
        .find(|text| !text.trim().is_empty());
    Some(attribute_text(
        "card",
        "",
        &shortened(text.unwrap_or_default().trim(), CARD_LIMIT),
    ))
}

fn shortened(text: &str, limit: usize) -> String {
    let mut head: String = text.chars().take(limit).collect();
    if head.len() < text.len() {
        head.push('…');
    }
    head
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(message: Value) -> Vec<Piece> {
        pieces(&serde_json::from_value(message).unwrap(), &[])
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[test]
    fn texts_of_every_kind_are_read() {
        let table = [
            (json!({"content": " hello\n"}), vec![text("hello")]),
            (
                json!({"content": "", "ark_data": {"prompt": "[小程序] /new"}}),
                vec![text(""), text("[card:]\n> [小程序] /new")],
            ),
            (
                json!({"content": "look", "ark_data": {"prompt": "x"}}),
                vec![text("look")],
            ),
            (
                json!({"content": "", "attachments": [{"content_type": "voice", "url": "u", "asr_refer_text": " spoken "}]}),
                vec![text(""), text("[transcription: spoken]")],
            ),
            (
                json!({"content": "why?", "msg_elements": [{"content": "/new", "author": {"username": "Ben]"}}]}),
                vec![text("[Reply to Ben: /new]"), text("why?")],
            ),
            (
                json!({"content": "why?", "msg_elements": [{"content": "語".repeat(300)}]}),
                vec![
                    text(&format!("[Reply to: {}…]", "語".repeat(200))),
                    text("why?"),
                ],
            ),
        ];
        for (message, expected) in table {
            assert_eq!(read(message.clone()), expected, "{message}");
        }
    }

    #[test]
    fn quoted_files_are_in_the_frame_of_the_quote() {
        let file =
            json!({"content_type": "image/png", "url": "https://x.test/a", "filename": "a.png"});
        let alone = read(json!({"msg_elements": [{"attachments": [file]}], "content": "this"}));
        let [Piece::Framed(head, found, tail), Piece::Text(_)] = alone.as_slice() else {
            panic!("{alone:?}");
        };
        assert_eq!(
            (head.as_str(), found.kind, *tail),
            ("[Reply to: ", "image", "]")
        );
        let with_text = read(json!({"msg_elements": [{"content": "cat", "attachments": [file]}]}));
        assert!(matches!(
            with_text.as_slice(),
            [Piece::Text(_), Piece::Hidden(_), _]
        ));
    }

    #[test]
    fn quotes_are_bounded() {
        let quotes = vec![json!({"content": "x"}); 60];
        assert_eq!(read(json!({"msg_elements": quotes})).len(), MAX_QUOTES + 1);
    }
}
