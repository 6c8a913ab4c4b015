//! The destination of a message.

use std::num::NonZeroU64;

use nanobot_channel::{ChannelError, ChatId, DeliveryContext};
use serenity::model::channel::{MessageReference, MessageReferenceKind};
use serenity::model::id::{ChannelId, MessageId};

/// Separator between channel and thread in session keys.
const THREAD: &str = ":thread:";

/// A channel (a thread is one too), and the message to quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendTarget {
    channel: ChannelId,
    reply_to: Option<MessageId>,
}

impl SendTarget {
    /// A target without a quote. Without a thread in the delivery, the chat may name one as sessions
    /// do: `1:thread:2`.
    pub(crate) fn new(chat: &ChatId, delivery: &DeliveryContext) -> Result<Self, ChannelError> {
        let thread = delivery.thread.as_deref().and_then(number);
        let of_chat = || {
            let named = chat.as_str().split_once(THREAD);
            named.map_or_else(
                || number(chat.as_str()),
                |(parent, thread)| number(parent).and_then(|_| number(thread)),
            )
        };
        let Some(channel) = thread.or_else(of_chat) else {
            return Err(ChannelError::NotFound(format!(
                "`{chat}` is no id of a Discord channel"
            )));
        };
        Ok(Self::channel(ChannelId::from(channel)))
    }

    /// A channel, without a quote.
    pub(crate) fn channel(channel: ChannelId) -> Self {
        Self {
            channel,
            reply_to: None,
        }
    }

    /// The same target with a quote of the message that the delivery names.
    pub(crate) fn quoting(self, delivery: &DeliveryContext) -> Self {
        let reply_to = delivery
            .reply_to
            .as_ref()
            .and_then(|id| number(id.as_str()))
            .map(MessageId::from);
        Self { reply_to, ..self }
    }

    /// The same target without a quote.
    pub(crate) fn without_quote(self) -> Self {
        Self {
            reply_to: None,
            ..self
        }
    }

    pub(crate) fn channel_id(self) -> ChannelId {
        self.channel
    }

    /// Returns the quote; the reply is sent even if the quoted message is gone.
    pub(crate) fn reference(self) -> Option<MessageReference> {
        let reference = MessageReference::new(MessageReferenceKind::Default, self.channel);
        self.reply_to
            .map(|id| reference.message_id(id).fail_if_not_exists(false))
    }
}

fn number(text: &str) -> Option<NonZeroU64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_replaces_the_channel_as_target() {
        let target = |chat: &str, thread: Option<&str>| {
            let delivery = DeliveryContext {
                thread: thread.map(str::to_owned),
                ..DeliveryContext::default()
            };
            SendTarget::new(&ChatId::from(chat), &delivery)
                .ok()
                .map(|target| target.channel_id().get())
        };
        let table = [
            ("5", None, Some(5)),
            ("5", Some("6"), Some(6)),
            ("5", Some("x"), Some(5)),
            ("5:thread:6", None, Some(6)),
            ("5:thread:6", Some("7"), Some(7)),
            ("5:thread:", None, None),
            ("x:thread:6", None, None),
            ("0", None, None),
            ("general", None, None),
        ];
        for (chat, thread, expected) in table {
            assert_eq!(target(chat, thread), expected, "{chat} {thread:?}");
        }
    }
}
