//! Frames of the gateway: an operation, a number and a name for events, and content.

use nanobot_channel::json;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Secret;

/// The events of groups and people, and those of members of guilds.
const INTENTS: u64 = 1 << 25 | 1 << 12;

/// Operations.
pub(crate) mod op {
    /// An event.
    pub(crate) const DISPATCH: u64 = 0;
    /// A heartbeat, or the request for one.
    pub(crate) const HEARTBEAT: u64 = 1;
    /// Begins a session.
    pub(crate) const IDENTIFY: u64 = 2;
    /// Continues a session.
    pub(crate) const RESUME: u64 = 6;
    /// Asks for a new connection.
    pub(crate) const RECONNECT: u64 = 7;
    /// Refuses a session.
    pub(crate) const INVALID_SESSION: u64 = 9;
    /// Greets a connection.
    pub(crate) const HELLO: u64 = 10;
    /// Answers a heartbeat.
    pub(crate) const HEARTBEAT_ACK: u64 = 11;
}

/// A frame whose content is not read yet.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame<'a> {
    pub(crate) op: u64,
    /// The number of an event.
    #[serde(default)]
    s: Option<Value>,
    /// The name of an event.
    #[serde(default)]
    t: Option<Value>,
    #[serde(default, borrow)]
    d: Option<&'a RawValue>,
}

impl<'a> Frame<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        json::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns the number of an event.
    pub(crate) fn number(&self) -> Option<u64> {
        self.s.as_ref()?.as_u64().filter(|number| *number > 0)
    }

    /// Returns the name of an event.
    pub(crate) fn event(&self) -> &str {
        let name = self.t.as_ref().and_then(Value::as_str);
        name.unwrap_or_default()
    }

    /// Returns the content as it is.
    pub(crate) fn payload(&self) -> &'a str {
        self.d.map_or("null", RawValue::get)
    }

    /// Reads the content; `None` if it is of another form.
    pub(crate) fn content<T: DeserializeOwned>(&self) -> Option<T> {
        json::from_str(self.payload()).ok()
    }
}

/// The content of the frame that greets a connection.
#[derive(Debug, Deserialize)]
pub(crate) struct Hello {
    /// In milliseconds.
    pub(crate) heartbeat_interval: u64,
}

/// The content of the event that begins a session.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) session_id: String,
}

/// Returns the request for a new session. `token` is the one of the header.
pub(crate) fn identify(token: &Secret) -> String {
    let content = json!({"token": token.expose_exact(), "intents": INTENTS, "shard": [0, 1]});
    json!({"op": op::IDENTIFY, "d": content}).to_string()
}

/// Returns the request to continue a session after an event.
pub(crate) fn resume(token: &Secret, session: &str, number: u64) -> String {
    let content = json!({"token": token.expose_exact(), "session_id": session, "seq": number});
    json!({"op": op::RESUME, "d": content}).to_string()
}

/// Returns a heartbeat. `number` is that of an event.
pub(crate) fn heartbeat(number: Option<u64>) -> String {
    json!({"op": op::HEARTBEAT, "d": number}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_leniently() {
        let table = [
            (
                r#"{"op":0,"s":7,"t":"READY","d":{"session_id":"x"}}"#,
                (0, Some(7), "READY"),
            ),
            (r#"{"op":0,"s":-1,"t":5,"id":"e1"}"#, (0, None, "")),
            (r#"{"op":11}"#, (11, None, "")),
            (r#"{"op":9,"d":false,"s":null}"#, (9, None, "")),
            (r#"{"op":0,"s":"7","t":null,"d":[]}"#, (0, None, "")),
        ];
        for (text, expected) in table {
            let frame = Frame::parse(text).unwrap();
            assert_eq!(
                (frame.op, frame.number(), frame.event()),
                expected,
                "{text}"
            );
        }
        for text in ["", "5", "{}", r#"{"op":"ten"}"#, &"[".repeat(10_000)] {
            assert!(Frame::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_have_the_form_of_the_gateway() {
        let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        let token = Secret::new("QQBot t");
        assert_eq!(
            read(identify(&token)),
            json!({"op": 2, "d": {"token": "QQBot t", "intents": 33_558_528, "shard": [0, 1]}})
        );
        assert_eq!(
            read(resume(&token, "s", 8)),
            json!({"op": 6, "d": {"token": "QQBot t", "session_id": "s", "seq": 8}})
        );
        assert_eq!(heartbeat(None), r#"{"d":null,"op":1}"#);
        assert_eq!(heartbeat(Some(8)), r#"{"d":8,"op":1}"#);
    }
}
