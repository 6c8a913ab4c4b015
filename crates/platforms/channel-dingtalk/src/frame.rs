//! Frames of Stream mode: JSON in text frames, with the content as JSON in a text.
//!
//! Decision: read leniently. A frame that cannot be read is passed over, and what is not known is
//! confirmed, so that DingTalk does not repeat it.

use nanobot_channel::{Value, json};
use serde::Deserialize;
use serde_json::json;

use crate::wire::text;

/// A frame from DingTalk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) topic: String,
    /// The id by which the frame is confirmed.
    pub(crate) id: String,
    /// JSON in a text.
    pub(crate) data: String,
}

/// The type of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// About the connection.
    System,
    /// A message, or another answer to a subscription.
    Callback,
    /// Anything else.
    #[default]
    Other,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawFrame {
    #[serde(rename = "type", deserialize_with = "text")]
    kind: String,
    headers: Headers,
    data: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Headers {
    #[serde(deserialize_with = "text")]
    message_id: String,
    #[serde(deserialize_with = "text")]
    topic: String,
}

impl Frame {
    /// Reads a frame.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(crate) fn parse(frame: &str) -> Result<Self, String> {
        let RawFrame {
            kind,
            headers: Headers { message_id, topic },
            data,
        } = json::from_str(frame).map_err(|error| error.to_string())?;
        Ok(Self {
            kind: match kind.as_str() {
                "SYSTEM" => FrameKind::System,
                "CALLBACK" => FrameKind::Callback,
                _ => FrameKind::Other,
            },
            topic,
            id: message_id,
            data: match data {
                Value::Null => String::new(),
                Value::String(data) => data,
                data => data.to_string(),
            },
        })
    }

    /// Returns the answer to a frame of the connection: its own content.
    pub(crate) fn echo(&self) -> String {
        confirmation(&self.id, &self.data)
    }
}

/// Returns the confirmation of a message that is stored.
pub(crate) fn acknowledgement(id: &str) -> String {
    confirmation(id, r#"{"response":"OK"}"#)
}

fn confirmation(id: &str, data: &str) -> String {
    let confirmation = json!({
        "code": 200, "headers": {"contentType": "application/json", "messageId": id},
        "message": "OK", "data": data,
    });
    confirmation.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_leniently() {
        let frame = |kind, topic: &str, id: &str, data: &str| Frame {
            kind,
            topic: topic.to_owned(),
            id: id.to_owned(),
            data: data.to_owned(),
        };
        let table = [
            (
                r#"{"specVersion":"1.0","type":"SYSTEM","headers":{"topic":"ping","messageId":"m1"},"data":"{\"opaque\":\"1\"}"}"#,
                frame(FrameKind::System, "ping", "m1", r#"{"opaque":"1"}"#),
            ),
            (
                r#"{"type":"CALLBACK","headers":{"topic":"/v1.0/im/bot/messages/get"},"data":{"msgId":"1"}}"#,
                frame(
                    FrameKind::Callback,
                    "/v1.0/im/bot/messages/get",
                    "",
                    r#"{"msgId":"1"}"#,
                ),
            ),
            (r#"{"type":"EVENT"}"#, Frame::default()),
            (
                r#"{"type":7,"headers":{"messageId":8}}"#,
                frame(FrameKind::Other, "", "8", ""),
            ),
        ];
        for (text, expected) in table {
            assert_eq!(Frame::parse(text).unwrap(), expected, "{text}");
        }
        for text in ["", "5", r#"{"headers":5}"#, &"[".repeat(10_000)] {
            assert!(Frame::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn confirmations_name_their_frame() {
        let frame = Frame {
            id: "m\"1".to_owned(),
            data: "{\"opaque\":1}".to_owned(),
            ..Frame::default()
        };
        let echo: Value = serde_json::from_str(&frame.echo()).unwrap();
        assert_eq!(
            (&echo["headers"]["messageId"], &echo["data"]),
            (&json!("m\"1"), &json!("{\"opaque\":1}"))
        );
        let stored: Value = serde_json::from_str(&acknowledgement("m2")).unwrap();
        assert_eq!(stored["data"], json!(r#"{"response":"OK"}"#));
    }
}
