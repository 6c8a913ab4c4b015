//! The destination of a message: a room, a thread in it, and a message to quote.

use nanobot_channel::{ChannelError, ChatId, DeliveryContext, Value};

use crate::id::{is_event_id, is_room_id};
use crate::relation::relates_to;

/// A place for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendTarget {
    pub(crate) room: String,
    thread: Option<String>,
    reply_to: Option<String>,
}

impl SendTarget {
    /// Returns the target of a chat.
    ///
    /// # Errors
    /// [`ChannelError::NotFound`] if the chat is no room.
    pub(crate) fn new(chat: &ChatId, delivery: &DeliveryContext) -> Result<Self, ChannelError> {
        let room = chat.as_str().trim();
        if !is_room_id(room) {
            return Err(ChannelError::NotFound(format!(
                "`{chat}` is no id of a room; write one like !abc:server"
            )));
        }
        let event = |id: &str| is_event_id(id).then(|| id.to_owned());
        Ok(Self {
            room: room.to_owned(),
            thread: delivery.thread.as_deref().and_then(event),
            reply_to: delivery.reply_to.as_ref().and_then(|id| event(id.as_str())),
        })
    }

    /// Returns the same target without a quote.
    pub(crate) fn without_quote(self) -> Self {
        Self {
            reply_to: None,
            ..self
        }
    }

    /// Returns the relation of a message to this place.
    pub(crate) fn relation(&self) -> Option<Value> {
        relates_to(self.thread.as_deref(), self.reply_to.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rooms_are_targets() {
        let target = |chat: &str| SendTarget::new(&chat.into(), &DeliveryContext::default()).ok();
        assert_eq!(target(" !a/b:x ").unwrap().room, "!a/b:x");
        for chat in ["", "#a:x", "@ann:x", "!", "!a b"] {
            assert_eq!(target(chat), None, "{chat}");
        }
    }

    #[test]
    fn relation_follows_the_delivery() {
        let delivery = DeliveryContext {
            thread: Some("$0".to_owned()),
            reply_to: Some("$1".into()),
            ..DeliveryContext::default()
        };
        let target = SendTarget::new(&"!a:x".into(), &delivery).unwrap();
        let quoted = |target: &SendTarget| {
            let relation = target.relation().unwrap();
            relation["m.in_reply_to"]["event_id"].clone()
        };
        assert_eq!(quoted(&target), "$1");
        assert_eq!(quoted(&target.without_quote()), "$0");
        let delivery = DeliveryContext {
            reply_to: Some("no event".into()),
            ..DeliveryContext::default()
        };
        let target = SendTarget::new(&"!a:x".into(), &delivery).unwrap();
        assert_eq!(target.relation(), None);
    }
}
