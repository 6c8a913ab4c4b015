//! Messages from people.

use bytes::Bytes;

/// A person in the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// User id (`U…`).
    pub id: String,
    /// Name without `@`.
    pub name: String,
}

impl Person {
    /// Returns a person.
    pub fn new(id: &str, name: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns the id of the person's direct conversation with the bot.
    #[must_use]
    pub fn direct(&self) -> String {
        self.id.replacen('U', "D", 1)
    }
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) channel: String,
    pub(crate) person: Person,
    pub(crate) text: String,
    pub(crate) thread: Option<String>,
    pub(crate) subtype: Option<String>,
    pub(crate) files: Vec<IncomingFile>,
}

#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
    /// Size claimed by the event.
    pub(crate) size: usize,
}

impl Incoming {
    /// Returns a direct message to the bot.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Returns a message in a channel. A mention of the bot causes an additional event.
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

    /// Makes the message a reply in a thread.
    #[must_use]
    pub fn in_thread(self, ts: &str) -> Self {
        Self {
            thread: Some(ts.to_owned()),
            ..self
        }
    }

    /// Sets a subtype.
    #[must_use]
    pub fn of_subtype(self, subtype: &str) -> Self {
        Self {
            subtype: Some(subtype.to_owned()),
            ..self
        }
    }

    /// Adds a file.
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

    /// Declares a false size for the last file.
    #[must_use]
    pub fn lying_about_size(mut self, size: usize) -> Self {
        if let Some(file) = self.files.last_mut() {
            file.size = size;
        }
        self
    }
}
