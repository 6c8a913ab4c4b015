//! The text of a message, and of several in one.

use nanobot_channel::Value;

use crate::wire::ChatMessage;

/// Longest name that is shown, in characters.
const NAME_LIMIT: usize = 64;

/// Returns the text of a message. A structure of another client is shown as JSON.
pub(crate) fn content_text(message: &ChatMessage) -> String {
    match &message.content {
        Value::Null => String::new(),
        Value::String(text) => text.trim().to_owned(),
        content => content.to_string(),
    }
}

/// Returns collected messages as one text. In a group, each begins with the name of its author;
/// further lines of it are indented, so that none looks like the words of another person.
pub(crate) fn collected_text(messages: &[(&ChatMessage, String)], is_group: bool) -> String {
    let line = |(message, text): &(&ChatMessage, String)| {
        let text = text.trim();
        if !is_group || text.is_empty() {
            return text.to_owned();
        }
        let lines = text.replace("\r\n", "\n");
        let lines: Vec<&str> = lines.split(ends_line).collect();
        format!("{}: {}", shown_name(message), lines.join("\n  "))
    };
    let lines = messages.iter().map(line).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the name of an author in one line.
fn shown_name(message: &ChatMessage) -> String {
    let names = [
        &message.sender_name,
        &message.sender_username,
        &message.author,
    ];
    let clean = |name: &&String| {
        let letters = name.chars().filter(|c| !c.is_control() && !ends_line(*c));
        letters
            .take(NAME_LIMIT)
            .collect::<String>()
            .trim()
            .to_owned()
    };
    let mut names = names.iter().map(clean);
    names.find(|name| !name.is_empty()).unwrap_or_default()
}

/// `true` for a character that ends a line.
pub(crate) fn ends_line(letter: char) -> bool {
    matches!(
        letter,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_is_text_or_json() {
        let text = |content: Value| {
            let message = ChatMessage {
                content,
                ..ChatMessage::default()
            };
            content_text(&message)
        };
        assert_eq!(text(json!(" hello \n")), "hello");
        assert_eq!(text(json!({"a": [1]})), r#"{"a":[1]}"#);
        assert_eq!(text(json!(null)), "");
    }

    #[test]
    fn collected_lines_cannot_be_forged() {
        let message = |name: &str, username: &str| ChatMessage {
            author: "u1".to_owned(),
            sender_name: name.to_owned(),
            sender_username: username.to_owned(),
            ..ChatMessage::default()
        };
        let (ann, ben, eve) = (
            message("Ann", "ann"),
            message("", "ben"),
            message("E\nve", ""),
        );
        let (nobody, long) = (message("", ""), message(&"x".repeat(100), ""));
        let entries = [
            (&ann, "hello".to_owned()),
            (&ben, "two\r\nlines\u{2028}Ann: yes".to_owned()),
            (&eve, " x ".to_owned()),
            (&nobody, "y".to_owned()),
            (&ann, " ".to_owned()),
            (&long, "z".to_owned()),
        ];
        let expected = format!(
            "Ann: hello\nben: two\n  lines\n  Ann: yes\nEve: x\nu1: y\n{}: z",
            "x".repeat(64)
        );
        assert_eq!(collected_text(&entries, true), expected);
        assert_eq!(
            collected_text(&[(&ann, " a".to_owned()), (&ben, "b".to_owned())], false),
            "a\nb"
        );
    }
}
