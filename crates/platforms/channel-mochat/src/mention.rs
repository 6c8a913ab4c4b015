//! Mentions of the agent in a message.
//!
//! Clients of Mochat tell mentions in the metadata of a message; some only write them into the
//! text.

use nanobot_channel::Value;

use crate::wire::{ChatMessage, text_at};

/// Fields that say that the agent is mentioned.
const FLAGS: &[&str] = &["mentioned", "wasMentioned"];
/// Fields that list the mentioned users.
const LISTS: &[&str] = &[
    "mentions",
    "mentionIds",
    "mentionedUserIds",
    "mentionedUsers",
];
/// Largest number of mentioned users that are read.
const MAX_MENTIONS: usize = 1000;

/// `true` if the message mentions the agent.
pub(crate) fn mentions_agent(message: &ChatMessage, agent: &str) -> bool {
    let meta = &message.meta;
    let is_flagged = FLAGS
        .iter()
        .any(|flag| meta.get(*flag) == Some(&Value::Bool(true)));
    let is_listed = LISTS.iter().any(|list| {
        let users = meta.get(*list).and_then(Value::as_array);
        users.into_iter().flatten().take(MAX_MENTIONS).any(|user| {
            let id = match user {
                Value::String(id) => id.trim().to_owned(),
                user => text_at(user, &["id", "userId", "_id"]),
            };
            id == agent
        })
    });
    is_flagged
        || is_listed
        || message
            .content
            .as_str()
            .is_some_and(|text| names(text, agent))
}

/// `true` if the text contains `<@id>` or `@id`, and not just the beginning of another id.
fn names(text: &str, agent: &str) -> bool {
    let is_end = |rest: &str| {
        let next = rest.chars().next();
        !next.is_some_and(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '-'))
    };
    let mut pieces = text.split('@').skip(1);
    pieces.any(|piece| piece.strip_prefix(agent).is_some_and(is_end))
}

/// Returns the text without a mention of the agent at its beginning, so that a command is found.
pub(crate) fn without_leading_mention<'a>(text: &'a str, agent: &str) -> &'a str {
    let text = text.trim();
    let rest = text
        .strip_prefix("<@")
        .and_then(|rest| rest.strip_prefix(agent))
        .and_then(|rest| rest.strip_prefix('>'));
    let rest = rest.or_else(|| {
        let rest = text.strip_prefix('@')?.strip_prefix(agent)?;
        (rest.is_empty() || rest.starts_with(char::is_whitespace)).then_some(rest)
    });
    rest.map_or(text, str::trim_start)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mentions_are_found_in_metadata_and_text() {
        let table = [
            (json!({"mentioned": true}), "", true),
            (json!({"wasMentioned": true}), "", true),
            (json!({"mentioned": "true"}), "", false),
            (json!({"mentions": ["x", "a1"]}), "", true),
            (json!({"mentionIds": [{"id": "a1"}]}), "", true),
            (json!({"mentionedUserIds": [{"userId": "a1"}]}), "", true),
            (json!({"mentionedUsers": [{"_id": "a1"}]}), "", true),
            (json!({"mentions": [{"id": "a2"}, 5, null]}), "", false),
            (json!({"mentions": "a1"}), "", false),
            (json!(null), "hello <@a1>", true),
            (json!(null), "hello @a1, are you there", true),
            (json!(null), "@a1", true),
            (json!(null), "hello @a12", false),
            (json!(null), "hello a1", false),
            (json!(null), "", false),
        ];
        for (meta, text, expected) in table {
            let message = ChatMessage {
                meta: meta.clone(),
                content: text.into(),
                ..ChatMessage::default()
            };
            assert_eq!(mentions_agent(&message, "a1"), expected, "{meta} {text}");
        }
    }

    #[test]
    fn leading_mention_is_removed() {
        let table = [
            ("<@a1> /new", "/new"),
            ("@a1 /new ", "/new"),
            ("<@a1>/new", "/new"),
            ("@a1", ""),
            ("@a12 /new", "@a12 /new"),
            ("say @a1", "say @a1"),
            ("<@a1", "<@a1"),
        ];
        for (text, expected) in table {
            assert_eq!(without_leading_mention(text, "a1"), expected, "{text}");
        }
    }
}
