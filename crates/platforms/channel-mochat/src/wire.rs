//! Sessions, panels, events and messages of Mochat, as far as they are used.
//!
//! Decision: read leniently, from JSON values. A person's message has to arrive whatever Mochat
//! adds to it, so every field may be missing, and fields of another type count as missing.

use nanobot_channel::{Timestamp, Value};

/// Largest number of events of an answer or a push, and of entries of a list.
const MAX_ENTRIES: usize = 2000;
/// Longest id, in bytes.
const MAX_ID: usize = 256;
/// Largest position: Mochat counts in JavaScript, which cannot count further one by one.
const MAX_POSITION: u64 = (1 << 53) - 1;

/// An event type of a new message.
pub(crate) const MESSAGE_ADDED: &str = "message.add";

/// News of a session or a panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Batch {
    /// The id of the session or the panel.
    pub(crate) target: String,
    /// The position after the events.
    pub(crate) cursor: Option<u64>,
    pub(crate) events: Vec<Event>,
    /// `true` if fewer events were asked for than usual.
    pub(crate) is_cut: bool,
}

/// An event of a session or a panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Event {
    /// Its position.
    pub(crate) seq: Option<u64>,
    /// Its type ([`MESSAGE_ADDED`] and others).
    pub(crate) kind: String,
    /// Its time, as Mochat writes it.
    pub(crate) timestamp: Value,
    pub(crate) payload: Value,
}

impl Batch {
    /// Reads an answer or a push. `None` if it names no session or panel.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let target = id_at(value, &["sessionId", "panelId"])?;
        Some(Self {
            target,
            cursor: position_at(value, "cursor"),
            events: list_at(value, "events").map(Event::read).collect(),
            is_cut: false,
        })
    }

    /// `true` if more events may follow after an answer with at most `limit`.
    pub(crate) fn is_full(&self, limit: usize) -> bool {
        let limit = if self.is_cut { 1 } else { limit };
        self.events.len() >= limit
    }

    /// Reads the answer to a subscription: one, or a list of them.
    pub(crate) fn read_all(data: &Value) -> Vec<Self> {
        match data {
            Value::Array(items) => items
                .iter()
                .take(MAX_ENTRIES)
                .filter_map(Self::read)
                .collect(),
            data if data.get("sessions").is_some() => {
                list_at(data, "sessions").filter_map(Self::read).collect()
            }
            data => Self::read(data).into_iter().collect(),
        }
    }
}

impl Event {
    fn read(value: &Value) -> Self {
        Self {
            seq: position_at(value, "seq"),
            kind: text_at(value, &["type"]),
            timestamp: value.get("timestamp").cloned().unwrap_or_default(),
            payload: value.get("payload").cloned().unwrap_or_default(),
        }
    }
}

/// Returns a position; `None` for a number that is none.
fn position_at(value: &Value, key: &str) -> Option<u64> {
    let position = value.get(key)?.as_u64()?;
    Some(position).filter(|position| *position <= MAX_POSITION)
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChatMessage {
    /// Empty if it is not known.
    pub(crate) id: String,
    pub(crate) author: String,
    /// A text, or a structure of another client.
    pub(crate) content: Value,
    /// Mentions, among others.
    pub(crate) meta: Value,
    /// The group of the session or the panel; empty if there is none.
    pub(crate) group: String,
    pub(crate) sender_name: String,
    pub(crate) sender_username: String,
    /// In milliseconds.
    pub(crate) timestamp: Option<i64>,
}

impl ChatMessage {
    /// Reads the payload of an event, or a message of a list. `timestamp` is that of the event.
    pub(crate) fn read(payload: &Value, timestamp: &Value) -> Self {
        let author = payload.get("authorInfo").unwrap_or(&Value::Null);
        let created = payload.get("createdAt").unwrap_or(&Value::Null);
        Self {
            id: id_at(payload, &["messageId", "_id"]).unwrap_or_default(),
            author: id_at(payload, &["author"]).unwrap_or_default(),
            content: payload.get("content").cloned().unwrap_or_default(),
            meta: payload.get("meta").cloned().unwrap_or_default(),
            group: id_at(payload, &["groupId"]).unwrap_or_default(),
            sender_name: text_at(author, &["nickname", "email"]),
            sender_username: text_at(author, &["agentId"]),
            timestamp: milliseconds(timestamp).or_else(|| milliseconds(created)),
        }
    }

    /// Reads the entry of an inbox, which has the beginning of a message.
    pub(crate) fn read_inbox(entry: &Value) -> Self {
        let detail = entry.get("payload").unwrap_or(&Value::Null);
        let id = id_at(detail, &["messageId"]).or_else(|| id_at(entry, &["_id"]));
        Self {
            id: id.unwrap_or_default(),
            author: id_at(detail, &["messageAuthor"]).unwrap_or_default(),
            content: text_at(detail, &["messagePlainContent", "messageSnippet"]).into(),
            timestamp: entry.get("createdAt").and_then(milliseconds),
            ..Self::default()
        }
    }
}

/// The newest messages of a panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PanelPage {
    /// The group of the panel.
    pub(crate) group: String,
    /// The oldest first.
    pub(crate) messages: Vec<Value>,
}

