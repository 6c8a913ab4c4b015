//! Frames of the long connection: JSON in text frames.
//!
//! Decision: read leniently. A frame that cannot be read is passed over, and so is a callback of an
//! unknown command.

use nanobot_channel::{Value, json};
use serde::Deserialize;
use serde_json::json;

use crate::answer::Answer;
use crate::wire::text;

/// The command of the callback of a message, and of an event.
pub(crate) const MESSAGE: &str = "aibot_msg_callback";
pub(crate) const EVENT: &str = "aibot_event_callback";

/// A frame from WeCom.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// An answer to a command.
    Answer {
        /// The id of the command.
        req_id: String,
        /// Its outcome.
        answer: Answer,
    },
    /// A message or an event.
    Callback(Callback),
    /// Anything else.
    Other,
}

/// A message or an event, not parsed yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Callback {
    /// [`MESSAGE`] or [`EVENT`].
    pub(crate) cmd: String,
    /// The id by which it is replied to.
    pub(crate) req_id: String,
    pub(crate) body: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawFrame {
    #[serde(deserialize_with = "text")]
    cmd: String,
    headers: Headers,
    errcode: Value,
    #[serde(deserialize_with = "text")]
    errmsg: String,
    body: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Headers {
    #[serde(deserialize_with = "text")]
    req_id: String,
}

impl Frame {
    /// Reads a frame.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(crate) fn parse(frame: &str) -> Result<Self, String> {
        let RawFrame {
            cmd,
            headers: Headers { req_id },
            errcode,
            errmsg,
            body,
        } = json::from_str(frame).map_err(|error| error.to_string())?;
        if cmd == MESSAGE || cmd == EVENT {
            return Ok(Self::Callback(Callback { cmd, req_id, body }));
        }
        if req_id.is_empty() || (!cmd.is_empty() && errcode.is_null()) {
            return Ok(Self::Other);
        }
        let answer = Answer {
            code: errcode.as_i64(),
            message: errmsg,
            body,
        };
        Ok(Self::Answer { req_id, answer })
    }
}

impl Callback {
    /// `true` if this tells that another connection took over.
    pub(crate) fn is_displaced(&self) -> bool {
        self.cmd == EVENT && event_type(&self.body) == Some("disconnected_event")
    }
}

/// Returns the type of an event.
pub(crate) fn event_type(body: &Value) -> Option<&str> {
    let event = body.get("event")?;
    let kind = event.get("eventtype").or_else(|| event.get("event_type"));
    kind?.as_str()
}

/// Returns the frame of a command.
pub(crate) fn command(cmd: &str, req_id: &str, body: &Value) -> String {
    let mut frame = json!({"cmd": cmd, "headers": {"req_id": req_id}});
    if !body.is_null()
        && let Some(members) = frame.as_object_mut()
    {
        members.insert("body".to_owned(), body.clone());
    }
    frame.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_leniently() {
        let answer = |req_id: &str, code, message: &str, body| Frame::Answer {
            req_id: req_id.to_owned(),
            answer: Answer {
                code,
                message: message.to_owned(),
                body,
            },
        };
        let table = [
            (
                r#"{"headers":{"req_id":"a"},"errcode":0,"errmsg":"ok"}"#,
                answer("a", Some(0), "ok", Value::Null),
            ),
            (
                r#"{"cmd":"ping","headers":{"req_id":7},"errcode":"0","body":{"x":1}}"#,
                answer("7", None, "", json!({"x": 1})),
            ),
            (
                r#"{"headers":{"req_id":"a"}}"#,
                answer("a", None, "", Value::Null),
            ),
            (
                r#"{"cmd":"aibot_msg_callback","headers":{"req_id":"r"},"body":{"msgid":"1"}}"#,
                Frame::Callback(Callback {
                    cmd: MESSAGE.to_owned(),
                    req_id: "r".to_owned(),
                    body: json!({"msgid": "1"}),
                }),
            ),
            (
                r#"{"cmd":"of_tomorrow","headers":{"req_id":"r"}}"#,
                Frame::Other,
            ),
            ("{}", Frame::Other),
        ];
        for (text, expected) in table {
            assert_eq!(Frame::parse(text).unwrap(), expected, "{text}");
        }
        for text in ["", "5", r#"{"headers":5}"#, &"[".repeat(10_000)] {
            assert!(Frame::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn takeover_is_an_event() {
        let callback = |cmd: &str, body| Callback {
            cmd: cmd.to_owned(),
            req_id: "r".to_owned(),
            body,
        };
        let body = json!({"event": {"eventtype": "disconnected_event"}});
        assert!(callback(EVENT, body.clone()).is_displaced());
        assert!(!callback(MESSAGE, body).is_displaced());
        let older = json!({"event": {"event_type": "disconnected_event"}});
        assert!(callback(EVENT, older).is_displaced());
        let other = json!({"event": {"eventtype": "enter_chat"}});
        assert!(!callback(EVENT, other).is_displaced());
    }

    #[test]
    fn command_has_a_body_if_there_is_one() {
        let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        assert_eq!(
            read(command("ping", "p", &Value::Null)),
            json!({"cmd": "ping", "headers": {"req_id": "p"}})
        );
        assert_eq!(read(command("x", "p", &json!({})))["body"], json!({}));
    }
}
