//! The protocol in types. `docs/websocket.md` describes it.

use nanobot_channel::{
    Button, ChatId, MediaRef, MessageId, OutboundKind, OutboundPart, StreamId, Value, json,
};
use serde::Serialize;

/// The longest chat, client or message id that a client may choose, in bytes.
pub const LONGEST_ID: usize = 128;

/// A frame of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// A message for the assistant.
    Message {
        /// The chat; the connection's own when absent.
        chat_id: Option<ChatId>,
        /// The client's id of the message, for its acknowledgement and against duplicates.
        id: Option<MessageId>,
        /// The text.
        content: String,
    },
    /// Asks for a new chat.
    NewChat,
    /// Asks for the messages of another chat.
    Attach {
        /// The chat.
        chat_id: ChatId,
    },
}

impl ClientFrame {
    /// Reads a text frame: a JSON object of the protocol, else bare text.
    ///
    /// # Errors
    /// Returns the reason, for the client's programmer.
    pub fn parse(text: &str) -> Result<Self, String> {
        // `42` and `{nonsense` are texts of a person.
        let Ok(Value::Object(object)) = json::from_str(text) else {
            return Self::message(None, None, text);
        };
        let field = |key: &str| object.get(key).filter(|value| !value.is_null());
        let chat_id = field("chat_id")
            .map(|value| id("chat_id", value).map(ChatId::from))
            .transpose()?;
        match field("type").map(|kind| kind.as_str().unwrap_or_default()) {
            Some("new_chat") => Ok(Self::NewChat),
            Some("attach") => chat_id
                .map(|chat_id| Self::Attach { chat_id })
                .ok_or_else(|| "attach needs a chat_id".to_owned()),
            Some("message") | None => {
                let id = field("id")
                    .map(|value| id("id", value).map(MessageId::from))
                    .transpose()?;
                let content = ["content", "text", "message"]
                    .into_iter()
                    .find_map(field)
                    .and_then(Value::as_str);
                let content = content.ok_or("a message needs its text as a string in `content`")?;
                Self::message(chat_id, id, content)
            }
            Some(_) => Err("unknown type: there are message, new_chat and attach".to_owned()),
        }
    }

    fn message(
        chat_id: Option<ChatId>,
        id: Option<MessageId>,
        content: &str,
    ) -> Result<Self, String> {
        if content.trim().is_empty() {
            return Err("the message is empty".to_owned());
        }
        Ok(Self::Message {
            chat_id,
            id,
            content: content.to_owned(),
        })
    }
}

/// Reads an id that a client chose, from a string or a number.
fn id(key: &str, value: &Value) -> Result<String, String> {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    if is_id(&text) {
        Ok(text)
    } else {
        Err(format!(
            "`{key}` has to be 1 to {LONGEST_ID} of A-Z a-z 0-9 . _ : -"
        ))
    }
}

/// `true` if a client may use this as an id. `|` is excluded, because it separates names in lists
/// of people.
#[must_use]
pub fn is_id(text: &str) -> bool {
    (1..=LONGEST_ID).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

/// An event of the server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum ServerEvent<'a> {
    /// The first event: the connection may be used.
    Ready {
        /// The connection's own chat.
        chat_id: &'a ChatId,
        /// The client's name on the server.
        client_id: &'a str,
    },
    /// The connection receives this chat from now on.
    Attached {
        /// The chat.
        chat_id: &'a ChatId,
    },
    /// A message with an id is durable, or was already.
    Ack {
        /// The chat it went to.
        chat_id: &'a ChatId,
        /// The client's id of it.
        id: &'a MessageId,
    },
    /// Something went wrong.
    Error {
        /// The reason as text.
        detail: &'a str,
        /// The message that it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a MessageId>,
        /// `true` if sending the message again later can help.
        retry: bool,
    },
    /// A part of a message of the assistant.
    Message(MessageEvent<'a>),
    /// A piece of text that is being written.
    Delta {
        /// The chat.
        chat_id: &'a ChatId,
        /// The run of text it belongs to.
        stream_id: &'a StreamId,
        /// The piece.
        text: &'a str,
    },
    /// The assistant is done with a message, with or without a reply.
    TurnEnd {
        /// The chat.
        chat_id: &'a ChatId,
        /// The client's id of that message.
        #[serde(skip_serializing_if = "Option::is_none")]
        reply_to: Option<&'a MessageId>,
    },
    /// A run of text ended.
    StreamEnd {
        /// The chat.
        chat_id: &'a ChatId,
        /// The run.
        stream_id: &'a StreamId,
        /// `true` if another run follows after tools ran.
        resuming: bool,
    },
}

/// A part of a message of the assistant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MessageEvent<'a> {
    /// The chat.
    pub chat_id: &'a ChatId,
    /// The same whenever this part is sent again: a client ignores an id that it has seen.
    pub id: String,
    /// `final`, `notice`, `progress` or `tool_hint`.
    pub kind: &'static str,
    /// Markdown.
    pub text: &'a str,
    /// Number of the part, from 1.
    pub part: u32,
    /// Number of all parts.
    pub parts: u32,
    /// The run of text whose place the message takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_id: Option<&'a StreamId>,
    /// The client's id of the message it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<&'a MessageId>,
    /// Files and addresses that belong to it; with the first part only.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub media: &'a [MediaRef],
    /// Rows of choices; with the first part only.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub buttons: &'a [Vec<Button>],
}