impl PanelPage {
    /// Reads an answer, whose first message is the newest.
    pub(crate) fn read(value: &Value) -> Self {
        let mut messages: Vec<Value> = list_at(value, "messages").cloned().collect();
        messages.reverse();
        Self {
            group: id_at(value, &["groupId"]).unwrap_or_default(),
            messages,
        }
    }
}

/// Sessions and panels that Mochat lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Directory {
    /// The ids of sessions, and of their conversations.
    pub(crate) sessions: Vec<(String, Option<String>)>,
    /// The ids of text panels.
    pub(crate) panels: Vec<String>,
}

/// Reads a list of sessions.
pub(crate) fn read_sessions(value: &Value) -> Vec<(String, Option<String>)> {
    let sessions = list_at(value, "sessions");
    let session =
        |entry: &Value| Some((id_at(entry, &["sessionId"])?, id_at(entry, &["converseId"])));
    sessions.filter_map(session).collect()
}

/// Reads a list of panels, and leaves those out that have no text.
pub(crate) fn read_panels(value: &Value) -> Vec<String> {
    let panels = list_at(value, "panels");
    let has_text = |panel: &&Value| {
        let kind = panel.get("type").and_then(Value::as_i64);
        kind.unwrap_or_default() == 0
    };
    let panels = panels.filter(has_text);
    panels
        .filter_map(|panel| id_at(panel, &["id", "_id"]))
        .collect()
}

/// Returns the entries of a list, up to a limit.
fn list_at<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    let list = value.get(key).and_then(Value::as_array);
    list.into_iter().flatten().take(MAX_ENTRIES)
}

/// Returns the first of these fields that holds an id: a short text or a number.
pub(crate) fn id_at(value: &Value, keys: &[&str]) -> Option<String> {
    let id = text_at(value, keys);
    let is_id = !id.is_empty() && id.len() <= MAX_ID && !id.contains(char::is_control);
    is_id.then_some(id)
}

