//! The chats that are not those of a person, kept over restarts: scheduled messages reach them by
//! their bare ids.

use std::collections::VecDeque;

use nanobot_channel_kit::Noted;

use crate::target::Place;

/// Most chats that are remembered; the oldest are forgotten.
const CAPACITY: usize = 512;
/// Longest id that is remembered, in bytes. With the capacity it bounds the note.
const ID_LIMIT: usize = 48;

/// Chats and their places, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct KnownChats(VecDeque<(String, Place)>);

impl Noted for KnownChats {
    const NAME: &'static str = "chats";
    /// Each chat with its guild; `None` for a group.
    type Form = Vec<(String, Option<String>)>;

    fn form(&self) -> Self::Form {
        let entry = |(chat, place): &(String, Place)| {
            let guild = match place {
                Place::Guild(guild) => Some(guild.clone()),
                Place::Person(_) | Place::Group(_) => None,
            };
            (chat.clone(), guild)
        };
        self.0.iter().map(entry).collect()
    }

    fn restore(&mut self, form: Self::Form) {
        for (chat, guild) in form {
            let place = guild.map_or_else(|| Place::Group(chat.clone()), Place::Guild);
            self.learn(&chat, &place);
        }
    }
}

impl KnownChats {
    /// Returns the place of a chat.
    pub(crate) fn find(&self, chat: &str) -> Option<Place> {
        let known = self.0.iter().find(|(known, _)| known == chat);
        known.map(|(_, place)| place.clone())
    }

    /// Remembers the place of a chat. `true` if that is new.
    pub(crate) fn learn(&mut self, chat: &str, place: &Place) -> bool {
        let is_bounded = match place {
            Place::Person(_) => false,
            Place::Group(_) => chat.len() <= ID_LIMIT,
            Place::Guild(guild) => chat.len().max(guild.len()) <= ID_LIMIT,
        };
        if !is_bounded || self.find(chat).as_ref() == Some(place) {
            return false;
        }
        self.0.retain(|(known, _)| known != chat);
        if self.0.len() >= CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back((chat.to_owned(), place.clone()));
        true
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::MAX_NOTE_BYTES;

    use super::*;

    #[test]
    fn chats_are_remembered_within_the_bounds_of_a_note() {
        let mut chats = KnownChats::default();
        let group = Place::Group("G".to_owned());
        assert!(chats.learn("G", &group) && !chats.learn("G", &group));
        assert!(chats.learn("7", &Place::Guild("9".to_owned())));
        assert!(!chats.learn("U", &Place::Person("U".to_owned())));
        assert!(!chats.learn(&"x".repeat(49), &group));
        let mut next = KnownChats::default();
        next.restore(serde_json::from_str(r#"[["G",null],["7","9"]]"#).unwrap());
        assert_eq!(next.form(), chats.form());
        for number in 0..2 * CAPACITY {
            chats.learn(
                &format!("{number:048}"),
                &Place::Guild("x".repeat(ID_LIMIT)),
            );
        }
        assert_eq!((chats.0.len(), chats.find("G")), (CAPACITY, None));
        let note = serde_json::to_string(&chats.form()).unwrap();
        assert!(note.len() <= MAX_NOTE_BYTES, "{}", note.len());
    }
}
