//! Parsing and writing of one line of a session file.
//!
//! Decision: parsing is lenient and never fails. Every JSON object without `_type` counts as a
//! message. The Python program counts the same way, so its `last_consolidated` and our [`Seq`]
//! agree. Fields that this program does not understand go to [`MessageEntry::extra`]. A message of
//! an unknown role is read as a system message, which is kept and never sent.

use std::collections::{BTreeMap, VecDeque};

use nanobot_types::{
    AssistantMessage, CallId, ChatMessage, Content, Map, MediaRef, MessageId, SessionKey,
    Timestamp, ToolCall, ToolMessage, ToolName, UserMessage, json,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::state::SessionState;
use crate::{Entry, MessageEntry, Seq, TurnEnd, timestamp};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A parsed line.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) line: Line,
    /// `true` if the line was written together with the line before it, and is invalid without
    /// that.
    pub(crate) continues: bool,
    /// `true` if the line contains NULs, which a power cut leaves in place of data that was not
    /// written in time.
    pub(crate) holed: bool,
}

/// Kind and content of a line.
#[derive(Debug)]
pub(crate) enum Line {
    /// A blank line.
    Blank,
    /// A message, as its raw fields; see [`message_entry`].
    Message(Map),
    /// A metadata line.
    State(Box<StateLine>),
    /// A record of a kind that only another program knows.
    Foreign,
    /// An unreadable line.
    Bad,
}

/// A metadata line: the complete state at that point.
#[derive(Debug)]
pub(crate) struct StateLine {
    pub(crate) key: Option<SessionKey>,
    pub(crate) state: SessionState,
    /// Number of messages before the line; only this program writes it.
    pub(crate) count: Option<Seq>,
    /// The entry at this point; `None` on lines that only repeat the state.
    pub(crate) entry: Option<Entry>,
}

/// Parses a line without its newline.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let holed = bytes.contains(&0);
    let text = trim(bytes);
    if text.is_empty() {
        let line = if holed { Line::Bad } else { Line::Blank };
        return Parsed {
            line,
            continues: false,
            holed,
        };
    }
    let Ok(Value::Object(mut fields)) = json::from_slice(text) else {
        return Parsed {
            line: Line::Bad,
            continues: false,
            holed,
        };
    };
    let continues = fields.remove("_continues").is_some();
    let line = match fields.get("_type") {
        None => Line::Message(fields),
        Some(Value::String(kind)) if kind == "metadata" => {
            Line::State(Box::new(state_line(fields)))
        }
        Some(_) => Line::Foreign,
    };
    Parsed {
        line,
        continues,
        holed,
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    let is_padding = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
    let mut text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    while let [first, rest @ ..] = text
        && is_padding(first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_padding(last)
    {
        text = rest;
    }
    text
}

fn state_line(mut fields: Map) -> StateLine {
    let time = |value: Option<Value>| {
        value
            .as_ref()
            .and_then(Value::as_str)
            .and_then(timestamp::parse)
    };
    fields.remove("_type");
    let metadata = match fields.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    // `last_archived` is the name of the cursor since v0.3; `last_consolidated` is its original
    // name.
    let archived = fields
        .remove("last_archived")
        .and_then(|value| value.as_u64());
    let consolidated = fields
        .remove("last_consolidated")
        .and_then(|value| value.as_u64());
    let answered = fields
        .remove("_answered")
        .and_then(|value| serde_json::from_value(value).ok());
    let entry = fields
        .remove("_entry")
        .and_then(|value| serde_json::from_value::<EntryField>(value).ok());
    StateLine {
        key: take_text(&mut fields, "key").map(SessionKey::from),
        count: fields
            .remove("_count")
            .and_then(|value| value.as_u64())
            .map(Seq),
        entry: entry.map(Entry::from),
        state: SessionState {
            created_at: time(fields.remove("created_at")),
            updated_at: time(fields.remove("updated_at")),
            metadata,
            cursor: Seq(archived.or(consolidated).unwrap_or_default()),
            cursor_renamed: archived.is_some(),
            answered: answered.unwrap_or_default(),
            extra: fields,
        },
    }
}

/// `_entry` of a metadata line: any [`Entry`] except a message.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum EntryField {
    TurnEnded(TurnEnd),
    Consolidated { upto: Seq },
    Reset,
    Rewound { to: Seq },
    Restored,
    Metadata { changes: Map },
}

