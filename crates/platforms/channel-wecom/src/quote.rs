//! The message that is quoted. WeCom includes it in the one that quotes it.

use nanobot_channel::Value;
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;

use crate::content::own_pieces;

/// The mark of a quoted message.
const MARK: &str = "Reply to";
/// Longest quoted text, in characters.
const QUOTE_LIMIT: usize = 200;

/// Returns the pieces of the message that is quoted; none without one.
pub(crate) fn quoted_pieces(body: &Value) -> Vec<Piece> {
    let Some(quoted) = body.get("quote").filter(|quoted| quoted.is_object()) else {
        return Vec::new();
    };
    let mut pieces = own_pieces(quoted);
    if let [Piece::File(_)] = pieces.as_slice()
        && let Some(Piece::File(file)) = pieces.pop()
    {
        return vec![Piece::Framed(format!("[{MARK}: "), file, "]")];
    }
    let (mut texts, mut files) = (Vec::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Text(text) => texts.push(text),
            Piece::File(file) => {
                texts.push(format!("[{}]", file.kind));
                files.push(Piece::Hidden(file));
            }
            Piece::Hidden(_) | Piece::Framed(..) => {}
        }
    }
    let text = shortened(texts.join("\n").trim());
    if text.is_empty() {
        return files;
    }
    let text = Piece::Text(attribute_text(MARK, "", &text));
    std::iter::once(text).chain(files).collect()
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

    fn read(quote: &Value) -> Vec<String> {
        let text = |piece| match piece {
            Piece::Text(text) => text,
            Piece::Framed(head, file, tail) => format!("{head}<{}>{tail}", file.kind),
            Piece::Hidden(file) => format!("hidden {}", file.kind),
            Piece::File(file) => format!("file {}", file.kind),
        };
        let body = json!({"msgtype": "text", "text": {"content": "x"}, "quote": quote});
        quoted_pieces(&body).into_iter().map(text).collect()
    }

    #[test]
    fn quoted_text_is_marked_and_shortened() {
        let text = |text: &str| json!({"msgtype": "text", "text": {"content": text}});
        assert_eq!(read(&text("/new")), ["[Reply to: /new]"]);
        assert_eq!(read(&text("a]\nb")), ["[Reply to:]\n> a]\n> b"]);
        assert_eq!(read(&text(" ")), Vec::<String>::new());
        let long = read(&text(&"語".repeat(201)));
        assert_eq!(long, [format!("[Reply to: {}...]", "語".repeat(200))]);
        for nothing in [json!(null), json!("text"), json!([])] {
            assert_eq!(read(&nothing), Vec::<String>::new());
        }
    }

    #[test]
    fn quoted_files_are_kept() {
        let file = json!({"url": "https://x.test/a"});
        let image = json!({"msgtype": "image", "image": file});
        assert_eq!(read(&image), ["[Reply to: <image>]"]);
        let items = json!([{"msgtype": "text", "text": {"content": "look"}}, image]);
        let mixed = json!({"msgtype": "mixed", "mixed": {"msg_item": items}});
        assert_eq!(
            read(&mixed),
            ["[Reply to:]\n> look\n> [image]", "hidden image"]
        );
    }
}
