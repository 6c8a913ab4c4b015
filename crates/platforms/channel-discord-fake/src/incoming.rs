//! Messages from people.

use bytes::Bytes;
use serde_json::{Value, json};

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The user's id.
    pub id: u64,
    /// The user's name.
    pub name: String,
    /// `true` if the user is a bot.
    pub is_bot: bool,
}

impl Person {
    /// Returns a person.
    #[must_use]
    pub fn new(id: u64, name: &str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            is_bot: false,
        }
    }

    /// Returns a bot other than the one under test.
    #[must_use]
    pub fn bot(id: u64, name: &str) -> Self {
        Self {
            is_bot: true,
            ..Self::new(id, name)
        }
    }

    /// Returns the direct channel of the person and the bot.
    pub(crate) fn direct_channel(&self) -> u64 {
        self.id + 1_000_000_000
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "id": self.id.to_string(), "username": self.name, "discriminator": "0", "global_name": self.name,
            "avatar": null, "bot": self.is_bot, "public_flags": 0,
        })
    }
}

/// A file in a message.
#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    pub(crate) name: String,
    pub(crate) mime: Option<String>,
    pub(crate) bytes: Bytes,
    /// Size claimed by the message, which may be wrong.
    pub(crate) declared_size: usize,
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) person: Person,
    pub(crate) channel: u64,
    pub(crate) text: String,
    pub(crate) replies_to: Option<u64>,
    pub(crate) files: Vec<IncomingFile>,
    pub(crate) is_voice: bool,
    pub(crate) forwarded: Option<String>,
    pub(crate) is_webhook: bool,
    pub(crate) extra: Vec<(String, Value)>,
}

impl Incoming {
    /// Returns a message in a channel or thread of the server.
    #[must_use]
    pub fn in_channel(channel: u64, person: &Person, text: &str) -> Self {
        Self {
            person: person.clone(),
            channel,
            text: text.to_owned(),
            replies_to: None,
            files: Vec::new(),
            is_voice: false,
            forwarded: None,
            is_webhook: false,
            extra: Vec::new(),
        }
    }

    /// Returns a direct message to the bot.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::in_channel(person.direct_channel(), person, text)
    }

    /// Makes the message a reply to another message of the same channel.
    #[must_use]
    pub fn replying_to(self, message: u64) -> Self {
        Self {
            replies_to: Some(message),
            ..self
        }
    }

    /// Adds a file.
    #[must_use]
    pub fn with_file(self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let size = bytes.len();
        self.with_file_of_declared_size(name, mime, bytes, size)
    }

    /// Adds a file with a declared size that may be wrong.
    #[must_use]
    pub fn with_file_of_declared_size(
        mut self,
        name: &str,
        mime: &str,
        bytes: impl Into<Bytes>,
        size: usize,
    ) -> Self {
        let mime = Some(mime.to_owned()).filter(|mime| !mime.is_empty());
        self.files.push(IncomingFile {
            name: name.to_owned(),
            mime,
            bytes: bytes.into(),
            declared_size: size,
        });
        self
    }

    /// Makes the message a voice message: its files are recordings.
    #[must_use]
    pub fn as_voice_message(self) -> Self {
        Self {
            is_voice: true,
            ..self
        }
    }

    /// Makes the message a forward of another person's text.
    #[must_use]
    pub fn forwarding(self, text: &str) -> Self {
        Self {
            forwarded: Some(text.to_owned()),
            ..self
        }
    }

    /// Makes the message come from a webhook.
    #[must_use]
    pub fn by_webhook(self) -> Self {
        Self {
            is_webhook: true,
            ..self
        }
    }

    /// Sets a field of the message.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: Value) -> Self {
        self.extra.push((name.to_owned(), value));
        self
    }
}
