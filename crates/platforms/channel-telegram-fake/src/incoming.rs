//! Messages that people send to the bot.

use bytes::Bytes;
use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::html::utf16_length;

/// Chats below this id are supergroups.
const SUPERGROUPS_BELOW: i64 = -1_000_000_000_000;

/// A Telegram user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The user id; also the id of the private chat.
    pub id: i64,
    /// The first name.
    pub first_name: String,
    /// The user name without `@`.
    pub username: Option<String>,
}

impl Person {
    /// Returns a person with a user name.
    #[must_use]
    pub fn new(id: i64, first_name: impl Into<String>, username: impl Into<String>) -> Self {
        Self {
            id,
            first_name: first_name.into(),
            username: Some(username.into()),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let mut user = json!({"id": self.id, "is_bot": false, "first_name": self.first_name, "language_code": "en"});
        if let Some(username) = &self.username {
            set(&mut user, "username", username.as_str());
        }
        user
    }
}

/// Kind of file in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A photo, in several sizes.
    Photo,
    /// Any file.
    Document,
    /// A voice recording.
    Voice,
    /// A piece of music.
    Audio,
    /// A video.
    Video,
    /// A video without sound.
    Animation,
    /// A short round video.
    VideoNote,
    /// A sticker.
    Sticker,
}

impl FileKind {
    /// Returns the name of the message field that holds the file.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Photo => "photo",
            Self::Document => "document",
            Self::Voice => "voice",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Animation => "animation",
            Self::VideoNote => "video_note",
            Self::Sticker => "sticker",
        }
    }
}

/// A message on its way to the bot.
///
/// Mentions and commands in its text become entities, as at Telegram. A negative chat id is a group
/// (`-100…` a supergroup); a topic makes it a forum.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) chat_id: i64,
    pub(crate) person: Person,
    pub(crate) text: String,
    pub(crate) entities: Vec<Value>,
    pub(crate) thread: Option<i64>,
    pub(crate) reply_to: Option<i64>,
    pub(crate) album: Option<String>,
    pub(crate) voice: Voice,
    pub(crate) file: Option<IncomingFile>,
}

/// Identity that a message is sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// The person.
    Person,
    /// The group, used by an anonymous administrator.
    Group,
    /// The channel.
    Channel,
}

#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    pub(crate) kind: FileKind,
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

impl Incoming {
    /// Returns a text in the private chat with a person.
    #[must_use]
    pub fn private(person: &Person, text: impl Into<String>) -> Self {
        Self::group(person.id, person, text)
    }

    /// Returns a text in a group.
    #[must_use]
    pub fn group(chat_id: i64, person: &Person, text: impl Into<String>) -> Self {
        let text = text.into();
        let entities = marks(&text);
        Self {
            chat_id,
            person: person.clone(),
            text,
            entities,
            thread: None,
            reply_to: None,
            album: None,
            voice: Voice::Person,
            file: None,
        }
    }

    /// Returns a text posted by a channel.
    #[must_use]
    pub fn post(channel_id: i64, text: impl Into<String>) -> Self {
        let nobody = Person {
            id: 0,
            first_name: String::new(),
            username: None,
        };
        Self {
            voice: Voice::Channel,
            ..Self::group(channel_id, &nobody, text)
        }
    }

    /// Makes an anonymous administrator of the group the sender.
    #[must_use]
    pub fn anonymously(mut self) -> Self {
        self.voice = Voice::Group;
        self
    }

    /// Puts the message into a topic.
    #[must_use]
    pub fn in_topic(mut self, thread: i64) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Makes the message a reply to a message of the same chat.
    #[must_use]
    pub fn replying_to(mut self, message_id: i64) -> Self {
        self.reply_to = Some(message_id);
        self
    }

    /// Adds an entity, such as a `text_mention`.
    #[must_use]
    pub fn with_entity(mut self, entity: Value) -> Self {
        self.entities.push(entity);
        self
    }

    /// Adds a file; the text becomes its caption.
    #[must_use]
    pub fn with_file(
        mut self,
        kind: FileKind,
        name: &str,
        mime: &str,
        bytes: impl Into<Bytes>,
    ) -> Self {
        self.file = Some(IncomingFile {
            kind,
            name: name.to_owned(),
            mime: mime.to_owned(),
            bytes: bytes.into(),
        });
        self
    }

    /// Makes the message part of an album.
    #[must_use]
    pub fn in_album(mut self, media_group_id: impl Into<String>) -> Self {
        self.album = Some(media_group_id.into());
        self
    }

    pub(crate) fn chat_json(&self) -> Value {
        if self.chat_id > 0 {
            let mut chat = json!({"id": self.chat_id, "type": "private", "first_name": self.person.first_name});
            if let Some(username) = &self.person.username {
                set(&mut chat, "username", username.as_str());
            }
            return chat;
        }
        let kind = match self.voice {
            Voice::Channel => "channel",
            Voice::Person | Voice::Group if self.chat_id < SUPERGROUPS_BELOW => "supergroup",
            Voice::Person | Voice::Group => "group",
        };
        json!({"id": self.chat_id, "type": kind, "title": format!("Group {}", self.chat_id)})
    }
}

impl Voice {
    /// Sets the sender fields of a message.
    pub(crate) fn sign(self, json: &mut Value, person: &Person, chat: &Value) {
        match self {
            Self::Person => set(json, "from", person.json()),
            Self::Group => {
                // Older clients see every anonymous administrator as this user.
                let stand_in = json!({
                    "id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot",
                });
                set(json, "from", stand_in);
                set(json, "sender_chat", chat.clone());
            }
            Self::Channel => set(json, "sender_chat", chat.clone()),
        }
    }

    /// Returns the kind of update that carries the message.
    pub(crate) fn update(self) -> &'static str {
        if self == Self::Channel {
            "channel_post"
        } else {
            "message"
        }
    }
}

/// Returns the entities that Telegram detects by itself: mentions and commands.
pub(crate) fn marks(text: &str) -> Vec<Value> {
    let mut entities = Vec::new();
    let mut offset = 0;
    for word in text.split_inclusive(char::is_whitespace) {
        let kind = match word.chars().next() {
            Some('@') => Some(("mention", "@")),
            Some('/') => Some(("bot_command", "/")),
            _ => None,
        };
        if let Some((kind, sign)) = kind {
            let name = word.strip_prefix(sign).unwrap_or_default();
            let in_name =
                |c: char| c.is_ascii_alphanumeric() || c == '_' || (c == '@' && sign == "/");
            let end = name.find(|c| !in_name(c)).unwrap_or(name.len());
            if end > 0 {
                entities.push(json!({"type": kind, "offset": offset, "length": end + 1}));
            }
        }
        offset += utf16_length(word);
    }
    entities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_and_commands_are_marked_in_utf16_units() {
        let table = [
            ("hi", json!([])),
            (
                "😀 @bot_x, hi",
                json!([{"type": "mention", "offset": 3, "length": 6}]),
            ),
            (
                "/new@bot_x now",
                json!([{"type": "bot_command", "offset": 0, "length": 10}]),
            ),
            ("a / b @ c", json!([])),
        ];
        for (text, entities) in table {
            assert_eq!(json!(marks(text)), entities, "{text}");
        }
    }
}
