//! Rich text that people write (`post`): a title, and paragraphs of elements.

use nanobot_channel::Value;
use nanobot_channel_kit::attachment::Attachment;
use nanobot_channel_kit::intake::Piece;

use crate::attachment::post_file;
use crate::card_text::link_text;
use crate::mention::Mentions;

/// Languages that are preferred, where a post has several.
const LANGUAGES: &[&str] = &["zh_cn", "en_us", "ja_jp"];
/// Most files of a post.
const MAX_FILES: usize = 50;

/// Returns the pieces of a post in the order of its text. `message` is the id of the message, from
/// which its files are fetched.
pub(crate) fn post_pieces(post: &Value, message: &str, mentions: Mentions<'_>) -> Vec<Piece> {
    let Some(post) = find_body(post) else {
        return vec![Piece::Text("[post]".to_owned())];
    };
    let mut pieces = Vec::new();
    let mut lines = Vec::new();
    let mut files = 0;
    if let Some(title) = post.get("title").and_then(Value::as_str) {
        lines.push(title.to_owned());
    }
    let paragraphs = post.get("content").and_then(Value::as_array);
    for paragraph in paragraphs.into_iter().flatten() {
        let mut line = String::new();
        for element in paragraph.as_array().into_iter().flatten() {
            match post_file(element, message).filter(|_| files < MAX_FILES) {
                Some(file) => {
                    files += 1;
                    lines.push(std::mem::take(&mut line));
                    push_text(&mut pieces, &mut lines, mentions);
                    pieces.push(Piece::File(file));
                }
                None => line.push_str(&element_text(element)),
            }
        }
        lines.push(line);
    }
    push_text(&mut pieces, &mut lines, mentions);
    pieces
}

/// Returns the text of a post without its files.
pub(crate) fn post_text(post: &Value, mentions: Mentions<'_>) -> String {
    let texts = post_pieces(post, "", mentions).into_iter();
    let texts = texts.filter_map(|piece| match piece {
        Piece::Text(text) => Some(text),
        Piece::File(file) => Some(format!("[{}]", file.kind)),
        Piece::Hidden(_) | Piece::Framed(..) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the files of a post.
pub(crate) fn post_files(post: &Value, message: &str) -> Vec<Attachment> {
    let mentions = Mentions { list: &[], bot: "" };
    let pieces = post_pieces(post, message, mentions).into_iter();
    let files = pieces.filter_map(|piece| match piece {
        Piece::File(file) => Some(file),
        Piece::Text(_) | Piece::Hidden(_) | Piece::Framed(..) => None,
    });
    files.collect()
}

fn push_text(pieces: &mut Vec<Piece>, lines: &mut Vec<String>, mentions: Mentions<'_>) {
    let text = std::mem::take(lines).join("\n");
    // A mention of the bot is dropped at the beginning of the message only.
    let text = if pieces.is_empty() {
        mentions.resolve(&text)
    } else {
        Mentions {
            bot: "",
            ..mentions
        }
        .resolve(&text)
    };
    if !text.trim().is_empty() {
        pieces.push(Piece::Text(text.trim_matches('\n').to_owned()));
    }
}

/// Finds the body: alone, by its language, or in `post`.
fn find_body(post: &Value) -> Option<&Value> {
    let is_body = |value: &&Value| value.get("content").is_some_and(Value::is_array);
    if is_body(&post) {
        return Some(post);
    }
    let post = post.get("post").unwrap_or(post);
    if is_body(&post) {
        return Some(post);
    }
    let preferred = LANGUAGES.iter().filter_map(|language| post.get(*language));
    let any = post
        .as_object()
        .into_iter()
        .flat_map(|bodies| bodies.values());
    preferred.chain(any).find(is_body)
}

fn element_text(element: &Value) -> String {
    let given = |key: &str| element.get(key).and_then(Value::as_str).unwrap_or_default();
    match given("tag") {
        "text" | "md" => given("text").to_owned(),
        "a" => link_text(element),
        "at" => match given("user_id") {
            // The placeholder of a mention, which is resolved with the others.
            key if key.starts_with("@_") => key.to_owned(),
            "all" => "@all".to_owned(),
            _ => format!("@{}", given("user_name").trim_start_matches('@')),
        },
        "img" => "[image]".to_owned(),
        "media" => "[media]".to_owned(),
        "emotion" => format!("[{}]", given("emoji_type")),
        "code_block" => format!(
            "\n```{}\n{}\n```\n",
            given("language"),
            given("text").trim_end()
        ),
        "hr" => "\n---\n".to_owned(),
        _ => given("text").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::Mention;

    fn texts(post: &Value) -> Vec<String> {
        let list = [Mention {
            key: "@_user_1".to_owned(),
            name: "nanobot".to_owned(),
            id: "ou_bot".to_owned(),
        }];
        let mentions = Mentions {
            list: &list,
            bot: "ou_bot",
        };
        let pieces = post_pieces(post, "om_1", mentions).into_iter();
        let shown = pieces.map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::File(file) => format!("{} {}", file.kind, file.id),
            other => format!("{other:?}"),
        });
        shown.collect()
    }

    #[test]
    fn three_shapes_are_read() {
        let body = json!({"title": "T", "content": [[{"tag": "text", "text": "a"}]]});
        let shapes = [
            body.clone(),
            json!({"zh_cn": body}),
            json!({"fr_fr": body, "x": 1}),
            json!({"post": {"en_us": body}}),
            json!({"post": body}),
        ];
        for shape in shapes {
            assert_eq!(texts(&shape), ["T\na"], "{shape}");
        }
        assert_eq!(texts(&json!({"title": "T"})), ["[post]"]);
        assert_eq!(texts(&json!([])), ["[post]"]);
    }

    #[test]
    fn elements_become_text_and_files_in_order() {
        let post = json!({"content": [
            [{"tag": "at", "user_id": "@_user_1", "user_name": "nanobot"}, {"tag": "text", "text": " look"}],
            [{"tag": "img", "image_key": "img_1"}],
            [{"tag": "a", "text": "site", "href": "https://x.test"}, {"tag": "text", "text": " by "},
             {"tag": "at", "user_id": "@_user_1"}, {"tag": "at", "user_id": "all"}],
            [{"tag": "media", "file_key": "file_1"}, {"tag": "emotion", "emoji_type": "SMILE"}],
            [{"tag": "code_block", "language": "rust", "text": "fn a() {}\n"}],
            [{"tag": "of tomorrow", "text": "new"}, 5],
            "odd",
        ]});
        assert_eq!(
            texts(&post),
            [
                "look",
                "image img_1",
                "[site](https://x.test) by @nanobot@all",
                "video file_1",
                "[SMILE]\n\n```rust\nfn a() {}\n```\n\nnew",
            ]
        );
    }
}
