//! The author of a message.
//!
//! Decision: if a message is sent on behalf of a chat (by an anonymous administrator or a channel),
//! the chat's id is the sender, and never that of the substitute user that Telegram shows to old
//! programs: all anonymous administrators share one. Bots are no authors, so that two of them
//! cannot talk for ever.

use nanobot_channel::SenderId;
use teloxide::types::{Message, User};

/// A person, or a chat on behalf of which a message was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    /// Negative for chats.
    pub(crate) id: i64,
    pub(crate) first_name: String,
    pub(crate) username: Option<String>,
}

impl Author {
    /// Returns the author; `None` for bots and automatic messages.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        if message.is_automatic_forward() {
            // The platform copies what channels post, also what the assistant itself did.
            return None;
        }
        match &message.sender_chat {
            Some(chat) => Some(Self {
                id: chat.id.0,
                first_name: chat.title().unwrap_or_default().to_owned(),
                username: chat.username().map(str::to_owned),
            }),
            None => message.from.as_ref().and_then(Self::person),
        }
    }

    /// A user who is no bot.
    pub(crate) fn person(user: &User) -> Option<Self> {
        let id = i64::try_from(user.id.0).ok().filter(|_| !user.is_bot)?;
        Some(Self {
            id,
            first_name: user.first_name.clone(),
            username: user.username.clone(),
        })
    }

    /// `id|username`, or `id` for people without one and for chats. The allow list may name either
    /// half.
    pub(crate) fn sender_id(&self) -> SenderId {
        SenderId::from(match &self.username {
            Some(username) if self.id > 0 => format!("{}|{username}", self.id),
            _ => self.id.to_string(),
        })
    }
}
