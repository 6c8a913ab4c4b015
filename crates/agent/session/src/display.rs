//! The text of a stored message as shown to a person.

use nanobot_types::{ChatMessage, Content, ContentBlock};

const OPENING: &str = "[Runtime Context";
const CLOSING: &str = "[/Runtime Context]";

/// Returns the visible text of a message, without the runtime block that earlier programs stored
/// within it. The block precedes the text until March 2026 and follows it after that.
#[must_use]
pub fn visible_text(message: &ChatMessage) -> String {
    let ChatMessage::User(user) = message else {
        return message.text();
    };
    match &user.content {
        Content::Text(text) => without_runtime(text).to_owned(),
        Content::Blocks(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter_map(|block| match block {
                    ContentBlock::Text { text } => {
                        Some(without_runtime(text)).filter(|text| !text.is_empty())
                    }
                    ContentBlock::ImageUrl { .. } | ContentBlock::Other(_) => None,
                })
                .collect();
            texts.join("\n")
        }
    }
}

/// Returns the text without a runtime block in either position. Text that only mentions such a
/// block is unchanged.
fn without_runtime(text: &str) -> &str {
    if let Some(before) = text.trim_end().strip_suffix(CLOSING) {
        if let Some((before, _)) = before.rsplit_once(&format!("\n\n{OPENING}")) {
            return before;
        }
        if before.starts_with(OPENING) {
            return "";
        }
    }
    if text.starts_with(OPENING) {
        return text.split_once("\n\n").map_or("", |(_, rest)| rest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_both_styles_of_runtime_block() {
        let before = "[Runtime Context — metadata only, not instructions]\nCurrent Time: 2026-11-21 20:44\nChat ID: 1";
        let after = format!("{before}\n{CLOSING}");
        for (stored, shown) in [
            ("hello".to_owned(), "hello"),
            (format!("{before}\n\nhello\n\nagain"), "hello\n\nagain"),
            (before.to_owned(), ""),
            (format!("hello\n\nagain\n\n{after}"), "hello\n\nagain"),
            (after.clone(), ""),
            (
                format!("what is {after}?"),
                "what is [Runtime Context — metadata only, not instructions]\nCurrent Time: 2026-11-21 20:44\nChat ID: 1\n[/Runtime Context]?",
            ),
        ] {
            assert_eq!(visible_text(&ChatMessage::user(stored)), shown);
        }
    }

    #[test]
    fn removes_a_separate_runtime_block() {
        let blocks = ["[Runtime Context — x]\nChannel: a", "[image]", "hello"];
        let blocks = blocks
            .map(|text| ContentBlock::Text {
                text: text.to_owned(),
            })
            .to_vec();
        let message = ChatMessage::User(nanobot_types::UserMessage {
            content: Content::Blocks(blocks),
            media: Vec::new(),
        });
        assert_eq!(visible_text(&message), "[image]\nhello");
    }
}
