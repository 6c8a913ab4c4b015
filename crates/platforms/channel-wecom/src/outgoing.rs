//! One message on its way out, and the commands that send it.
//!
//! WeCom has no key against duplicates: a message that is sent again appears twice.

use nanobot_channel::markup::{Document, Markup as _};
use nanobot_channel::{ChatId, DeliveryContext, Value};
use serde_json::json;

use crate::candidate::{CHAT_TYPE, REQ_ID};
use crate::channel::TEXT_LIMIT;
use crate::error::CallError;
use crate::gateway::Gateway;
use crate::markup::WeComMarkdown;
use crate::wire::{GROUP, SINGLE, given};

/// Types of chats, as sends name them.
const SEND_TO_PERSON: u8 = 1;
const SEND_TO_GROUP: u8 = 2;

/// A message on its way out, as its type and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outgoing {
    kind: &'static str,
    content: Value,
}

impl Outgoing {
    /// Creates a message in Markdown.
    pub(crate) fn markdown(text: &str) -> Self {
        Self {
            kind: "markdown",
            content: json!({"content": text}),
        }
    }

    /// Creates a message of a text as it is.
    pub(crate) fn plain(text: &str) -> Self {
        Self::markdown(&escaped(text))
    }

    /// Creates a file by its type and the id of its upload.
    pub(crate) fn media(kind: &'static str, media_id: &str) -> Self {
        Self {
            kind,
            content: json!({"media_id": media_id}),
        }
    }
}

/// The chat of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendTarget {
    chat: String,
    /// `None` if it is not known; WeCom finds out then.
    chat_type: Option<u8>,
}

impl SendTarget {
    /// Returns the target of a chat. `None` if the chat has no id of WeCom.
    pub(crate) fn new(chat: &ChatId, delivery: &DeliveryContext) -> Option<Self> {
        let chat = chat.as_str().trim();
        let is_odd = |c: char| c.is_whitespace() || c.is_control();
        if chat.is_empty() || chat.contains(is_odd) {
            return None;
        }
        let chat_type = delivery.extra.get(CHAT_TYPE).and_then(Value::as_str);
        Some(Self {
            chat: chat.to_owned(),
            chat_type: match chat_type {
                Some(SINGLE) => Some(SEND_TO_PERSON),
                Some(GROUP) => Some(SEND_TO_GROUP),
                _ => None,
            },
        })
    }
}

/// Returns the `req_id` of the message that is answered.
pub(crate) fn req_id(delivery: &DeliveryContext) -> Option<&str> {
    let req_id = delivery.extra.get(REQ_ID).and_then(Value::as_str);
    req_id.filter(|req_id| !req_id.is_empty())
}

/// Sends a message without a callback.
pub(crate) async fn send_message(
    gateway: &Gateway,
    target: &SendTarget,
    outgoing: &Outgoing,
) -> Result<(), CallError> {
    let SendTarget { chat, chat_type } = target;
    let Outgoing { kind, content } = outgoing;
    let mut body = json!({"chatid": chat, "msgtype": kind, *kind: content});
    if let (Some(chat_type), Some(members)) = (chat_type, body.as_object_mut()) {
        members.insert("chat_type".to_owned(), json!(chat_type));
    }
    gateway.call("aibot_send_msg", body).await.map(drop)
}

/// Returns the id in the answer to a command.
pub(crate) fn answered_id(body: &Value, key: &str) -> Result<String, CallError> {
    let id = given(body, key).map(str::to_owned);
    id.ok_or_else(|| CallError::Unreachable(format!("WeCom gave an upload no {key}")))
}

/// Returns a text in which nothing is markup; the text itself if there is no room for escapes.
pub(crate) fn escaped(text: &str) -> String {
    let escaped = WeComMarkdown.render(&Document {
        text: text.to_owned(),
        ..Document::default()
    });
    if escaped.len() > TEXT_LIMIT {
        text.to_owned()
    } else {
        escaped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(chat_type: &str) -> DeliveryContext {
        let mut delivery = DeliveryContext::default();
        for (key, value) in [(CHAT_TYPE, chat_type), (REQ_ID, "r")] {
            delivery.extra.insert(key.to_owned(), json!(value));
        }
        delivery
    }

    #[test]
    fn type_of_the_target_is_that_of_the_message() {
        let target = |chat: &str, chat_type: &str| {
            let target = SendTarget::new(&chat.into(), &delivery(chat_type));
            target.map(|target| (target.chat, target.chat_type))
        };
        assert_eq!(target("ann", "single"), Some(("ann".to_owned(), Some(1))));
        assert_eq!(target(" wr1 ", "group"), Some(("wr1".to_owned(), Some(2))));
        assert_eq!(target("wr1", "other"), Some(("wr1".to_owned(), None)));
        assert_eq!(target("", "single"), None);
        assert_eq!(target("ann b", "single"), None);
    }

    #[test]
    fn reply_names_its_callback() {
        assert_eq!(req_id(&delivery("single")), Some("r"));
        assert_eq!(req_id(&DeliveryContext::default()), None);
    }

    #[test]
    fn plain_text_is_escaped_if_there_is_room() {
        assert_eq!(Outgoing::plain("*a*"), Outgoing::markdown("\\*a\\*"));
        let long = "*".repeat(TEXT_LIMIT);
        assert_eq!(escaped(&long), long);
    }
}
