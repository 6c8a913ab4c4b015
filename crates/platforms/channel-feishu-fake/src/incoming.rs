//! Messages from people.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::account::{BOT_NAME, BOT_OPEN_ID};

/// The element of a rich text that names the file.
const LAST_ELEMENT: &str = "/content/1/0";

/// A person of the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Id of the person for this app (`ou_…`).
    pub open_id: String,
    /// The name.
    pub name: String,
}

impl Person {
    /// Returns a person.
    #[must_use]
    pub fn new(open_id: &str, name: &str) -> Self {
        Self {
            open_id: open_id.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns the id of the person's direct chat with the bot (`oc_…`).
    #[must_use]
    pub fn direct(&self) -> String {
        format!("oc_{}", self.suffix())
    }

    /// Returns the three ids of the person, as events have them.
    pub(crate) fn ids(&self) -> Value {
        let suffix = self.suffix();
        json!({"open_id": self.open_id, "union_id": format!("on_{suffix}"), "user_id": suffix})
    }

    pub(crate) fn suffix(&self) -> &str {
        self.open_id.strip_prefix("ou_").unwrap_or(&self.open_id)
    }
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) chat: String,
    pub(crate) person: Person,
    pub(crate) is_app: bool,
    pub(crate) kind: String,
    pub(crate) content: Value,
    pub(crate) reply_to: Option<String>,
    pub(crate) in_thread: bool,
    /// Names and ids of the mentioned, in order.
    pub(crate) mentions: Vec<(Value, String)>,
    pub(crate) files: Vec<IncomingFile>,
    pub(crate) forwarded: Vec<Self>,
    /// Creation time in milliseconds; `None` for now.
    pub(crate) created: Option<i64>,
}

/// A file of a message.
#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    /// Member of the content that receives the key, as a JSON pointer to its object and a name.
    pub(crate) place: (String, &'static str),
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

impl Incoming {
    /// Returns a text in the person's direct chat with the bot.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Returns a text in a chat. Mentions are written as `@_user_1`, `@_user_2` and so on, in the
    /// order of the calls that add them.
    #[must_use]
    pub fn to(chat: &str, person: &Person, text: &str) -> Self {
        Self {
            chat: chat.to_owned(),
            person: person.clone(),
            is_app: false,
            kind: "text".to_owned(),
            content: json!({"text": text}),
            reply_to: None,
            in_thread: false,
            mentions: Vec::new(),
            files: Vec::new(),
            forwarded: Vec::new(),
            created: None,
        }
    }

    /// Mentions the bot. A text that does not contain the key of the mention begins with it.
    #[must_use]
    pub fn mentioning_bot(self) -> Self {
        let ids = json!({"open_id": BOT_OPEN_ID, "union_id": "on_b07", "user_id": ""});
        self.mention(ids, BOT_NAME)
    }

    /// Mentions a person.
    #[must_use]
    pub fn mentioning(self, person: &Person) -> Self {
        self.mention(person.ids(), &person.name)
    }

    /// Mentions everyone. Feishu lists no mention for this, it only writes `@_all`.
    #[must_use]
    pub fn mentioning_all(mut self) -> Self {
        self.begin_text_with("@_all");
        self
    }

    fn mention(mut self, ids: Value, name: &str) -> Self {
        self.mentions.push((ids, name.to_owned()));
        let key = format!("@_user_{}", self.mentions.len());
        self.begin_text_with(&key);
        self
    }

    fn begin_text_with(&mut self, key: &str) {
        if let Some(Value::String(text)) = self.content.get_mut("text")
            && !text.contains(key)
        {
            *text = format!("{key} {text}");
        }
    }

    /// Quotes a message: the message becomes a reply to it.
    #[must_use]
    pub fn replying_to(self, message: &str) -> Self {
        Self {
            reply_to: Some(message.to_owned()),
            ..self
        }
    }

    /// Writes the message into the thread of a message, and starts the thread if there is none.
    #[must_use]
    pub fn in_thread_of(self, message: &str) -> Self {
        Self {
            in_thread: true,
            ..self.replying_to(message)
        }
    }

    /// Makes the sender the bot of another app.
    #[must_use]
    pub fn from_app(self) -> Self {
        Self {
            is_app: true,
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

    /// Replaces type and content, for example by `sticker` or a type that does not exist.
    #[must_use]
    pub fn of_kind(self, kind: &str, content: Value) -> Self {
        Self {
            kind: kind.to_owned(),
            content,
            ..self
        }
    }

    /// Replaces the text by a rich text: a title and paragraphs of elements (`tag`, …).
    #[must_use]
    pub fn with_post(self, title: &str, paragraphs: &Value) -> Self {
        self.of_kind("post", json!({"title": title, "content": paragraphs}))
    }

    /// Replaces the text by a file.
    #[must_use]
    pub fn with_file(self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("file", json!({"file_name": name})).attach(
            "",
            "file_key",
            name,
            mime,
            bytes.into(),
        )
    }

    /// Replaces the text by an image.
    #[must_use]
    pub fn with_image(self, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("image", json!({}))
            .attach("", "image_key", "image", mime, bytes.into())
    }

    /// Replaces the text by a voice message; the duration is in milliseconds.
    #[must_use]
    pub fn with_audio(self, duration: u64, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("audio", json!({"duration": duration})).attach(
            "",
            "file_key",
            "audio",
            "audio/opus",
            bytes.into(),
        )
    }

    /// Replaces the text by a video; the duration is in milliseconds.
    #[must_use]
    pub fn with_video(self, name: &str, duration: u64, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("media", json!({"file_name": name, "duration": duration}))
            .attach("", "file_key", name, "video/mp4", bytes.into())
    }

    /// Replaces the text by a rich text of the same words and an image after them.
    #[must_use]
    pub fn with_post_image(self, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.into_post("img")
            .attach(LAST_ELEMENT, "image_key", "image", mime, bytes.into())
    }

    /// Replaces the text by a rich text of the same words and a video after them. This is the only
    /// kind of message with words and a file; the name of the file comes with the download.
    #[must_use]
    pub fn with_post_media(self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.into_post("media")
            .attach(LAST_ELEMENT, "file_key", name, mime, bytes.into())
    }

    fn into_post(self, tag: &str) -> Self {
        let text = self.content.get("text").cloned().unwrap_or_default();
        let paragraphs = json!([[{"tag": "text", "text": text}], [{"tag": tag}]]);
        self.with_post("", &paragraphs)
    }

    /// Replaces the text by merged and forwarded messages.
    #[must_use]
    pub fn with_forwarded(self, messages: Vec<Self>) -> Self {
        let content = json!({"content": "Merged and Forwarded Message"});
        Self {
            forwarded: messages,
            ..self.of_kind("merge_forward", content)
        }
    }

    fn attach(
        mut self,
        object: &str,
        member: &'static str,
        name: &str,
        mime: &str,
        bytes: Bytes,
    ) -> Self {
        self.files.push(IncomingFile {
            place: (object.to_owned(), member),
            name: name.to_owned(),
            mime: mime.to_owned(),
            bytes,
        });
        self
    }
}
