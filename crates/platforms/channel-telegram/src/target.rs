//! The destination of a message.

use nanobot_channel::{ChannelError, ChatId, DeliveryContext};
use teloxide::types::{ChatId as TelegramChat, MessageId, Recipient, ReplyParameters, ThreadId};

/// A chat, the topic in it, and the message to quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendTarget {
    chat: i64,
    thread: Option<ThreadId>,
    reply_to: Option<MessageId>,
}

impl SendTarget {
    /// A target without a quote.
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
            thread: thread.map(|id| ThreadId(MessageId(id))),
            ..Self::chat(chat)
        })
    }

    /// A chat, without topic and quote.
    pub(crate) fn chat(chat: i64) -> Self {
        Self {
            chat,
            thread: None,
            reply_to: None,
        }
    }

    /// The same target with a quote of the message that the delivery names.
    pub(crate) fn quoting(self, delivery: &DeliveryContext) -> Self {
        let reply_to = delivery
            .reply_to
            .as_ref()
            .and_then(|id| id.as_str().parse().ok())
            .map(MessageId);
        Self { reply_to, ..self }
    }

    /// The same target outside of any topic.
    pub(crate) fn without_topic(&self) -> Self {
        Self {
            thread: None,
            ..self.clone()
        }
    }

    /// `true` for a chat with one person.
    pub(crate) fn is_private(&self) -> bool {
        self.chat > 0
    }

    pub(crate) fn chat_id(&self) -> i64 {
        self.chat
    }

    pub(crate) fn recipient(&self) -> Recipient {
        TelegramChat(self.chat).into()
    }

    pub(crate) fn thread(&self) -> Option<ThreadId> {
        self.thread
    }

    /// Returns the quote; the reply is sent even if the quoted message is gone.
    pub(crate) fn reply_parameters(&self) -> Option<ReplyParameters> {
        self.reply_to
            .map(|id| ReplyParameters::new(id).allow_sending_without_reply())
    }
}
