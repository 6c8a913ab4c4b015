//! Who hears a conversation, and so what may be told there.
//!
//! Decision: it is kept with the session, so that a restart, a summary or a message that nobody
//! said knows it too. Only what a channel says of a person's message counts. As soon as a second
//! person, or a group, is heard in a session, it is a room and stays one; where nothing is known
//! it is a room as well. So a mistake can withhold something, and never tell it.

use std::sync::Arc;

use nanobot_memory::Audience;
use nanobot_session::{AUDIENCE, Entry, ReadFrom, Seq, SessionReach, SessionStore};
use nanobot_types::{ChatKind, Map, Origin, SenderId, SessionKey};

use crate::engine::TurnFacts;

const PERSON: &str = "person:";
const ROOM: &str = "room";

/// Knows who hears which session.
#[derive(Clone, Debug)]
pub struct Audiences {
    sessions: Arc<dyn SessionStore>,
    divided: bool,
}

impl Audiences {
    /// For these sessions; `divided` when people and rooms have memory of their own. Where they
    /// have not, no session is looked at.
    #[must_use]
    pub fn new(sessions: Arc<dyn SessionStore>, divided: bool) -> Self {
        Self { sessions, divided }
    }

    /// Who hears a session. One that cannot be read is a room.
    pub async fn of(&self, session: &SessionKey) -> Audience {
        if !self.divided {
            return Audience::Undivided;
        }
        let view = self
            .sessions
            .read(session, ReadFrom::Seq(Seq(u64::MAX)))
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(%error, session = %session, "who hears a session is not known");
                nanobot_session::SessionView::default()
            });
        kept(session, &view.metadata)
    }

    /// A name for who owns what a session makes: its person, or the room itself; `None` where
    /// everything is everyone's.
    pub async fn owner(&self, session: &SessionKey) -> Option<String> {
        match self.of(session).await {
            Audience::Undivided => None,
            audience @ Audience::Person(_) => Some(written(&audience)),
            Audience::Room(session) => Some(format!("{ROOM}:{session}")),
        }
    }

    /// In which sessions somebody in this one may search.
    pub async fn reach(&self, session: &SessionKey) -> SessionReach {
        match self.of(session).await {
            Audience::Undivided => SessionReach::All,
            audience @ Audience::Person(_) => SessionReach::Of {
                session: session.clone(),
                audience: Some(written(&audience)),
            },
            Audience::Room(_) => SessionReach::Of {
                session: session.clone(),
                audience: None,
            },
        }
    }
}

/// Who hears a session, by its metadata.
pub(crate) fn kept(session: &SessionKey, metadata: &Map) -> Audience {
    let person = metadata
        .get(AUDIENCE)
        .and_then(|value| value.as_str())
        .and_then(|text| text.strip_prefix(PERSON));
    person.map_or_else(
        || Audience::Room(session.clone()),
        |person| Audience::Person(person.into()),
    )
}

/// What has to be recorded because of the message of a turn; nothing when it is as it was.
pub(crate) fn heard(metadata: &Map, facts: &TurnFacts) -> Option<Entry> {
    let said = said(facts)?;
    let before = metadata
        .get(AUDIENCE)
        .map(|value| value.as_str().unwrap_or(ROOM));
    let now = match before {
        None => said,
        Some(before) if before == said => return None,
        Some(ROOM) => return None,
        Some(_) => ROOM.to_owned(),
    };
    Some(Entry::Metadata(Map::from_iter([(
        AUDIENCE.to_owned(),
        now.into(),
    )])))
}

/// Who hears the message of a turn, as far as that message tells.
fn said(facts: &TurnFacts) -> Option<String> {
    if facts.origin != Origin::User {
        return None;
    }
    match (facts.chat?, &facts.sender) {
        (ChatKind::Direct, Some(sender)) => {
            let person = format!("{}:{}", facts.channel, lasting(sender));
            Some(written(&Audience::Person(person.into())))
        }
        (ChatKind::Direct | ChatKind::Group, _) => Some(ROOM.to_owned()),
    }
}

fn written(audience: &Audience) -> String {
    match audience {
        Audience::Person(person) => format!("{PERSON}{person}"),
        Audience::Room(_) | Audience::Undivided => ROOM.to_owned(),
    }
}

/// What of a sender stays the same when people rename themselves: a number before `|`, as Telegram
/// has it, or everything.
fn lasting(sender: &SenderId) -> &str {
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

    /// Who is believed to hear a session after these messages.
    fn after(messages: &[(Option<ChatKind>, Option<&str>)]) -> Audience {
        let mut metadata = Map::new();
        for (chat, sender) in messages {
            if let Some(Entry::Metadata(changes)) =
                heard(&metadata, &facts(*chat, *sender, Origin::User))
            {
                metadata.extend(changes);
            }
        }
        kept(&"t:1".into(), &metadata)
    }

    #[test]
    fn a_session_is_one_persons_only_while_nobody_else_is_heard() {
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
        assert_eq!(kept(&"t:1".into(), &unread), room);
        assert_eq!(
            heard(&unread, &facts(direct, Some("7"), Origin::User)),
            None
        );
        assert_eq!(
            heard(&Map::new(), &facts(direct, Some("7"), Origin::Heartbeat)),
            None
        );
    }

    #[test]
    fn two_people_are_never_taken_for_one() {
        for (one, other) in [
            ("a|b@x", "a|c@x"),
            ("7", "8"),
            ("|7", "|8"),
            ("7x|a", "7x|b"),
        ] {
            assert_ne!(lasting(&one.into()), lasting(&other.into()));
        }
    }
}
