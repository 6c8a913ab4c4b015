//! Messages from people.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::BOT_USER_ID;

/// A person who can write to the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The user id.
    pub id: String,
    /// The nickname.
    pub name: String,
}

impl Person {
    /// Returns a person.
    #[must_use]
    pub fn new(id: &str, name: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns the id of the person's session with the bot (`session_…`).
    #[must_use]
    pub fn direct(&self) -> String {
        format!("session_{}", self.id)
    }

    pub(crate) fn info(&self) -> Value {
        json!({
            "userId": self.id, "nickname": self.name, "email": format!("{}@example.com", self.id),
            "avatar": null, "type": if self.id == BOT_USER_ID { "agent" } else { "user" },
        })
    }
}

/// A form of the mention of the bot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mention {
    /// `meta.mentioned` is `true`.
    Mentioned,
    /// `meta.wasMentioned` is `true`.
    WasMentioned,
    /// The bot's id in the list `meta.mentions`.
    Mentions,
    /// The bot's id in the list `meta.mentionIds`.
    MentionIds,
    /// The bot's id in the list `meta.mentionedUserIds`.
    MentionedUserIds,
    /// The bot's id in the list `meta.mentionedUsers`.
    MentionedUsers,
    /// An object with `id` in `meta.mentions`.
    ObjectWithId,
    /// An object with `userId` in `meta.mentions`.
    ObjectWithUserId,
    /// An object with `_id` in `meta.mentions`.
    ObjectWithUnderscoreId,
    /// `<@id>` at the start of the text.
    Tag,
    /// `@id` at the start of the text.
    At,
}

impl Mention {
    /// All forms.
    pub const ALL: [Self; 11] = [
        Self::Mentioned,
        Self::WasMentioned,
        Self::Mentions,
        Self::MentionIds,
        Self::MentionedUserIds,
        Self::MentionedUsers,
        Self::ObjectWithId,
        Self::ObjectWithUserId,
        Self::ObjectWithUnderscoreId,
        Self::Tag,
        Self::At,
    ];

    /// Returns the member of `meta` that mentions a user, or the start of the text.
    fn written(self, user: &str) -> Result<(&'static str, Value), String> {
        Ok(match self {
            Self::Mentioned => ("mentioned", json!(true)),
            Self::WasMentioned => ("wasMentioned", json!(true)),
            Self::Mentions => ("mentions", json!([user])),
            Self::MentionIds => ("mentionIds", json!([user])),
            Self::MentionedUserIds => ("mentionedUserIds", json!([user])),
            Self::MentionedUsers => ("mentionedUsers", json!([user])),
            Self::ObjectWithId => ("mentions", json!([{"id": user}])),
            Self::ObjectWithUserId => ("mentions", json!([{"userId": user}])),
            Self::ObjectWithUnderscoreId => ("mentions", json!([{"_id": user}])),
            Self::Tag => return Err(format!("<@{user}>")),
            Self::At => return Err(format!("@{user}")),
        })
    }
}

/// A message from a person.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub(crate) chat: String,
    pub(crate) person: Person,
    pub(crate) content: Value,
    pub(crate) meta: Value,
    /// The id of the message that it answers.
    pub(crate) quotes: Option<String>,
    pub(crate) mentions_robot: bool,
    /// The group; `None` for that of the chat.
    pub(crate) group: Option<String>,
    /// Creation time in milliseconds; `None` for now.
    pub(crate) created: Option<i64>,
}

impl Incoming {
    /// Returns a text in the person's session with the bot.
    #[must_use]
    pub fn direct(person: &Person, text: &str) -> Self {
        Self::to(&person.direct(), person, text)
    }

    /// Returns a text in a session (`session_…`) or in a panel.
    #[must_use]
    pub fn to(chat: &str, person: &Person, text: &str) -> Self {
        Self {
            chat: chat.to_owned(),
            person: person.clone(),
            content: Value::String(text.to_owned()),
            meta: json!({}),
            quotes: None,
            mentions_robot: false,
            group: None,
            created: None,
        }
    }

    /// Mentions the bot in the list `meta.mentions`. The text does not change.
    #[must_use]
    pub fn mentioning_robot(self) -> Self {
        self.mentioning_robot_as(Mention::Mentions)
    }

    /// Mentions the bot in this form.
    #[must_use]
    pub fn mentioning_robot_as(mut self, form: Mention) -> Self {
        self.mentions_robot = true;
        self.mention(BOT_USER_ID, form)
    }

    /// Mentions a person in the list `meta.mentions`. The text does not change.
    #[must_use]
    pub fn mentioning(self, person: &Person) -> Self {
        let id = person.id.clone();
        self.mention(&id, Mention::Mentions)
    }

    fn mention(mut self, user: &str, form: Mention) -> Self {
        match form.written(user) {
            Ok((key, value)) => {
                let mut list = self.meta.get(key).cloned().unwrap_or_default();
                match (list.as_array_mut(), value.as_array()) {
                    (Some(list), Some(more)) => list.extend(more.iter().cloned()),
                    _ => list = value,
                }
                set(&mut self.meta, key, list);
            }
            Err(start) => {
                if let Value::String(text) = &mut self.content {
                    *text = format!("{start} {text}");
                }
            }
        }
        self
    }

    /// Replies to a message by its id.
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

    /// Replaces the text by any content.
    #[must_use]
    pub fn with_content(self, content: Value) -> Self {
        Self { content, ..self }
    }

    /// Replaces the member `meta`.
    #[must_use]
    pub fn with_meta(self, meta: Value) -> Self {
        Self { meta, ..self }
    }

    /// Names another group than that of the chat; sessions have none.
    #[must_use]
    pub fn in_group(self, group: &str) -> Self {
        Self {
            group: Some(group.to_owned()),
            ..self
        }
    }
}