impl From<EntryField> for Entry {
    fn from(field: EntryField) -> Self {
        match field {
            EntryField::TurnEnded(end) => Self::TurnEnded(end),
            EntryField::Consolidated { upto } => Self::Consolidated { upto },
            EntryField::Reset => Self::Reset,
            EntryField::Rewound { to } => Self::Rewound { to },
            EntryField::Restored => Self::Restored,
            EntryField::Metadata { changes } => Self::Metadata(changes),
        }
    }
}

fn take_text(fields: &mut Map, key: &str) -> Option<String> {
    match fields.remove(key)? {
        Value::String(text) => Some(text),
        other => {
            fields.insert(key.to_owned(), other);
            None
        }
    }
}

fn take_list(fields: &mut Map, key: &str) -> Vec<Value> {
    match fields.remove(key) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// `true` if a message line has a role and its tool calls, if any, can be parsed. Other lines are
/// reported but kept.
pub(crate) fn is_sound(fields: &Map) -> bool {
    fields.get("role").is_some_and(Value::is_string)
        && fields.get("tool_calls").is_none_or(are_calls)
}

fn are_calls(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(calls) => calls.iter().all(|call| ToolCall::deserialize(call).is_ok()),
        _ => false,
    }
}

/// Converts the fields of a line to a message. A message without a readable time gets the time of
/// the Unix epoch.
pub(crate) fn message_entry(mut fields: Map) -> MessageEntry {
    let at = fields
        .get("timestamp")
        .and_then(Value::as_str)
        .and_then(timestamp::parse);
    if at.is_some() {
        fields.remove("timestamp");
    }
    let message = message(&mut fields);
    MessageEntry {
        message: message.into(),
        inbound: take_text(&mut fields, "_inbound").map(MessageId::from),
        runtime: take_text(&mut fields, "_runtime"),
        at: at.unwrap_or_default(),
        extra: fields,
    }
}

fn message(fields: &mut Map) -> ChatMessage {
    let role = take_text(fields, "role");
    match role.as_deref() {
        Some("user") => ChatMessage::User(UserMessage {
            content: take_content(fields),
            media: take_media(fields),
        }),
        Some("assistant") => ChatMessage::Assistant(AssistantMessage {
            content: fields
                .remove("content")
                .filter(|value| !value.is_null())
                .map(content),
            tool_calls: take_calls(fields),
            reasoning_content: take_text(fields, "reasoning_content"),
            thinking_blocks: take_list(fields, "thinking_blocks"),
            provider: take_text(fields, "_provider").map(Into::into),
        }),
        Some("tool") => ChatMessage::Tool(ToolMessage {
            tool_call_id: take_text(fields, "tool_call_id").unwrap_or_default().into(),
            name: take_text(fields, "name").map(ToolName::from),
            content: take_content(fields),
            media: take_media(fields),
        }),
        _ => {
            if let Some(role) = role.filter(|role| role != "system") {
                fields.insert("role".to_owned(), Value::String(role));
            }
            ChatMessage::System {
                content: take_content(fields),
            }
        }
    }
}

fn take_content(fields: &mut Map) -> Content {
    fields
        .remove("content")
        .map_or_else(|| Content::from(""), content)
}

fn content(value: Value) -> Content {
    match value {
        Value::Null => Content::from(""),
        Value::String(text) => Content::Text(text),
        Value::Array(_) => {
            let text = value.to_string();
            serde_json::from_value(value).map_or(Content::Text(text), Content::Blocks)
        }
        other => Content::Text(other.to_string()),
    }
}

/// Takes the tool calls. Calls without an id or a name cannot be answered, so they are left out;
/// they stay in the file.
fn take_calls(fields: &mut Map) -> Vec<ToolCall> {
    take_list(fields, "tool_calls")
        .into_iter()
        .filter_map(|call| ToolCall::deserialize(call).ok())
        .collect()
}