/// Returns the first of these fields that holds a text that is not blank, or a number, trimmed;
/// otherwise an empty text.
pub(crate) fn text_at(value: &Value, keys: &[&str]) -> String {
    let text = |key: &&str| match value.get(*key)? {
        Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    keys.iter().find_map(text).unwrap_or_default()
}

/// Reads a time in milliseconds, or a date.
fn milliseconds(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => {
            let time = Timestamp::parse_from_rfc3339(text.trim()).ok()?;
            Some(time.timestamp_millis())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_beyond_those_of_javascript_are_no_positions() {
        let largest = (1_u64 << 53) - 1;
        for (number, expected) in [
            (largest, Some(largest)),
            (largest + 1, None),
            (u64::MAX, None),
        ] {
            let batch = json!({"sessionId": "s", "cursor": number, "events": [{"seq": number}]});
            let batch = Batch::read(&batch).unwrap();
            assert_eq!((batch.cursor, batch.events[0].seq), (expected, expected));
        }
    }

    #[test]
    fn batches_are_read_leniently() {
        let event = json!({"seq": 3, "type": "message.add", "timestamp": "2026-01-01T00:00:00Z",
                           "payload": {"messageId": "m"}});
        let batch = Batch::read(&json!({"sessionId": "s", "cursor": 3, "events": [event, 5]}));
        let expected = Batch {
            target: "s".to_owned(),
            cursor: Some(3),
            events: vec![
                Event {
                    seq: Some(3),
                    kind: MESSAGE_ADDED.to_owned(),
                    timestamp: json!("2026-01-01T00:00:00Z"),
                    payload: json!({"messageId": "m"}),
                },
                Event::default(),
            ],
            is_cut: false,
        };
        assert_eq!(batch, Some(expected));
        let odd = json!({"panelId": "p", "cursor": -1, "events": {}});
        let odd = Batch::read(&odd).unwrap();
        assert_eq!(
            (odd.target.as_str(), odd.cursor, odd.events.len()),
            ("p", None, 0)
        );
        for value in [
            json!(null),
            json!([]),
            json!({"sessionId": "x".repeat(300)}),
        ] {
            assert_eq!(Batch::read(&value), None, "{value}");
        }
    }

    #[test]
    fn answers_to_a_subscription_have_three_shapes() {
        let one = json!({"sessionId": "a"});
        let count = |value: Value| Batch::read_all(&value).len();
        assert_eq!(count(one.clone()), 1);
        assert_eq!(count(json!([one, {"sessionId": "b"}, 5])), 2);
        assert_eq!(count(json!({"sessions": [one]})), 1);
        assert_eq!(count(json!(null)) + count(json!("x")), 0);
    }

    #[test]
    fn messages_are_read_from_every_source() {
        let payload = json!({
            "messageId": "m1", "author": "u1", "content": "hello", "meta": {"a": 1}, "groupId": "g1",
            "createdAt": 5, "authorInfo": {"nickname": " Ann ", "email": "a@x", "agentId": "ann"},
        });
        let message = ChatMessage {
            id: "m1".to_owned(),
            author: "u1".to_owned(),
            content: json!("hello"),
            meta: json!({"a": 1}),
            group: "g1".to_owned(),
            sender_name: "Ann".to_owned(),
            sender_username: "ann".to_owned(),
            timestamp: Some(5),
        };
        assert_eq!(ChatMessage::read(&payload, &Value::Null), message);
        let dated = ChatMessage::read(&payload, &json!("1970-01-01T00:00:01.5Z"));
        assert_eq!(dated.timestamp, Some(1500));
        let entry = json!({"_id": "i1", "type": "message", "createdAt": "x", "payload": {
            "messageAuthor": "u1", "messagePlainContent": "", "messageSnippet": "hel",
        }});
        let inbox = ChatMessage {
            id: "i1".to_owned(),
            author: "u1".to_owned(),
            content: json!("hel"),
            ..ChatMessage::default()
        };
        assert_eq!(ChatMessage::read_inbox(&entry), inbox);
        assert_eq!(
            ChatMessage::read(&json!([]), &json!({})),
            ChatMessage::default()
        );
    }

    #[test]
    fn lists_are_read() {
        let sessions = json!({"sessions": [
            {"sessionId": "s1", "converseId": "c1"}, {"sessionId": "s2"}, {"converseId": "c3"}, 5,
        ]});
        let expected = [("s1", Some("c1")), ("s2", None)];
        let expected = expected.map(|(id, converse)| (id.to_owned(), converse.map(str::to_owned)));
        assert_eq!(read_sessions(&sessions), expected);
        let panels = json!({"panels": [
            {"id": "p1", "type": 0}, {"_id": "p2"}, {"id": "p3", "type": 1}, {"type": 0},
        ]});
        assert_eq!(read_panels(&panels), ["p1", "p2"]);
        let page = json!({"groupId": "g", "messages": [{"messageId": "2"}, {"messageId": "1"}]});
        let page = PanelPage::read(&page);
        assert_eq!(page.group, "g");
        assert_eq!(
            page.messages,
            [json!({"messageId": "1"}), json!({"messageId": "2"})]
        );
    }
}
