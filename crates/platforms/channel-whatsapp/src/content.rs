//! The content of a message: the quoted text, the text, and files.

use nanobot_channel::Value;
use nanobot_channel_kit::attribute_text;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::{file_of, local_file_of};
use crate::frame::Version;
use crate::state::Account;
use crate::wire::{flag, given, list, shortened, text};

/// Most files of a message that are read.
const MAX_FILES: usize = 32;
/// Longest quoted text, in characters.
const QUOTE_LIMIT: usize = 200;
/// The mark of quoted text.
const MARK: &str = "Reply to";
/// The text of a recording in version 1, which has no file.
const VOICE: &str = "[Voice Message]";

/// Returns the pieces of a message: the quoted text first, files last.
pub(crate) fn pieces(body: &Value, version: Version, account: &Account) -> Vec<Piece> {
    let mut pieces = Vec::new();
    pieces.extend(body.get("quoted").and_then(quoted).map(Piece::Text));
    let words = text(body, "content").trim();
    let words = match version {
        Version::One if words == VOICE => "[voice: the bridge does not pass on recordings]",
        _ => without_mention(words, account),
    };
    if !words.is_empty() {
        pieces.push(Piece::Text(words.to_owned()));
    }
    for media in list(body, "media").iter().take(MAX_FILES) {
        let file = match version {
            Version::Two => file_of(media),
            Version::One => local_file_of(media),
        };
        pieces.push(match file {
            Some(file) => Piece::File(file),
            None => Piece::Text("[file]".to_owned()),
        });
    }
    pieces
}

/// Returns the quoted text with its mark; `None` without text.
fn quoted(quoted: &Value) -> Option<String> {
    let words = shortened(given(quoted, "content")?.trim(), QUOTE_LIMIT);
    let author = if flag(quoted, "fromBot") {
        ""
    } else {
        let participant = text(quoted, "participant");
        participant.split(['@', ':']).next().unwrap_or_default()
    };
    Some(attribute_text(MARK, author, &words))
}

/// Returns a text without the mention of the account at its beginning.
fn without_mention<'a>(words: &'a str, account: &Account) -> &'a str {
    let Some(rest) = words.strip_prefix('@') else {
        return words;
    };
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (user, rest) = rest.split_at(end.unwrap_or(rest.len()));
    if account.is_user(user) {
        rest.trim_start()
    } else {
        words
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::state::State;

    fn account() -> Account {
        let account = json!({"id": "4915@s.whatsapp.net", "lid": "77@lid"});
        let state = State::read(&json!({"status": "connected", "account": account}));
        state.account.unwrap()
    }

    fn texts(body: &Value, version: Version) -> Vec<String> {
        let text = |piece| match piece {
            Piece::Text(text) => text,
            Piece::File(file) => format!("<{} {}>", file.kind, file.name),
            other => format!("{other:?}"),
        };
        pieces(body, version, &account())
            .into_iter()
            .map(text)
            .collect()
    }

    #[test]
    fn quoted_text_comes_first_and_files_last() {
        let body = json!({
            "content": " look ", "media": [{"ref": "m1-0", "kind": "image"}, {"kind": "image"}],
            "quoted": {"participant": "49:1@s.whatsapp.net", "content": "/new"},
        });
        let expected = ["[Reply to 49: /new]", "look", "<image image.jpg>", "[file]"];
        assert_eq!(texts(&body, Version::Two), expected);
        let own = json!({"quoted": {"fromBot": true, "content": "a]\nb"}, "content": ""});
        assert_eq!(texts(&own, Version::Two), ["[Reply to:]\n> a]\n> b"]);
        let long = json!({"quoted": {"content": "語".repeat(201)}});
        let expected = format!("[Reply to: {}...]", "語".repeat(200));
        assert_eq!(texts(&long, Version::Two), [expected]);
    }

    #[test]
    fn only_the_mention_of_the_account_is_removed() {
        let table = [
            ("@4915 /new", "/new"),
            ("@77\u{2068} hello", "\u{2068} hello"),
            ("@77", ""),
            ("@78 hello", "@78 hello"),
            ("hello @4915", "hello @4915"),
            ("@語", "@語"),
        ];
        for (words, expected) in table {
            assert_eq!(without_mention(words, &account()), expected, "{words}");
        }
    }

    #[test]
    fn odd_content_is_bounded() {
        let file = json!({"ref": "m", "kind": "image"});
        let many = json!({"media": vec![file; 1000]});
        assert_eq!(texts(&many, Version::Two).len(), MAX_FILES);
        for body in [
            json!(null),
            json!([]),
            json!({"quoted": 5, "media": {}, "content": []}),
        ] {
            assert_eq!(texts(&body, Version::Two), Vec::<String>::new());
        }
    }

    #[test]
    fn version_1_names_files_by_their_paths() {
        let body = json!({"content": "[Voice Message]", "media": ["/a/wa_1_x_cat.png", 5]});
        let expected = [
            "[voice: the bridge does not pass on recordings]",
            "<image wa_1_x_cat.png>",
            "[file]",
        ];
        assert_eq!(texts(&body, Version::One), expected);
    }
}
