//! Messages of the long connection, as far as they are used.
//!
//! Decision: read leniently. A person's message has to arrive whatever WeCom adds to it, so every
//! field may be missing, and fields of another type count as missing.

use nanobot_channel::Value;
use serde::{Deserialize, Deserializer};

/// The type of a chat with one person, and of a group.
pub(crate) const SINGLE: &str = "single";
pub(crate) const GROUP: &str = "group";

/// The sender and the chat of a callback.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct CallbackHead {
    #[serde(deserialize_with = "text")]
    pub(crate) msgid: String,
    #[serde(deserialize_with = "text")]
    pub(crate) chatid: String,
    /// [`SINGLE`] or [`GROUP`].
    #[serde(deserialize_with = "text")]
    pub(crate) chattype: String,
    #[serde(rename = "from", deserialize_with = "user")]
    pub(crate) userid: String,
    #[serde(deserialize_with = "text")]
    pub(crate) msgtype: String,
}

impl CallbackHead {
    /// Reads the head of a body; empty if the body is no object.
    pub(crate) fn read(body: &Value) -> Self {
        if body.is_object() {
            Self::deserialize(body).unwrap_or_default()
        } else {
            Self::default()
        }
    }

    /// Returns the lane in which the callback is handled.
    pub(crate) fn lane(&self) -> String {
        let chat = [&self.chatid, &self.userid];
        let chat = chat.into_iter().find(|id| !id.trim().is_empty());
        chat.cloned().unwrap_or_default()
    }
}

/// Reads a text or a number; anything else is an empty text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    })
}

fn user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let sender = Value::deserialize(deserializer)?;
    Ok(given(&sender, "userid").unwrap_or_default().to_owned())
}

/// Returns a text of an object that is not blank.
pub(crate) fn given<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    let text = value.get(key).and_then(Value::as_str);
    text.filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_another_type_count_as_missing() {
        let head = CallbackHead::read(&json!({
            "msgid": 5, "chatid": {"x": 1}, "chattype": null, "from": {"userid": "ann"},
            "msgtype": "text", "added": "tomorrow",
        }));
        assert_eq!((head.msgid.as_str(), head.chatid.as_str()), ("5", ""));
        assert_eq!(
            (head.userid.as_str(), head.msgtype.as_str()),
            ("ann", "text")
        );
        for body in [
            json!(null),
            json!([1]),
            json!("text"),
            json!({"from": "ann"}),
        ] {
            let head = CallbackHead::read(&body);
            assert_eq!((head.userid, head.msgid), Default::default(), "{body}");
        }
    }

    #[test]
    fn lane_is_the_chat_or_the_person() {
        let lane = |body: Value| CallbackHead::read(&body).lane();
        assert_eq!(
            lane(json!({"chatid": "wr1", "from": {"userid": "ann"}})),
            "wr1"
        );
        assert_eq!(
            lane(json!({"chatid": " ", "from": {"userid": "ann"}})),
            "ann"
        );
        assert_eq!(lane(json!({})), "");
    }
}
