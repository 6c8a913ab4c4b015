//! Where a message goes.

use nanobot_channel::{ChannelError, ChatId, DeliveryContext};
use teloxide::types::{ChatId as TelegramChat, MessageId, Recipient, ReplyParameters, ThreadId};

/// A chat, the topic in it, and the message to quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    chat: i64,
    thread: Option<ThreadId>,
    reply_to: Option<MessageId>,
}

impl Place {
    /// A place that quotes nothing.
    pub(crate) fn new(chat: &ChatId, delivery: &DeliveryContext) -> Result<Self, ChannelError> {
        let Ok(chat) = chat.as_str().parse() else {
            return Err(ChannelError::NotFound(format!(
                "`{chat}` is no id of a Telegram chat"
            )));
        };
        let thread = delivery
            .thread
            .as_deref()
            .and_then(|thread| thread.parse().ok());
        Ok(Self {
            chat,
            thread: thread.map(|id| ThreadId(MessageId(id))),
            reply_to: None,
        })
    }

    /// The same, quoting the message the delivery names.
    pub(crate) fn quoting(self, delivery: &DeliveryContext) -> Self {
        let reply_to = delivery
            .reply_to
            .as_ref()
            .and_then(|id| id.as_str().parse().ok())
            .map(MessageId);
        Self { reply_to, ..self }
    }

    /// The same in the chat that took this one's place.
    pub(crate) fn moved_to(&self, chat: i64) -> Self {
        // The messages and topics of the old chat are not in the new one.
        Self {
            chat,
            thread: None,
            reply_to: None,
        }
    }

    /// The same outside of any topic.
    pub(crate) fn without_topic(&self) -> Self {
        Self {
            thread: None,
            ..self.clone()
        }
    }

    /// Whether one person is there rather than several.
    pub(crate) fn is_private(&self) -> bool {
        self.chat > 0
    }

    pub(crate) fn chat(&self) -> i64 {
        self.chat
    }

    pub(crate) fn recipient(&self) -> Recipient {
        TelegramChat(self.chat).into()
    }

    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.thread
    }

    /// A quoted message may be gone: the reply comes all the same.
    pub(crate) fn reply_parameters(&self) -> Option<ReplyParameters> {
        self.reply_to
            .map(|id| ReplyParameters::new(id).allow_sending_without_reply())
    }
}
