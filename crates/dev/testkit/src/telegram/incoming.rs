//! What people send to the bot.

use bytes::Bytes;
use serde_json::{Value, json};

use super::html::utf16_length;
use crate::json::set;

/// Chats below this id are supergroups.
const SUPERGROUPS_BELOW: i64 = -1_000_000_000_000;

/// Somebody on Telegram.
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
    /// A person with a user name.
    #[must_use]
    pub fn new(id: i64, first_name: impl Into<String>, username: impl Into<String>) -> Self {
        Self {
            id,
            first_name: first_name.into(),
            username: Some(username.into()),
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut user = json!({"id": self.id, "is_bot": false, "first_name": self.first_name, "language_code": "en"});
        if let Some(username) = &self.username {
            set(&mut user, "username", username.as_str());
        }
        user
    }
}

/// What kind of file comes with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A picture, in several sizes.
    Photo,
    /// Any file.
    Document,
    /// A recorded voice.
    Voice,
    /// A piece of music.
    Audio,
    /// A film.
    Video,
    /// A film without sound.
    Animation,
    /// A short round film.
    VideoNote,
    /// A sticker.
    Sticker,
}

impl FileKind {
    /// The name of the field that holds it.
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
/// Mentions and commands in its text are marked as Telegram marks them. A negative chat id is a group
/// (`-100…` a supergroup); a topic makes it a forum.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(super) chat_id: i64,
    pub(super) person: Person,
    pub(super) text: String,
    pub(super) entities: Vec<Value>,
    pub(super) thread: Option<i64>,
    pub(super) reply_to: Option<i64>,
    pub(super) album: Option<String>,
    pub(super) voice: Voice,
    pub(super) file: Option<IncomingFile>,
}

/// On whose behalf somebody speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    /// Their own.
    Person,
    /// The group's, as an administrator who stays unknown.
    Group,
    /// The channel's.
    Channel,
}

#[derive(Clone, Debug)]
pub(super) struct IncomingFile {
    pub(super) kind: FileKind,
    pub(super) name: String,
    pub(super) mime: String,
    pub(super) bytes: Bytes,
}

impl Incoming {
    /// A text in the private chat with a person.
    #[must_use]
    pub fn private(person: &Person, text: impl Into<String>) -> Self {
        Self::group(person.id, person, text)
    }

    /// A text in a group.
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

    /// A text that a channel posts.
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

    /// The same by an administrator of the group who stays unknown.
    #[must_use]
    pub fn anonymously(mut self) -> Self {
        self.voice = Voice::Group;
        self
    }

    /// The same inside a topic.
    #[must_use]
    pub fn in_topic(mut self, thread: i64) -> Self {
        self.thread = Some(thread);
        self
    }

    /// The same as a reply to a message of that chat.
    #[must_use]
    pub fn replying_to(mut self, message_id: i64) -> Self {
        self.reply_to = Some(message_id);
        self
    }

    /// The same with one more entity, such as a `text_mention`.
    #[must_use]
    pub fn with_entity(mut self, entity: Value) -> Self {
        self.entities.push(entity);
        self
    }

    /// The same with a file, its text becoming the caption.
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

    /// The same as part of an album.
    #[must_use]
    pub fn in_album(mut self, media_group_id: impl Into<String>) -> Self {
        self.album = Some(media_group_id.into());
        self
    }

    pub(super) fn chat_json(&self) -> Value {
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
    /// Who a message is from, as the API says it.
    pub(super) fn sign(self, json: &mut Value, person: &Person, chat: &Value) {
        match self {
            Self::Person => set(json, "from", person.json()),
            Self::Group => {
                // Everybody who stays unknown is this user to old programs.
                let stand_in = json!({
                    "id": 1_087_968_824, "is_bot": true, "first_name": "Group", "username": "GroupAnonymousBot",
                });
                set(json, "from", stand_in);
                set(json, "sender_chat", chat.clone());
            }
            Self::Channel => set(json, "sender_chat", chat.clone()),
        }
    }

    /// The kind of update that tells of a message.
    pub(super) fn update(self) -> &'static str {
        if self == Self::Channel {
            "channel_post"
        } else {
            "message"
        }
    }
}

/// Entities that Telegram finds by itself: mentions and commands.
pub(super) fn marks(text: &str) -> Vec<Value> {
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