fn take_media(fields: &mut Map) -> Vec<MediaRef> {
    let mut types = take_list(fields, "_media_types").into_iter();
    let mut media = Vec::new();
    for value in take_list(fields, "media") {
        let mime = types
            .next()
            .as_ref()
            .and_then(Value::as_str)
            .map(str::to_owned);
        if let Value::String(location) = value {
            media.push(MediaRef { location, mime });
        }
    }
    media
}

#[derive(Serialize)]
struct MessageLine<'a> {
    role: &'a str,
    content: Option<&'a Content>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_calls: &'a [ToolCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a ToolName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    thinking_blocks: &'a [Value],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    media: Vec<&'a str>,
    timestamp: String,
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "_media_types")]
    media_types: Vec<Option<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "_provider")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "_inbound")]
    inbound: Option<&'a MessageId>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "_runtime")]
    runtime: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not", rename = "_continues")]
    continues: bool,
    #[serde(flatten)]
    extra: BTreeMap<&'a str, &'a Value>,
}

impl<'a> MessageLine<'a> {
    fn new(entry: &'a MessageEntry, continues: bool) -> Self {
        let mut line = Self {
            role: entry.message.role(),
            content: None,
            tool_calls: &[],
            tool_call_id: None,
            name: None,
            reasoning_content: None,
            thinking_blocks: &[],
            media: Vec::new(),
            timestamp: timestamp::render(&entry.at),
            media_types: Vec::new(),
            provider: None,
            inbound: entry.inbound.as_ref(),
            runtime: entry.runtime.as_deref(),
            continues,
            extra: BTreeMap::new(),
        };
        match &*entry.message {
            ChatMessage::System { content } => {
                line.content = Some(content);
                line.role = entry
                    .extra
                    .get("role")
                    .and_then(Value::as_str)
                    .unwrap_or(line.role);
            }
            ChatMessage::User(user) => {
                line.content = Some(&user.content);
            }
            ChatMessage::Assistant(assistant) => {
                line.content = assistant.content.as_ref();
                line.tool_calls = &assistant.tool_calls;
                line.reasoning_content = assistant.reasoning_content.as_deref();
                line.thinking_blocks = &assistant.thinking_blocks;
                line.provider = assistant.provider.as_ref().map(AsRef::as_ref);
            }
            ChatMessage::Tool(tool) => {
                line.content = Some(&tool.content);
                line.tool_call_id = Some(&tool.tool_call_id);
                line.name = tool.name.as_ref();
            }
        }
        let media = entry.message.media();
        line.media = media.iter().map(|file| file.location.as_str()).collect();
        if media.iter().any(|file| file.mime.is_some()) {
            line.media_types = media.iter().map(|file| file.mime.as_deref()).collect();
        }
        let extra = entry.extra.iter().filter(|(key, _)| !line.writes(key));
        line.extra = extra.map(|(key, value)| (key.as_str(), value)).collect();
        line
    }

    /// `true` if `key` is written as a field of this line. Such keys of `extra` are left out, so
    /// that no line has a key twice.
    fn writes(&self, key: &str) -> bool {
        match key {
            "role" | "content" | "timestamp" | "_type" => true,
            "tool_calls" => !self.tool_calls.is_empty(),
            "tool_call_id" => self.tool_call_id.is_some(),
            "name" => self.name.is_some(),
            "reasoning_content" => self.reasoning_content.is_some(),
            "thinking_blocks" => !self.thinking_blocks.is_empty(),
            "media" => !self.media.is_empty(),
            "_media_types" => !self.media_types.is_empty(),
            "_provider" => self.provider.is_some(),
            "_inbound" => self.inbound.is_some(),
            "_runtime" => self.runtime.is_some(),
            "_continues" => self.continues,
            _ => false,
        }
    }
}

#[derive(Serialize)]
struct MetadataLine<'a> {
    #[serde(rename = "_type")]
    kind: &'static str,
    key: &'a SessionKey,
    created_at: Option<String>,
    updated_at: Option<String>,
    metadata: &'a Map,
    last_consolidated: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_archived: Option<Seq>,
    #[serde(rename = "_count")]
    count: Seq,
    #[serde(skip_serializing_if = "VecDeque::is_empty", rename = "_answered")]
    answered: &'a VecDeque<Vec<MessageId>>,
    #[serde(skip_serializing_if = "Option::is_none", rename = "_entry")]
    entry: Option<EntryField>,
    #[serde(skip_serializing_if = "std::ops::Not::not", rename = "_continues")]
    continues: bool,
    #[serde(flatten)]
    extra: &'a Map,
}

