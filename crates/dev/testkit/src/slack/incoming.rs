//! What people send.

use bytes::Bytes;

/// Somebody in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// `U…`.
    pub id: String,
    /// Without `@`.
    pub name: String,
}

impl Person {
    /// Somebody.
    pub fn new(id: &str, name: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Their direct conversation with the bot.
    #[must_use]
    pub fn direct(&self) -> String {
        self.id.replacen('U', "D", 1)
    }
}

/// A message of a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(super) channel: String,
    pub(super) person: Person,
    pub(super) text: String,
    pub(super) thread: Option<String>,
    pub(super) subtype: Option<String>,
    pub(super) files: Vec<IncomingFile>,
}

#[derive(Clone, Debug)]
pub(super) struct IncomingFile {
    pub(super) name: String,
    pub(super) mime: String,
    pub(super) bytes: Bytes,
    /// What the event says about its size.
    pub(super) size: usize,
}

impl Incoming {
    /// To the bot alone.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Into a channel. A mention of the bot is told by an event of its own besides.
    #[must_use]
    pub fn to(channel: &str, person: &Person, text: &str) -> Self {
        Self {
            channel: channel.to_owned(),
            person: person.clone(),
            text: text.to_owned(),
            thread: None,
            subtype: None,
            files: Vec::new(),
        }
    }

    /// As an answer in a thread.
    #[must_use]
    pub fn in_thread(self, ts: &str) -> Self {
        Self {
            thread: Some(ts.to_owned()),
            ..self
        }
    }

    /// With a subtype.
    #[must_use]
    pub fn of_subtype(self, subtype: &str) -> Self {
        Self {
            subtype: Some(subtype.to_owned()),
            ..self
        }
    }

    /// With a file.
    #[must_use]
    pub fn with_file(mut self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        self.subtype = Some("file_share".to_owned());
        let size = bytes.len();
        self.files.push(IncomingFile {
            name: name.to_owned(),
            mime: mime.to_owned(),
            bytes,
            size,
        });
        self
    }

    /// The last file is said to have another size than it has.
    #[must_use]
    pub fn lying_about_size(mut self, size: usize) -> Self {
        if let Some(file) = self.files.last_mut() {
            file.size = size;
        }
        self
    }
}
