//! Messages from people.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::account::BOT_NAME;

/// A person who can write to the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Id of the person in the organisation.
    pub userid: String,
}

impl Person {
    /// Returns a member of the organisation.
    #[must_use]
    pub fn new(userid: &str) -> Self {
        Self {
            userid: userid.to_owned(),
        }
    }

    /// Returns the id of the person's private chat with the bot, which is the person's.
    #[must_use]
    pub fn direct(&self) -> String {
        self.userid.clone()
    }
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) chat: String,
    pub(crate) person: Person,
    pub(crate) kind: String,
    /// The member of the body that is named like the type.
    pub(crate) content: Value,
    pub(crate) quotes: Option<String>,
    pub(crate) mentions_bot: bool,
    pub(crate) files: Vec<IncomingFile>,
    /// Creation time in seconds since 1970, for [`Incoming::created_at`].
    pub(crate) created: Option<i64>,
}

/// A file of a message.
#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    /// The object of the content that receives address and key, as a JSON pointer.
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
}

impl Incoming {
    /// Returns a text in the person's private chat with the bot.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Returns a text in a chat. Messages in groups reach the bot only if they mention it.
    #[must_use]
    pub fn to(chat: &str, person: &Person, text: &str) -> Self {
        Self {
            chat: chat.to_owned(),
            person: person.clone(),
            kind: "text".to_owned(),
            content: json!({"content": text}),
            quotes: None,
            mentions_bot: false,
            files: Vec::new(),
            created: None,
        }
    }

    /// Mentions the bot, at the beginning of a text and of the first text of a mixed message.
    #[must_use]
    pub fn mentioning_bot(mut self) -> Self {
        self.mentions_bot = true;
        for place in ["/content", "/msg_item/0/text/content"] {
            if let Some(Value::String(text)) = self.content.pointer_mut(place) {
                text.insert_str(0, &format!("@{BOT_NAME} "));
            }
        }
        self
    }

    /// Quotes a message of a person by its id, or one of the bot by its key.
    #[must_use]
    pub fn quoting(self, message: &str) -> Self {
        Self {
            quotes: Some(message.to_owned()),
            ..self
        }
    }

    /// Adds a `create_time`, in seconds since 1970. Messages usually have none.
    #[must_use]
    pub fn created_at(self, seconds: i64) -> Self {
        Self {
            created: Some(seconds),
            ..self
        }
    }

    /// Replaces type and content, for example by a type that does not exist.
    #[must_use]
    pub fn of_kind(self, kind: &str, content: Value) -> Self {
        Self {
            kind: kind.to_owned(),
            content,
            ..self
        }
    }

    /// Replaces the text by an image. WeCom names images only in the headers of their download.
    #[must_use]
    pub fn with_image(self, name: &str, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("image", json!({}))
            .attach("", name, bytes.into())
    }

    /// Replaces the text by a file.
    #[must_use]
    pub fn with_file(self, name: &str, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("file", json!({}))
            .attach("", name, bytes.into())
    }

    /// Replaces the text by a video.
    #[must_use]
    pub fn with_video(self, name: &str, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("video", json!({}))
            .attach("", name, bytes.into())
    }

    /// Replaces the text by a voice message, which arrives as the recognised words.
    #[must_use]
    pub fn with_voice(self, words: &str) -> Self {
        self.of_kind("voice", json!({"content": words}))
    }

    /// Replaces the text by a mixed message of the same words and an image after them. This is the
    /// only kind of message with words and a file.
    #[must_use]
    pub fn with_mixed_image(self, name: &str, bytes: impl Into<Bytes>) -> Self {
        let text = self.content.clone();
        let items = json!([
            {"msgtype": "text", "text": text},
            {"msgtype": "image", "image": {}},
        ]);
        self.of_kind("mixed", json!({"msg_item": items})).attach(
            "/msg_item/1/image",
            name,
            bytes.into(),
        )
    }

    fn attach(mut self, place: &str, name: &str, bytes: Bytes) -> Self {
        self.files.push(IncomingFile {
            place: place.to_owned(),
            name: name.to_owned(),
            bytes,
        });
        self
    }
}