/// Appends the line of a message to `buffer`; `continues` is that of [`Parsed`].
pub(crate) fn write_message(
    buffer: &mut Vec<u8>,
    entry: &MessageEntry,
    continues: bool,
) -> serde_json::Result<()> {
    write_line(buffer, &MessageLine::new(entry, continues))
}

/// Appends a metadata line with the state after `entry` to `buffer`; `continues` is that of
/// [`Parsed`].
pub(crate) fn write_state(
    buffer: &mut Vec<u8>,
    key: &SessionKey,
    state: &SessionState,
    count: Seq,
    entry: Option<&Entry>,
    continues: bool,
) -> serde_json::Result<()> {
    let time = |at: Option<Timestamp>| at.as_ref().map(timestamp::render);
    let entry = entry.and_then(|entry| match entry {
        Entry::Message(_) => None,
        Entry::TurnEnded(end) => Some(EntryField::TurnEnded(end.clone())),
        Entry::Consolidated { upto } => Some(EntryField::Consolidated { upto: *upto }),
        Entry::Reset => Some(EntryField::Reset),
        Entry::Rewound { to } => Some(EntryField::Rewound { to: *to }),
        Entry::Restored => Some(EntryField::Restored),
        Entry::Metadata(changes) => Some(EntryField::Metadata {
            changes: changes.clone(),
        }),
    });
    write_line(
        buffer,
        &MetadataLine {
            kind: "metadata",
            key,
            created_at: time(state.created_at),
            updated_at: time(state.updated_at),
            metadata: &state.metadata,
            last_consolidated: state.cursor,
            last_archived: state.cursor_renamed.then_some(state.cursor),
            count,
            answered: &state.answered,
            entry,
            continues,
            extra: &state.extra,
        },
    )
}

fn write_line(buffer: &mut Vec<u8>, line: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *buffer, line)?;
    buffer.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> MessageEntry {
        match parse(line.as_bytes()).line {
            Line::Message(fields) => message_entry(fields),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn written(entry: &MessageEntry) -> String {
        let mut buffer = Vec::new();
        write_message(&mut buffer, entry, false).unwrap();
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn known_lines_round_trip() {
        for line in [
            r#"{"role":"user","content":"hi","media":["/a.png","/b"],"timestamp":"2026-03-15T14:30:00.000001","_media_types":["image/png",null],"_inbound":"telegram:1:7","_runtime":"[R]"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"exec","arguments":"{\"a\": 1}"}}],"reasoning_content":"R","thinking_blocks":[{"signature":"s"}],"timestamp":"2026-03-15T14:30:00.000001","_provider":"anthropic"}"#,
            r#"{"role":"tool","content":"ok","tool_call_id":"c","name":"exec","timestamp":"2026-03-15T14:30:00.000001"}"#,
            r#"{"role":"narrator","content":"and then","timestamp":"2026-03-15T14:30:00.000001","tools_used":["a"]}"#,
            r#"{"role":"assistant","content":[{"text":"x","type":"text"}],"timestamp":"2026-03-15T14:30:00.000001","name":"bot"}"#,
        ] {
            assert_eq!(
                serde_json::from_str::<Value>(&written(&read(line))).unwrap(),
                serde_json::from_str::<Value>(line).unwrap()
            );
        }
    }

    #[test]
    fn reads_messages_of_any_shape() {
        for line in [
            r#"{"role":5,"content":"x"}"#,
            r#"{"content":{"a":1}}"#,
            r#"{"role":"tool"}"#,
            r#"{"role":"assistant","tool_calls":[{"nothing":1}],"thinking_blocks":null,"content":7}"#,
            r#"{"role":"user","content":null,"media":[3],"timestamp":12}"#,
            "{}",
        ] {
            assert!(!written(&read(line)).is_empty(), "{line}");
        }
    }
}
