//! The location of a session: the chat, and the thread in it, where its people read.
//!
//! Decision: the location is stored with the session, so that messages without a request from a
//! person (a job, a heartbeat, a notice after a restart) reach the same thread. Only a person's
//! message changes it. It is written when it changes, and only if it says more than the session
//! key, which already names a chat. The id of the message to quote is not stored, because that
//! message has been answered.

use nanobot_session::{Entry, ReadFrom, Seq, SessionStore};
use nanobot_types::{
    ChatAddress, DeliveryContext, InboundMessage, Map, Origin, PLACED_KEY, SessionKey,
};

use crate::engine::TurnFacts;

/// Metadata key under which the location is stored.
const PLACE: &str = "_place";
/// Separator between chat and topic in session keys of the Python program.
const TOPIC: &str = ":topic:";

/// Returns the location from the metadata of a session, or else from its key. Returns `None` if the
/// key names no chat.
#[must_use]
pub fn address_of(session: &SessionKey, metadata: &Map) -> Option<ChatAddress> {
    stored_address(metadata).or_else(|| named_by(session))
}

fn named_by(session: &SessionKey) -> Option<ChatAddress> {
    let (channel, rest) = session.as_str().split_once(':')?;
    let (chat, thread) = match rest.split_once(TOPIC) {
        Some((chat, thread)) => (chat, Some(thread.to_owned())),
        None => (rest, None),
    };
    let mut address = ChatAddress::new(channel, chat);
    address.delivery.thread = thread;
    let is_named = !channel.is_empty() && !chat.is_empty();
    is_named.then_some(address)
}

fn stored_address(metadata: &Map) -> Option<ChatAddress> {
    metadata
        .get(PLACE)
        .and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// Returns the metadata entry to append if the message of a turn changes the location; `None` if it
/// does not.
pub(crate) fn address_change(metadata: &Map, facts: &TurnFacts) -> Option<Entry> {
    if facts.origin != Origin::User {
        return None;
    }
    let before = stored_address(metadata);
    let now = ChatAddress {
        channel: facts.channel.clone(),
        chat_id: facts.chat_id.clone(),
        delivery: DeliveryContext {
            reply_to: None,
            ..facts.delivery.clone()
        },
        chat: facts
            .chat
            .or_else(|| before.as_ref().and_then(|before| before.chat)),
    };
    if before.or_else(|| named_by(&facts.session)).as_ref() == Some(&now) {
        return None;
    }
    let written = serde_json::to_value(now).ok()?;
    Some(Entry::Metadata(Map::from_iter([(
        PLACE.to_owned(),
        written,
    )])))
}

/// Sets the delivery of a job's message to the current location of its chat, unless the job itself
/// specifies one, be it none of the threads.
pub(crate) async fn find_delivery(sessions: &dyn SessionStore, message: &mut InboundMessage) {
    if !matches!(message.origin, Origin::Cron { .. })
        || message.delivery != DeliveryContext::default()
        || message.metadata.contains_key(PLACED_KEY)
    {
        return;
    }
    let session = SessionKey::of_chat(&message.channel, &message.chat_id);
    // Reads the metadata only.
    match sessions.read(&session, ReadFrom::Seq(Seq(u64::MAX))).await {
        Ok(view) => {
            let place = address_of(&session, &view.metadata);
            if let Some(place) = place.filter(|place| place.chat_id == message.chat_id) {
                message.delivery = place.delivery;
            }
        }
        Err(error) => tracing::warn!(%error, session = %session, "a chat's location is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use nanobot_types::ChatKind;
    use serde_json::json;

    use super::*;

    fn facts(session: &str, chat: &str, thread: Option<&str>) -> TurnFacts {
        TurnFacts {
            session: session.into(),
            channel: "t".into(),
            chat_id: chat.into(),
            message_id: None,
            sender: None,
            chat: None,
            delivery: DeliveryContext {
                thread: thread.map(str::to_owned),
                reply_to: Some("9".into()),
                extra: Map::new(),
            },
            metadata: Map::new(),
            origin: Origin::User,
        }
    }

    fn written(entry: Option<Entry>) -> Option<Map> {
        entry.map(|entry| match entry {
            Entry::Metadata(changes) => changes,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn address_is_stored_only_when_it_changes() {
        let mut metadata = Map::new();
        let group = |thread| TurnFacts {
            chat: Some(ChatKind::Group),
            ..facts("t:-1:x", "-1", thread)
        };
        let steps = [
            (facts("t:1", "1", None), None),
            (facts("t:-1:topic:7", "-1", Some("7")), None),
            (
                group(Some("7")),
                Some(
                    json!({"channel": "t", "chatId": "-1", "delivery": {"thread": "7"}, "chat": "group"}),
                ),
            ),
            (group(Some("7")), None),
            (facts("t:-1:x", "-1", Some("7")), None),
            (
                TurnFacts {
                    origin: Origin::Heartbeat,
                    ..group(None)
                },
                None,
            ),
            (
                group(None),
                Some(json!({"channel": "t", "chatId": "-1", "chat": "group"})),
            ),
        ];
        for (facts, expected) in steps {
            let changes = written(address_change(&metadata, &facts));
            assert_eq!(
                changes.as_ref().and_then(|changes| changes.get(PLACE)),
                expected.as_ref(),
                "{facts:?}"
            );
            metadata.extend(changes.unwrap_or_default());
        }
        let place = address_of(&"t:-1:x".into(), &metadata);
        let expected = ChatAddress {
            channel: "t".into(),
            chat_id: "-1".into(),
            delivery: DeliveryContext::default(),
            chat: Some(ChatKind::Group),
        };
        assert_eq!(place, Some(expected));
    }

    #[test]
    fn session_key_yields_chat_and_topic() {
        let place = |key: &str| {
            address_of(&key.into(), &Map::new()).map(|place| (place.chat_id, place.delivery.thread))
        };
        assert_eq!(
            place("t:-100:topic:7"),
            Some(("-100".into(), Some("7".to_owned())))
        );
        assert_eq!(place("m:!room:host"), Some(("!room:host".into(), None)));
        assert_eq!(
            [place("heartbeat"), place("t:"), place(":1")],
            [None, None, None]
        );
    }
}
