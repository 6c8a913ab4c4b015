//! Messages from people.

use bytes::Bytes;
use serde_json::Value;

use crate::account::ACCOUNT_LID;
use crate::jid::{LIDS, NUMBERS};

/// A person who can write to the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Phone number, as digits.
    pub number: String,
    /// The part of the LID before the `@`, as digits.
    pub lid_number: String,
    /// Name that the person chose.
    pub name: String,
}

impl Person {
    /// Returns a person with a phone number. The LID is made of the number.
    #[must_use]
    pub fn new(number: &str, name: &str) -> Self {
        Self {
            number: number.to_owned(),
            lid_number: format!("77{number}"),
            name: name.to_owned(),
        }
    }

    /// Returns the JID of the phone number, which is the person's direct chat.
    #[must_use]
    pub fn direct(&self) -> String {
        format!("{}@{NUMBERS}", self.number)
    }

    /// Returns the person's LID.
    #[must_use]
    pub fn lid(&self) -> String {
        format!("{}@{LIDS}", self.lid_number)
    }
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) chat: String,
    pub(crate) person: Person,
    pub(crate) text: String,
    pub(crate) is_by_lid: bool,
    pub(crate) hides_number: bool,
    pub(crate) mentions_bot: bool,
    pub(crate) quotes: Option<String>,
    pub(crate) files: Vec<IncomingFile>,
    pub(crate) paths: Vec<String>,
    /// Seconds since 1970, for [`Incoming::created_at`].
    pub(crate) created: Option<i64>,
    /// Members that replace those of the frame.
    pub(crate) changes: Vec<(String, Value)>,
}

/// A file of a message.
#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    pub(crate) kind: String,
    pub(crate) mime: String,
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
    /// Announced size, if it is not the real one.
    pub(crate) announced: Option<u64>,
}

impl Incoming {
    /// Returns a text in the person's direct chat.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Returns a text in a chat.
    #[must_use]
    pub fn to(chat: &str, person: &Person, text: &str) -> Self {
        Self {
            chat: chat.to_owned(),
            person: person.clone(),
            text: text.to_owned(),
            is_by_lid: false,
            hides_number: false,
            mentions_bot: false,
            quotes: None,
            files: Vec::new(),
            paths: Vec::new(),
            created: None,
            changes: Vec::new(),
        }
    }

    /// Names a direct chat by the person's LID, with the phone number as `pn`.
    #[must_use]
    pub fn by_lid(self) -> Self {
        Self {
            is_by_lid: true,
            ..self
        }
    }

    /// Names the person by the LID only: neither `pn` nor `participantPn` is known.
    #[must_use]
    pub fn without_number(self) -> Self {
        Self {
            is_by_lid: true,
            hides_number: true,
            ..self
        }
    }

    /// Mentions the account before the text.
    #[must_use]
    pub fn mentioning_bot(self) -> Self {
        let number = ACCOUNT_LID.split('@').next().unwrap_or_default();
        Self {
            text: format!("@{number} {}", self.text),
            mentions_bot: true,
            ..self
        }
    }

    /// Quotes a message of a person or of the bot by its id.
    #[must_use]
    pub fn quoting(self, id: &str) -> Self {
        Self {
            quotes: Some(id.to_owned()),
            ..self
        }
    }

    /// Replaces the time, in seconds since 1970.
    #[must_use]
    pub fn created_at(self, seconds: i64) -> Self {
        Self {
            created: Some(seconds),
            ..self
        }
    }

    /// Adds a document; the text becomes its caption.
    #[must_use]
    pub fn with_file(self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.with_media("document", name, mime, bytes)
    }

    /// Adds a picture; the text becomes its caption.
    #[must_use]
    pub fn with_image(self, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.with_media("image", "", mime, bytes)
    }

    /// Adds a voice message.
    #[must_use]
    pub fn with_voice(self, bytes: impl Into<Bytes>) -> Self {
        self.with_media("voice", "", "audio/ogg; codecs=opus", bytes)
    }

    /// Adds a file of any kind.
    #[must_use]
    pub fn with_media(self, kind: &str, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let file = IncomingFile {
            kind: kind.to_owned(),
            mime: mime.to_owned(),
            name: name.to_owned(),
            bytes: bytes.into(),
            announced: None,
        };
        let mut changed = self;
        changed.files.push(file);
        changed
    }

    /// Announces another size than the real one for the file that was added last.
    #[must_use]
    pub fn announced_as(mut self, size: u64) -> Self {
        if let Some(file) = self.files.last_mut() {
            file.announced = Some(size);
        }
        self
    }

    /// Adds the path of a file, which only version 1 has in its messages.
    #[must_use]
    pub fn with_path(mut self, path: &str) -> Self {
        self.paths.push(path.to_owned());
        self
    }

    /// Replaces a member of the frame, for example by one of a wrong type.
    #[must_use]
    pub fn with_member(mut self, name: &str, value: Value) -> Self {
        self.changes.push((name.to_owned(), value));
        self
    }
}
