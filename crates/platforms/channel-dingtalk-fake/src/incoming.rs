//! Messages from people.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::account::ROBOT_USER_ID;

/// A person who can write to the robot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Id of the person in the organisation; empty for people from outside.
    pub staff_id: String,
    /// Id of the person for this robot (`$:LWCP_v1:$…`).
    pub sender_id: String,
    /// The name.
    pub name: String,
}

impl Person {
    /// Returns a member of the organisation.
    #[must_use]
    pub fn new(staff_id: &str, name: &str) -> Self {
        Self {
            staff_id: staff_id.to_owned(),
            ..Self::external(staff_id, name)
        }
    }

    /// Returns a person from outside the organisation, who has no staff id.
    #[must_use]
    pub fn external(id: &str, name: &str) -> Self {
        Self {
            staff_id: String::new(),
            sender_id: format!("$:LWCP_v1:${id}"),
            name: name.to_owned(),
        }
    }

    /// Returns the id of the person's private chat with the robot (`cid…`).
    #[must_use]
    pub fn direct(&self) -> String {
        let id = self.sender_id.rsplit('$').next().unwrap_or_default();
        format!("cidDirect{id}==")
    }
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) chat: String,
    pub(crate) person: Person,
    pub(crate) kind: String,
    /// The content; for a text, the member `text` of the message.
    pub(crate) content: Value,
    pub(crate) quotes: Option<String>,
    pub(crate) mentions_robot: bool,
    /// The mentioned, as `atUsers` has them.
    pub(crate) mentions: Vec<Value>,
    pub(crate) files: Vec<IncomingFile>,
    /// Creation time in milliseconds; `None` for now.
    pub(crate) created: Option<i64>,
}

/// A file of a message.
#[derive(Clone, Debug)]
pub(crate) struct IncomingFile {
    /// The object of the content that receives the code, as a JSON pointer.
    pub(crate) place: String,
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Bytes,
}

impl Incoming {
    /// Returns a text in the person's private chat with the robot.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Returns a text in a chat. Messages in groups reach the robot only if they mention it.
    #[must_use]
    pub fn to(chat: &str, person: &Person, text: &str) -> Self {
        Self {
            chat: chat.to_owned(),
            person: person.clone(),
            kind: "text".to_owned(),
            content: json!({"content": text}),
            quotes: None,
            mentions_robot: false,
            mentions: Vec::new(),
            files: Vec::new(),
            created: None,
        }
    }

    /// Mentions the robot. DingTalk removes the mention from the text, up to a space.
    #[must_use]
    pub fn mentioning_robot(mut self) -> Self {
        self.mentions_robot = true;
        self.mentions.push(json!({"dingtalkId": ROBOT_USER_ID}));
        if let Some(Value::String(text)) = self.content.get_mut("content") {
            text.insert(0, ' ');
        }
        self
    }

    /// Mentions a person. The text does not change.
    #[must_use]
    pub fn mentioning(mut self, person: &Person) -> Self {
        let mut mention = json!({"dingtalkId": person.sender_id});
        if !person.staff_id.is_empty() {
            nanobot_testkit::json::set(&mut mention, "staffId", person.staff_id.as_str());
        }
        self.mentions.push(mention);
        self
    }

    /// Quotes a message of a person by its id, or one of the robot by its key.
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

    /// Replaces type and content, for example by a type that does not exist.
    #[must_use]
    pub fn of_kind(self, kind: &str, content: Value) -> Self {
        Self {
            kind: kind.to_owned(),
            content,
            ..self
        }
    }

    /// Replaces the text by a file.
    #[must_use]
    pub fn with_file(self, name: &str, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let content = json!({"fileName": name, "spaceId": "1", "fileId": "2"});
        self.of_kind("file", content)
            .attach("", name, mime, bytes.into())
    }

    /// Replaces the text by a picture.
    #[must_use]
    pub fn with_picture(self, mime: &str, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("picture", json!({"pictureDownloadCode": ""}))
            .attach("", "picture", mime, bytes.into())
    }

    /// Replaces the text by a voice message; `words` is the recognised text, the duration is in
    /// milliseconds.
    #[must_use]
    pub fn with_audio(self, words: Option<&str>, duration: u64, bytes: impl Into<Bytes>) -> Self {
        let mut content = json!({"duration": duration});
        if let Some(words) = words {
            nanobot_testkit::json::set(&mut content, "recognition", words);
        }
        self.of_kind("audio", content)
            .attach("", "audio.amr", "audio/amr", bytes.into())
    }

    /// Replaces the text by a video; the duration is in seconds.
    #[must_use]
    pub fn with_video(self, duration: u64, bytes: impl Into<Bytes>) -> Self {
        self.of_kind("video", json!({"duration": duration, "videoType": "mp4"}))
            .attach("", "video.mp4", "video/mp4", bytes.into())
    }

    /// Replaces the text by rich text: a list of items (`text`, `type`, …).
    #[must_use]
    pub fn with_rich_text(self, items: &Value) -> Self {
        self.of_kind("richText", json!({"richText": items}))
    }

    /// Replaces the text by rich text of the same words and a picture after them. This is the only
    /// kind of message with words and a file.
    #[must_use]
    pub fn with_rich_picture(self, mime: &str, bytes: impl Into<Bytes>) -> Self {
        let text = self.content.get("content").cloned().unwrap_or_default();
        let items = json!([{"text": text}, {"type": "picture", "pictureDownloadCode": ""}]);
        self.with_rich_text(&items)
            .attach("/richText/1", "picture", mime, bytes.into())
    }

    fn attach(mut self, place: &str, name: &str, mime: &str, bytes: Bytes) -> Self {
        self.files.push(IncomingFile {
            place: place.to_owned(),
            name: name.to_owned(),
            mime: mime.to_owned(),
            bytes,
        });
        self
    }
}