impl<'a> MessageEvent<'a> {
    /// The event of a part.
    #[must_use]
    pub fn of_part(part: &'a OutboundPart) -> Self {
        let message = &*part.message;
        let first = part.index == 0;
        Self {
            chat_id: &message.chat_id,
            id: part.idempotency_key(),
            kind: match message.kind {
                OutboundKind::Progress => "progress",
                OutboundKind::ToolHint => "tool_hint",
                OutboundKind::Notice => "notice",
                OutboundKind::Question => "question",
                OutboundKind::Activity { .. }
                | OutboundKind::Final
                | OutboundKind::Delta { .. }
                | OutboundKind::StreamEnd { .. }
                | OutboundKind::Withdrawn { .. }
                | OutboundKind::TurnEnd { .. } => "final",
            },
            text: &part.text,
            part: part.index.saturating_add(1),
            parts: part.count,
            stream_id: message.completes.as_ref(),
            reply_to: message.delivery.reply_to.as_ref(),
            media: if first { &message.media } else { &[] },
            buttons: if first { &message.buttons } else { &[] },
        }
    }
}

impl ServerEvent<'_> {
    /// The text frame.
    #[must_use]
    pub fn to_frame(&self) -> String {
        // Every value of these types has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(
        chat_id: Option<&str>,
        id: Option<&str>,
        content: &str,
    ) -> Result<ClientFrame, String> {
        let (chat_id, id) = (chat_id.map(Into::into), id.map(Into::into));
        Ok(ClientFrame::Message {
            chat_id,
            id,
            content: content.to_owned(),
        })
    }

    #[test]
    fn frames_are_read_as_documented() {
        let table = [
            ("hello", message(None, None, "hello")),
            ("42", message(None, None, "42")),
            ("{broken", message(None, None, "{broken")),
            (r#"{"content":"a"}"#, message(None, None, "a")),
            (r#"{"text":"a","id":7}"#, message(None, Some("7"), "a")),
            (
                r#"{"message":"a","chat_id":"c-1"}"#,
                message(Some("c-1"), None, "a"),
            ),
            (
                r#"{"type":"message","chat_id":"c","content":"a","id":"x"}"#,
                message(Some("c"), Some("x"), "a"),
            ),
            (r#"{"type":"new_chat"}"#, Ok(ClientFrame::NewChat)),
            (
                r#"{"type":"attach","chat_id":"c"}"#,
                Ok(ClientFrame::Attach {
                    chat_id: "c".into(),
                }),
            ),
        ];
        for (text, frame) in table {
            assert_eq!(ClientFrame::parse(text), frame, "{text}");
        }
        let wrong = [
            "  ",
            "{}",
            r#"{"content":7}"#,
            r#"{"content":""}"#,
            r#"{"type":"attach"}"#,
            r#"{"type":"dance"}"#,
            r#"{"type":7,"content":"a"}"#,
            r#"{"content":"a","chat_id":"../x"}"#,
            r#"{"content":"a","id":"1|2"}"#,
            r#"{"content":"a","id":""}"#,
        ];
        for text in wrong {
            assert!(ClientFrame::parse(text).is_err(), "{text}");
        }
    }
}
