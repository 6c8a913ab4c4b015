//! Messages from people.

use bytes::Bytes;
use serde_json::Value;

use crate::account::BOT_ID;
use crate::model::ChatKind;

/// A person who can write to the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// `user_openid`: the person for this bot, and the private chat with them.
    pub openid: String,
    /// `member_openid`: the person as a member of groups.
    pub member_openid: String,
    /// The person's id in guilds.
    pub user_id: String,
    /// The name, which only messages of guilds show.
    pub name: String,
}

impl Person {
    /// Returns a person. Ids are made from the first 16 bytes of `key`.
    #[must_use]
    pub fn new(key: &str, name: &str) -> Self {
        let bytes = || key.bytes().take(16);
        let hex: String = bytes().map(|byte| format!("{byte:02X}")).collect();
        let number = bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(131) + u64::from(byte));
        let openid = format!("{hex:0>32}");
        Self {
            member_openid: openid.clone(),
            openid,
            user_id: format!("1{:018}", number % 1_000_000_000_000_000_000),
            name: name.to_owned(),
        }
    }

    /// Returns the id of the person's private chat with the bot, which is their `openid`.
    #[must_use]
    pub fn direct(&self) -> String {
        self.openid.clone()
    }

    /// Returns the `guild_id` of the person's direct messages with the bot.
    #[must_use]
    pub fn dms(&self) -> String {
        format!("8{}", self.user_id.get(1..).unwrap_or_default())
    }
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) chat: String,
    pub(crate) kind: ChatKind,
    pub(crate) person: Person,
    pub(crate) text: String,
    pub(crate) mentions_bot: bool,
    pub(crate) quotes: Option<String>,
    pub(crate) files: Vec<IncomingFile>,
    /// Creation time in milliseconds; `None` for now.
    pub(crate) created: Option<i64>,
    /// Members of the event that are replaced.
    pub(crate) changes: Vec<(String, Value)>,
}

/// A file of a message.
#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

impl Incoming {
    /// Returns a message in the person's private chat with the bot (`C2C_MESSAGE_CREATE`).
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::new(ChatKind::User, person.direct(), person, text)
    }

    /// Returns a message in a group. Without a [mention](Self::mentioning_bot) it does not reach
    /// the bot, unless [`QqFake::deliver_group_messages`](crate::QqFake::deliver_group_messages)
    /// says so.
    #[must_use]
    pub fn to_group(group: &str, person: &Person, text: &str) -> Self {
        Self::new(ChatKind::Group, group.to_owned(), person, text)
    }

    /// Returns a message in a channel of a guild. Without a [mention](Self::mentioning_bot) it does
    /// not reach the bot.
    #[must_use]
    pub fn to_channel(channel: &str, person: &Person, text: &str) -> Self {
        Self::new(ChatKind::Channel, channel.to_owned(), person, text)
    }

    /// Returns a direct message of a guild (`DIRECT_MESSAGE_CREATE`).
    #[must_use]
    pub fn guild_direct(person: &Person, text: &str) -> Self {
        Self::new(ChatKind::Dms, person.dms(), person, text)
    }

    fn new(kind: ChatKind, chat: String, person: &Person, text: &str) -> Self {
        Self {
            chat,
            kind,
            person: person.clone(),
            text: text.to_owned(),
            mentions_bot: false,
            quotes: None,
            files: Vec::new(),
            created: None,
            changes: Vec::new(),
        }
    }

    /// Mentions the bot. In groups QQ removes the mention from the text, up to a space; in channels
    /// it stays.
    #[must_use]
    pub fn mentioning_bot(mut self) -> Self {
        self.mentions_bot = true;
        self.text = match self.kind {
            ChatKind::Channel => format!("<@!{BOT_ID}> {}", self.text),
            _ => format!(" {}", self.text),
        };
        self
    }

    /// Quotes a message by its id (`message_reference`).
    #[must_use]
    pub fn quoting(self, message: &str) -> Self {
        Self {
            quotes: Some(message.to_owned()),
            ..self
        }
    }

    /// Sets the time of creation, in milliseconds since 1970.
    #[must_use]
    pub fn created_at(self, milliseconds: i64) -> Self {
        Self {
            created: Some(milliseconds),
            ..self
        }
    }

    /// Attaches a file. `mime` is the `content_type`; QQ's is `file` for files that are neither
    /// pictures, videos nor `voice`.
    #[must_use]
    pub fn with_file(mut self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.files.push(IncomingFile {
            name: name.to_owned(),
            mime: mime.to_owned(),
            bytes: bytes.into(),
        });
        self
    }

    /// Replaces a member of the event's data, for example `author`.
    #[must_use]
    pub fn with_member(mut self, name: &str, value: Value) -> Self {
        self.changes.push((name.to_owned(), value));
        self
    }
}
