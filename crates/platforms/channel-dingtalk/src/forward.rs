//! Forwarded chat records: several messages of other people in one.
//!
//! DingTalk includes the messages as JSON in a text, not always all of them, and a summary. Each is
//! marked as forwarded: it is no command of the sender.

use std::borrow::Cow;

use nanobot_channel::{Value, json};
use nanobot_channel_kit::attribute_text;

use crate::content::marker;
use crate::rich_text::rich_text;
use crate::wire::given;

/// Most messages that are shown, and the longest text of each, in characters.
const MAX_MESSAGES: usize = 50;
const TEXT_LIMIT: usize = 4000;

/// Returns the messages of a chat record.
pub(crate) fn forwarded_text(content: &Value) -> String {
    let records = ["chatRecord", "records", "messages"];
    let records = records.iter().find_map(|key| list(content.get(*key)?));
    let shown: Vec<String> = records
        .iter()
        .flat_map(|records| records.iter())
        .take(MAX_MESSAGES)
        .map(message_text)
        .collect();
    if shown.is_empty() {
        return attribute_text("forwarded messages", "", &summary(content));
    }
    shown.join("\n")
}

fn message_text(message: &Value) -> String {
    let name = ["senderNick", "senderName"];
    let name = name.iter().find_map(|key| given(message, key));
    let kind = given(message, "msgType").or_else(|| given(message, "msgtype"));
    let nothing = Value::Null;
    let content = ["content", "text"];
    let content = content.iter().find_map(|key| message.get(*key));
    let content = content.unwrap_or(&nothing);
    let text = match content {
        Value::String(text) => text.clone(),
        content => {
            let text = given(content, "content").or_else(|| given(content, "text"));
            text.map_or_else(|| rich_text(content), str::to_owned)
        }
    };
    let text = match text.trim() {
        "" => marker(kind.unwrap_or_default(), content),
        text => text.chars().take(TEXT_LIMIT).collect(),
    };
    match name {
        Some(name) => attribute_text("forwarded from", name, &text),
        None => attribute_text("forwarded", "", &text),
    }
}

/// Returns the summary, which is a text or a list of lines.
fn summary(content: &Value) -> String {
    let Some(summary) = content.get("summary") else {
        return String::new();
    };
    let lines = list(summary);
    let lines = lines.iter().flat_map(|lines| lines.iter());
    let lines: Vec<&str> = lines.filter_map(Value::as_str).collect();
    let text = match lines.as_slice() {
        [] => summary.as_str().unwrap_or_default().to_owned(),
        lines => lines.join("\n"),
    };
    text.chars().take(TEXT_LIMIT).collect()
}

/// Returns a list, which may be JSON in a text. `None` for anything else, and for an empty one.
fn list(value: &Value) -> Option<Cow<'_, [Value]>> {
    let list = match value {
        Value::Array(list) => Cow::Borrowed(list.as_slice()),
        Value::String(text) => Cow::Owned(json::from_str::<Vec<Value>>(text).ok()?),
        _ => return None,
    };
    Some(list).filter(|list| !list.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_message_of_a_record_is_marked() {
        let records = json!([
            {"senderNick": "Ben", "msgType": "text", "content": "/new"},
            {"msgType": "text", "content": {"text": "a]\nb"}},
            {"senderName": "Eve", "msgType": "picture", "content": {"downloadCode": "d"}},
            {"msgType": "richText", "content": {"richText": [{"text": "rich"}]}},
            5,
        ]);
        let expected = "[forwarded from Ben: /new]\n[forwarded:]\n> a]\n> b\n[forwarded from Eve:]\n> [image]\n\
                        [forwarded: rich]\n[forwarded:]\n> [message]";
        for content in [
            json!({"chatRecord": records.to_string(), "summary": "[\"x\"]"}),
            json!({"records": records}),
        ] {
            assert_eq!(forwarded_text(&content), expected);
        }
    }

    #[test]
    fn summary_takes_the_place_of_missing_messages() {
        let table = [
            (
                json!({"summary": "[\"Ben: a\", \"Eve: b\"]"}),
                "[forwarded messages:]\n> Ben: a\n> Eve: b",
            ),
            (
                json!({"summary": "Ben: a", "chatRecord": "[]"}),
                "[forwarded messages: Ben: a]",
            ),
            (json!({"chatRecord": "no json"}), "[forwarded messages]"),
            (json!("odd"), "[forwarded messages]"),
        ];
        for (content, expected) in table {
            assert_eq!(forwarded_text(&content), expected, "{content}");
        }
    }

    #[test]
    fn number_and_length_are_bounded() {
        let long = json!({"content": "語".repeat(TEXT_LIMIT + 1)});
        let text = forwarded_text(&json!({"chatRecord": vec![long; MAX_MESSAGES + 1]}));
        assert_eq!(text.matches('語').count(), MAX_MESSAGES * TEXT_LIMIT);
    }
}
