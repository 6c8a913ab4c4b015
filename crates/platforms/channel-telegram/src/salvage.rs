//! Lenient parsing of updates that teloxide cannot parse whole.
//!
//! An invalid media type, or an entity that is newer than teloxide, makes a whole message
//! unreadable. Such an update is parsed again without the fields that no reply needs, so that its
//! text is not lost.

use nanobot_channel::{Map, Value, json};
use serde_json::json;
use teloxide::types::{MessageKind, Update, UpdateKind};

/// Fields for author, chat and text.
const NEEDED: &[&str] = &[
    "message_id",
    "date",
    "chat",
    "from",
    "sender_chat",
    "text",
    "caption",
];
/// Other fields, which are used if they can be read.
const USEFUL: &[&str] = &[
    "edit_date",
    "message_thread_id",
    "is_topic_message",
    "is_automatic_forward",
    "media_group_id",
    "reply_to_message",
    "quote",
    "entities",
    "caption_entities",
    "photo",
    "voice",
    "audio",
    "video",
    "video_note",
    "animation",
    "document",
    "sticker",
    "location",
    "contact",
    "migrate_to_chat_id",
    "migrate_from_chat_id",
];
/// Keys of a message that hold another one.
const ANSWERED: &[&str] = &["reply_to_message", "quote"];
/// Keys of a quotation that are kept.
const QUOTE: &[&str] = &["text", "position"];
/// Keys of a chat and of a person that are kept.
const PARTY: &[&str] = &[
    "id",
    "type",
    "title",
    "username",
    "first_name",
    "is_bot",
    "is_forum",
];

/// Parses an update, whole or without its unreadable fields.
pub(crate) fn parse(raw: &str) -> Option<Update> {
    let found: Option<Update> = json::from_str(raw).ok();
    if found.as_ref().is_some_and(has_content) {
        return found;
    }
    let update: Value = json::from_str(raw).ok()?;
    let marks = ["entities", "caption_entities"];
    let attempts: [&dyn Fn(&str) -> bool; 5] = [
        &|_| true,
        &|key| NEEDED.contains(&key) || USEFUL.contains(&key),
        &|key| NEEDED.contains(&key) || (USEFUL.contains(&key) && !marks.contains(&key)),
        &|key| {
            NEEDED.contains(&key)
                || (USEFUL.contains(&key) && !marks.contains(&key) && !ANSWERED.contains(&key))
        },
        &|key| NEEDED.contains(&key),
    ];
    // As text: from a `Value` teloxide reads no update at all.
    let read = |keeps| {
        serde_json::from_str(&retain_keys(&update, keeps).to_string())
            .ok()
            .filter(has_content)
    };
    attempts.into_iter().find_map(read).or(found)
}

/// `true` if an update was read. If teloxide cannot read the content of a message, it reads a
/// message that says nothing.
fn has_content(update: &Update) -> bool {
    match &update.kind {
        UpdateKind::Error(_) => false,
        UpdateKind::Message(message)
        | UpdateKind::ChannelPost(message)
        | UpdateKind::EditedMessage(message) => !matches!(message.kind, MessageKind::Empty {}),
        _ => true,
    }
}

/// Returns the update with only the wanted keys of its message, and without media types.
fn retain_keys(update: &Value, keeps: &dyn Fn(&str) -> bool) -> Value {
    let Value::Object(members) = update else {
        return update.clone();
    };
    let members = members.iter().map(|(kind, content)| match content {
        Value::Object(message) => (
            kind.clone(),
            Value::Object(retain_message_keys(message, keeps)),
        ),
        other => (kind.clone(), other.clone()),
    });
    Value::Object(members.collect())
}

