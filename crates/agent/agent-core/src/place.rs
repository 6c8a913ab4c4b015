//! Where a session lives: the chat, and the thread in it, where its people read.
//!
//! Decision: it is kept with the session, so that what nobody asked for just now (a job, a
//! heartbeat, what is told after a restart) finds the same thread. Only a person's message moves
//! it. It is written when it changes, and only where it says more than the key of the session,
//! which names a chat already. Which message to quote is not kept: that one was answered.

use nanobot_session::{Entry, ReadFrom, Seq, SessionStore};
use nanobot_types::{
    ChannelName, ChatId, ChatKind, DeliveryContext, InboundMessage, Map, Origin, SessionKey,
};
use serde::{Deserialize, Serialize};

use crate::engine::TurnFacts;

/// The key of a session's metadata that holds it.
const PLACE: &str = "_place";
/// What divides a chat and its topic in the keys of the Python program.
const TOPIC: &str = ":topic:";

/// Where a session lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionPlace {
    /// The channel instance.
    pub channel: ChannelName,
    /// The conversation.
    pub chat_id: ChatId,
    /// Where in it, without a message to quote.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delivery: DeliveryContext,
    /// Who else hears it, where the channel said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<ChatKind>,
}

fn is_default(delivery: &DeliveryContext) -> bool {
    *delivery == DeliveryContext::default()
}

impl SessionPlace {
    /// Where a session lives, by its metadata, else by its key. `None` for a session that is named
    /// after no chat.
    #[must_use]
    pub fn of(session: &SessionKey, metadata: &Map) -> Option<Self> {
        kept(metadata).or_else(|| Self::named_by(session))
    }

    fn named_by(session: &SessionKey) -> Option<Self> {
        let (channel, rest) = session.as_str().split_once(':')?;
        let (chat, thread) = match rest.split_once(TOPIC) {
            Some((chat, thread)) => (chat, Some(thread.to_owned())),
            None => (rest, None),
        };
        let delivery = DeliveryContext {
            thread,
            ..DeliveryContext::default()
        };
        let is_named = !channel.is_empty() && !chat.is_empty();
        is_named.then(|| Self {
            channel: channel.into(),
            chat_id: chat.into(),
            delivery,
            chat: None,
        })
    }
}

fn kept(metadata: &Map) -> Option<SessionPlace> {
    metadata
        .get(PLACE)
        .and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// What has to be recorded because of the message of a turn; nothing where that is known.
pub(crate) fn moved(metadata: &Map, facts: &TurnFacts) -> Option<Entry> {
    if facts.origin != Origin::User {
        return None;
    }
    let before = kept(metadata);
    let now = SessionPlace {
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
    if before
        .or_else(|| SessionPlace::named_by(&facts.session))
        .as_ref()
        == Some(&now)
    {
        return None;
    }
    let written = serde_json::to_value(now).ok()?;
    Some(Entry::Metadata(Map::from_iter([(
        PLACE.to_owned(),
        written,
    )])))
}

/// Sends a job's answer to where its chat lives now, unless the job itself says where.
pub(crate) async fn find(sessions: &dyn SessionStore, message: &mut InboundMessage) {
    if !matches!(message.origin, Origin::Cron { .. })
        || message.delivery != DeliveryContext::default()
    {
        return;
    }
    let session = SessionKey::of_chat(&message.channel, &message.chat_id);
    // Its metadata is all that is wanted.
    match sessions.read(&session, ReadFrom::Seq(Seq(u64::MAX))).await {
        Ok(view) => {
            let place = SessionPlace::of(&session, &view.metadata);
            if let Some(place) = place.filter(|place| place.chat_id == message.chat_id) {
                message.delivery = place.delivery;
            }
        }
        Err(error) => tracing::warn!(%error, session = %session, "where a chat lives is not known"),
    }
}

#[cfg(test)]
mod tests {
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
    fn a_place_is_written_when_it_says_something_new() {
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
            let changes = written(moved(&metadata, &facts));
            assert_eq!(
                changes.as_ref().and_then(|changes| changes.get(PLACE)),
                expected.as_ref(),
                "{facts:?}"
            );
            metadata.extend(changes.unwrap_or_default());
        }
        let place = SessionPlace::of(&"t:-1:x".into(), &metadata);
        let expected = SessionPlace {
            channel: "t".into(),
            chat_id: "-1".into(),
            delivery: DeliveryContext::default(),
            chat: Some(ChatKind::Group),
        };
        assert_eq!(place, Some(expected));
    }

    #[test]
    fn a_key_names_a_chat_and_a_topic() {
        let place = |key: &str| {
            SessionPlace::of(&key.into(), &Map::new())
                .map(|place| (place.chat_id, place.delivery.thread))
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
