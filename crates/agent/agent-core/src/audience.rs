//! The audience of a session: who hears the conversation, and so which memory may be used there.
//!
//! Decision: the audience is stored with the session, so that it is still known after a restart,
//! after a summary, and for messages that come from no person. It is derived only from what a
//! channel reports about a person's message. As soon as a second person or a group is heard in a
//! session, the session is a room and stays one. A session without any information is a room as
//! well. A mistake can therefore withhold memory but never disclose it.

use std::sync::Arc;

use nanobot_memory::Audience;
use nanobot_session::{AUDIENCE, Entry, ReadFrom, Seq, SessionReach, SessionStore};
use nanobot_types::{ChatKind, Map, Origin, SenderId, SessionKey};

use crate::engine::TurnFacts;

const PERSON: &str = "person:";
const ROOM: &str = "room";

/// Determines the audience of a session.
#[derive(Clone, Debug)]
pub struct AudienceLookup {
    sessions: Arc<dyn SessionStore>,
    divided: bool,
}

impl AudienceLookup {
    /// Creates the lookup over `sessions`; `divided` is `true` if people and rooms have memory of
    /// their own. If it is `false`, no session is read.
    #[must_use]
    pub fn new(sessions: Arc<dyn SessionStore>, divided: bool) -> Self {
        Self { sessions, divided }
    }

    /// Returns the audience of `session`. A session that cannot be read counts as a room.
    pub async fn of(&self, session: &SessionKey) -> Audience {
        if !self.divided {
            return Audience::Undivided;
        }
        let view = self
            .sessions
            .read(session, ReadFrom::Seq(Seq(u64::MAX)))
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(%error, session = %session, "the audience of a session could not be read");
                nanobot_session::SessionView::default()
            });
        stored_audience(session, &view.metadata)
    }

    /// Returns a name for the owner of what a session creates: its person, or the room itself.
    /// Returns `None` where everything is shared.
    pub async fn owner(&self, session: &SessionKey) -> Option<String> {
        match self.of(session).await {
            Audience::Undivided => None,
            audience @ Audience::Person(_) => Some(serialised(&audience)),
            Audience::Room(session) => Some(format!("{ROOM}:{session}")),
        }
    }

    /// Returns the sessions that may be searched from `session`.
    pub async fn reach(&self, session: &SessionKey) -> SessionReach {
        match self.of(session).await {
            Audience::Undivided => SessionReach::All,
            audience @ Audience::Person(_) => SessionReach::Of {
                session: session.clone(),
                audience: Some(serialised(&audience)),
            },
            Audience::Room(_) => SessionReach::Of {
                session: session.clone(),
                audience: None,
            },
        }
    }
}

/// Returns the audience stored in a session's metadata.
pub(crate) fn stored_audience(session: &SessionKey, metadata: &Map) -> Audience {
    let person = metadata
        .get(AUDIENCE)
        .and_then(|value| value.as_str())
        .and_then(|text| text.strip_prefix(PERSON));
    person.map_or_else(
        || Audience::Room(session.clone()),
        |person| Audience::Person(person.into()),
    )
}

/// Returns the metadata entry to append if the message of a turn changes the audience; `None` if it
/// does not.
pub(crate) fn audience_change(metadata: &Map, facts: &TurnFacts) -> Option<Entry> {
    let implied = implied_audience(facts)?;
    let before = metadata
        .get(AUDIENCE)
        .map(|value| value.as_str().unwrap_or(ROOM));
    let now = match before {
        None => implied,
        Some(before) if before == implied => return None,
        Some(ROOM) => return None,
        Some(_) => ROOM.to_owned(),
    };
    Some(Entry::Metadata(Map::from_iter([(
        AUDIENCE.to_owned(),
        now.into(),
    )])))
}

/// Returns the audience that the message of a turn implies, if it says anything about it.
fn implied_audience(facts: &TurnFacts) -> Option<String> {
    if facts.origin != Origin::User {
        return None;
    }
    match (facts.chat?, &facts.sender) {
        (ChatKind::Direct, Some(sender)) => {
            let person = format!("{}:{}", facts.channel, stable_id(sender));
            Some(serialised(&Audience::Person(person.into())))
        }
        (ChatKind::Direct | ChatKind::Group, _) => Some(ROOM.to_owned()),
    }
}

fn serialised(audience: &Audience) -> String {
    match audience {
        Audience::Person(person) => format!("{PERSON}{person}"),
        Audience::Room(_) | Audience::Undivided => ROOM.to_owned(),
    }
}

/// Returns the part of a sender id that stays the same when people rename themselves: the number
/// before `|`, as Telegram has it, or else the whole id.
fn stable_id(sender: &SenderId) -> &str {
    match sender.as_str().split_once('|') {
        Some((number, _))
            if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            number
        }
        _ => sender.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(chat: Option<ChatKind>, sender: Option<&str>, origin: Origin) -> TurnFacts {
        TurnFacts {
            session: "t:1".into(),
            channel: "t".into(),
            chat_id: "1".into(),
            message_id: None,
            sender: sender.map(SenderId::from),
            chat,
            delivery: nanobot_types::DeliveryContext::default(),
            metadata: Map::new(),
            origin,
        }
    }

    /// Returns the stored audience of a session after these messages.
    fn after(messages: &[(Option<ChatKind>, Option<&str>)]) -> Audience {
        let mut metadata = Map::new();
        for (chat, sender) in messages {
            if let Some(Entry::Metadata(changes)) =
                audience_change(&metadata, &facts(*chat, *sender, Origin::User))
            {
                metadata.extend(changes);
            }
        }
        stored_audience(&"t:1".into(), &metadata)
    }

    #[test]
    fn audience_is_a_person_only_without_other_senders() {
        let (direct, group) = (Some(ChatKind::Direct), Some(ChatKind::Group));
        let (room, ann) = (Audience::Room("t:1".into()), Audience::Person("t:7".into()));
        for (messages, expected) in [
            (&[][..], &room),
            (&[(direct, Some("7"))], &ann),
            (&[(direct, Some("7|ann"))], &ann),
            (
                &[
                    (direct, Some("7|ann")),
                    (direct, Some("7|anna")),
                    (None, Some("user")),
                ],
                &ann,
            ),
            (&[(None, Some("7"))], &room),
            (&[(direct, None)], &room),
            (&[(group, Some("7"))], &room),
            (&[(direct, Some("7")), (direct, Some("8"))], &room),
            (&[(direct, Some("7")), (group, Some("7"))], &room),
            (&[(group, Some("7")), (direct, Some("7"))], &room),
            (
                &[
                    (direct, Some("7")),
                    (direct, Some("8")),
                    (direct, Some("7")),
                ],
                &room,
            ),
        ] {
            assert_eq!(after(messages), *expected, "{messages:?}");
        }
        let unread = Map::from_iter([(AUDIENCE.to_owned(), 7.into())]);
        assert_eq!(stored_audience(&"t:1".into(), &unread), room);
        assert_eq!(
            audience_change(&unread, &facts(direct, Some("7"), Origin::User)),
            None
        );
        assert_eq!(
            audience_change(&Map::new(), &facts(direct, Some("7"), Origin::Heartbeat)),
            None
        );
    }

    #[test]
    fn distinguishes_senders_with_similar_ids() {
        for (one, other) in [
            ("a|b@x", "a|c@x"),
            ("7", "8"),
            ("|7", "|8"),
            ("7x|a", "7x|b"),
        ] {
            assert_ne!(stable_id(&one.into()), stable_id(&other.into()));
        }
    }
}