fn retain_message_keys(message: &Map, keeps: &dyn Fn(&str) -> bool) -> Map {
    let kept = message
        .iter()
        .filter(|(key, _)| keeps(key))
        .map(|(key, value)| {
            let value = match (key.as_str(), value) {
                ("chat" | "from" | "sender_chat", Value::Object(party)) => {
                    Value::Object(select_keys(party, PARTY))
                }
                ("quote", Value::Object(quote)) => Value::Object(select_keys(quote, QUOTE)),
                ("reply_to_message", Value::Object(original)) => {
                    Value::Object(retain_message_keys(original, keeps))
                }
                (_, Value::Object(file)) => {
                    let file = file.iter().filter(|(key, _)| {
                        !matches!(key.as_str(), "mime_type" | "thumbnail" | "thumb")
                    });
                    Value::Object(
                        file.map(|(key, value)| (key.clone(), value.clone()))
                            .collect(),
                    )
                }
                _ => value.clone(),
            };
            (key.clone(), value)
        });
    let mut kept: Map = kept.collect();
    // Even of a message that cannot be read whole it is known that another person wrote it.
    let is_mark = |key: &str| key == "via_bot" || key.starts_with("forward_");
    if message.keys().any(|key| is_mark(key)) && !kept.keys().any(|key| is_mark(key)) {
        let origin = json!({"type": "hidden_user", "date": 0, "sender_user_name": "somebody"});
        kept.insert("forward_origin".to_owned(), origin);
    }
    // A caption without its file becomes the text.
    if !keeps("document")
        && let Some(caption) = kept.remove("caption")
    {
        kept.entry("text").or_insert(caption);
    }
    kept
}

fn select_keys(object: &Map, keys: &[&str]) -> Map {
    let kept = object
        .iter()
        .filter(|(key, _)| keys.contains(&key.as_str()));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn update(content: &Value) -> String {
        let mut message = json!({
            "message_id": 5, "date": 1, "from": {"id": 7, "is_bot": false, "first_name": "Ann", "status": {"new": 1}},
            "chat": {"id": 7, "type": "private", "first_name": "Ann"},
        });
        message
            .as_object_mut()
            .unwrap()
            .extend(content.as_object().unwrap().clone());
        json!({"update_id": 3, "message": message}).to_string()
    }

    #[test]
    fn text_is_salvaged_from_unreadable_updates() {
        let file = json!({
            "file_id": "f", "file_unique_id": "u", "file_size": 3, "file_name": "x.bin", "mime_type": "no/such; type=\"x",
        });
        let table = [
            (json!({"caption": "see", "document": file}), true),
            (
                json!({"text": "see", "entities": [{"type": "of_tomorrow", "offset": 0, "length": 1}]}),
                false,
            ),
            (
                json!({"text": "see", "reply_to_message": {"odd": true}}),
                false,
            ),
            (json!({"caption": "see", "photo": "odd"}), false),
            (
                json!({"text": "see", "forward_origin": {"type": "of_tomorrow"}}),
                false,
            ),
        ];
        for (content, has_file) in table {
            let raw = update(&content);
            let whole: Option<Update> = serde_json::from_str(&raw).ok();
            assert!(!whole.is_some_and(|update| has_content(&update)), "{raw}");
            let Some(Update {
                kind: UpdateKind::Message(message),
                ..
            }) = parse(&raw)
            else {
                panic!("{raw}")
            };
            assert_eq!(message.text().or(message.caption()), Some("see"), "{raw}");
            assert_eq!(message.document().is_some(), has_file, "{raw}");
            let is_forwarded = content.get("forward_origin").is_some();
            assert_eq!(
                message.forward_origin().is_some(),
                is_forwarded,
                "nobody else's words become their own: {raw}"
            );
        }
        // teloxide reads no text of another chat.
        let elsewhere =
            json!({"origin": {"type": "hidden_user", "sender_user_name": "Eve", "date": 1}});
        let odd_quote =
            json!({"text": "/new", "position": 0, "entities": [{"type": "of_tomorrow"}]});
        let raw = update(&json!({"text": "see", "external_reply": elsewhere, "quote": odd_quote}));
        let Some(Update {
            kind: UpdateKind::Message(message),
            ..
        }) = parse(&raw)
        else {
            panic!("{raw}")
        };
        assert_eq!(
            (
                message.text(),
                message.quote().map(|quote| quote.text.as_str())
            ),
            (Some("see"), Some("/new"))
        );
        let odd = parse("{\"update_id\": 3, \"message\": {\"odd\": true}}");
        assert!(odd.is_none_or(|update| !has_content(&update)));
    }
}
