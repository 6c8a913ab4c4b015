//! The destination of a message: a person, a group, or a conversation with a member of a guild.
//!
//! Decision: a chat keeps the bare id that older sessions use, so the id does not show its kind.
//! The kind is in the delivery context of a session, in the note of [known
//! chats](crate::known_chats), or in front of a target that a person writes.

use nanobot_channel::{ChannelError, ChatId, DeliveryContext, Map};

/// The keys of the delivery context.
const KIND_KEY: &str = "kind";
const GUILD_KEY: &str = "guild_id";
/// The kinds, in the delivery context and in front of a target.
const PERSON: &str = "c2c";
const GROUP: &str = "group";
const GUILD: &str = "dm";
/// Longest id, in bytes.
const ID_LIMIT: usize = 128;

/// A place for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A person, by the id for this bot.
    Person(String),
    /// A group, by the id for this bot.
    Group(String),
    /// A conversation with a member of a guild, by the guild that QQ names it by.
    Guild(String),
}

impl Place {
    /// Returns the part of the delivery context that names the place.
    pub(crate) fn to_extra(&self) -> Map {
        let (kind, guild) = match self {
            Self::Person(_) => (PERSON, None),
            Self::Group(_) => (GROUP, None),
            Self::Guild(guild) => (GUILD, Some(guild.as_str())),
        };
        let entries = [(KIND_KEY, Some(kind)), (GUILD_KEY, guild)].into_iter();
        let entries = entries.filter_map(|(key, value)| Some((key.to_owned(), value?.into())));
        entries.collect()
    }

    /// Returns the place of a chat; `None` if the delivery context does not name it.
    pub(crate) fn from_extra(chat: &str, extra: &Map) -> Option<Self> {
        let text = |key| extra.get(key)?.as_str();
        match text(KIND_KEY)? {
            PERSON => Some(Self::Person(chat.to_owned())),
            GROUP => Some(Self::Group(chat.to_owned())),
            GUILD => text(GUILD_KEY).map(|guild| Self::Guild(guild.to_owned())),
            _ => None,
        }
    }

    /// Returns the path of the place in the API.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Person(id) => format!("v2/users/{id}"),
            Self::Group(id) => format!("v2/groups/{id}"),
            Self::Guild(id) => format!("dms/{id}"),
        }
    }

    /// `true` if its id can be one. It becomes a part of an address.
    pub(crate) fn is_valid(&self) -> bool {
        let (Self::Person(id) | Self::Group(id) | Self::Guild(id)) = self;
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (1..=ID_LIMIT).contains(&id.len()) && id.bytes().all(is_letter)
    }
}

/// A place, and whether its kind is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendTarget {
    pub(crate) place: Place,
    /// `true` if nothing says that it is a person.
    pub(crate) is_guess: bool,
}

impl SendTarget {
    /// Returns the target of a chat. `known` returns the place of a chat without a kind.
    ///
    /// # Errors
    /// [`ChannelError::NotFound`] if the chat has none of QQ's ids.
    pub(crate) fn new(
        chat: &ChatId,
        delivery: &DeliveryContext,
        known: impl FnOnce(&str) -> Option<Place>,
    ) -> Result<Self, ChannelError> {
        let id = chat.as_str().trim();
        let named = id.split_once(':').and_then(|(kind, id)| match kind {
            PERSON => Some(Place::Person(id.to_owned())),
            GROUP => Some(Place::Group(id.to_owned())),
            GUILD => Some(Place::Guild(id.to_owned())),
            _ => None,
        });
        let place = named
            .or_else(|| Place::from_extra(id, &delivery.extra))
            .or_else(|| known(id));
        let target = Self {
            is_guess: place.is_none(),
            place: place.unwrap_or_else(|| Place::Person(id.to_owned())),
        };
        if target.place.is_valid() {
            Ok(target)
        } else {
            Err(ChannelError::NotFound(format!(
                "`{chat}` is no id of QQ; write an id, c2c:ID, group:ID or dm:GUILD"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(chat: &str, extra: Map) -> Option<SendTarget> {
        let delivery = DeliveryContext {
            extra,
            ..DeliveryContext::default()
        };
        let known = |id: &str| (id == "K").then(|| Place::Group("K".to_owned()));
        SendTarget::new(&chat.into(), &delivery, known).ok()
    }

    #[test]
    fn kind_comes_from_the_target_the_session_or_the_note() {
        let place = |place: Place, is_guess| Some(SendTarget { place, is_guess });
        let person = |id: &str| Place::Person(id.to_owned());
        let group = |id: &str| Place::Group(id.to_owned());
        let guild = |id: &str| Place::Guild(id.to_owned());
        let table = [
            ("A0", Map::new(), place(person("A0"), true)),
            (" A0 ", person("A0").to_extra(), place(person("A0"), false)),
            ("A0", group("A0").to_extra(), place(group("A0"), false)),
            ("A0", guild("9").to_extra(), place(guild("9"), false)),
            ("K", Map::new(), place(group("K"), false)),
            (
                "group:A0",
                person("A0").to_extra(),
                place(group("A0"), false),
            ),
            ("c2c:K", Map::new(), place(person("K"), false)),
            ("dm:9", Map::new(), place(guild("9"), false)),
            ("group:", Map::new(), None),
            ("a/../b", Map::new(), None),
            ("x:y", Map::new(), None),
            ("", Map::new(), None),
        ];
        for (chat, extra, expected) in table {
            assert_eq!(target(chat, extra), expected, "{chat}");
        }
        assert!(target(&"A".repeat(129), Map::new()).is_none());
    }
}
