//! From messages of a session or a panel to a candidate message.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, DeliveryContext, Map, MessageId, OWN_LINE_KEY, SenderId, Value,
};
use nanobot_channel_kit::intake::Piece;
use serde_json::json;

use crate::content::{collected_text, content_text, ends_line};
use crate::mention::without_leading_mention;
use crate::target::Target;
use crate::wire::ChatMessage;

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<()>;

/// Keys of the delivery context.
pub(crate) const KIND_KEY: &str = "kind";
pub(crate) const GROUP_KEY: &str = "group_id";
/// The key of the metadata for the id of the message.
pub(crate) const MESSAGE_ID_KEY: &str = "message_id";

/// Returns the arrival of a message. Panels are always of several people, sessions only in groups.
pub(crate) fn arrival(target: &Target, group: &str, is_mentioned: bool) -> Arrival {
    if matches!(target, Target::Session(_)) && group.is_empty() {
        return Arrival::direct();
    }
    Arrival {
        parents: Some(group)
            .filter(|group| !group.is_empty())
            .map(ChatId::from)
            .into_iter()
            .collect(),
        ..Arrival::group(is_mentioned)
    }
}

/// Returns the text of a message for the agent, without the mention at its beginning.
pub(crate) fn own_text(message: &ChatMessage, agent: &str) -> String {
    let text = content_text(message);
    without_leading_mention(&text, agent).to_owned()
}

/// Makes one candidate of `message` and of `earlier` ones, which were collected before it.
pub(crate) fn candidate(
    agent: &str,
    target: &Target,
    earlier: &[ChatMessage],
    message: &ChatMessage,
    is_mentioned: bool,
) -> CandidateMessage {
    let arrival = arrival(target, &message.group, is_mentioned);
    let is_group = arrival.kind == ChatKind::Group;
    let own = own_text(message, agent);
    let count = earlier.len() + 1;
    let metadata = json!({
        MESSAGE_ID_KEY: message.id, "timestamp": message.timestamp, "is_group": is_group,
        "group_id": message.group, "sender_name": message.sender_name,
        "sender_username": message.sender_username, "target_kind": target.kind(),
        "was_mentioned": is_mentioned, "buffered_count": count,
    });
    let mut metadata = members(metadata);
    let text = if earlier.is_empty() {
        own
    } else {
        if !own.is_empty() && !own.contains(ends_line) {
            metadata.insert(OWN_LINE_KEY.to_owned(), own.clone().into());
        }
        let entries = earlier
            .iter()
            .map(|earlier| (earlier, content_text(earlier)));
        let entries: Vec<_> = entries.chain([(message, own)]).collect();
        collected_text(&entries, is_group)
    };
    let mut extra = members(json!({KIND_KEY: target.kind()}));
    if !message.group.is_empty() {
        extra.insert(GROUP_KEY.to_owned(), message.group.as_str().into());
    }
    CandidateMessage {
        sender: SenderId::from(message.author.as_str()),
        chat: ChatId::from(target.id()),
        arrival,
        id: MessageId::from(message.id.as_str()),
        pieces: vec![Piece::Text(text)],
        metadata,
        session: None,
        delivery: DeliveryContext {
            reply_to: is_group.then(|| MessageId::from(message.id.as_str())),
            extra,
            ..DeliveryContext::default()
        },
        origin: (),
    }
}

fn members(value: Value) -> Map {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: &str, author: &str, text: &str, group: &str) -> ChatMessage {
        ChatMessage {
            id: id.to_owned(),
            author: author.to_owned(),
            content: text.into(),
            group: group.to_owned(),
            sender_name: author.to_uppercase(),
            timestamp: Some(5),
            ..ChatMessage::default()
        }
    }

    #[test]
    fn session_is_direct_unless_it_has_a_group() {
        let (session, panel) = (
            Target::Session("s".to_owned()),
            Target::Panel("p".to_owned()),
        );
        let parents = |group: &str| Arrival {
            parents: vec![group.into()],
            ..Arrival::group(false)
        };
        assert_eq!(arrival(&session, "", false), Arrival::direct());
        assert_eq!(arrival(&session, "g", false), parents("g"));
        assert_eq!(arrival(&panel, "g", false), parents("g"));
        assert_eq!(arrival(&panel, "", true), Arrival::group(true));
    }

    #[test]
    fn direct_message_is_taken_over() {
        let session = Target::Session("session_1".to_owned());
        let found = candidate(
            "a1",
            &session,
            &[],
            &message("m1", "u1", " /new ", ""),
            false,
        );
        assert_eq!(
            (found.sender.as_str(), found.chat.as_str()),
            ("u1", "session_1")
        );
        assert_eq!(found.pieces, [Piece::Text("/new".to_owned())]);
        let metadata = json!({
            "message_id": "m1", "timestamp": 5, "is_group": false, "group_id": "", "sender_name": "U1",
            "sender_username": "", "target_kind": "session", "was_mentioned": false, "buffered_count": 1,
        });
        assert_eq!(Value::Object(found.metadata), metadata);
        assert_eq!(found.delivery.reply_to, None);
        assert_eq!(
            Value::Object(found.delivery.extra),
            json!({"kind": "session"})
        );
    }

    #[test]
    fn collected_messages_precede_the_mention() {
        let panel = Target::Panel("p1".to_owned());
        let earlier = [
            message("m1", "ann", "hello", "g1"),
            message("m2", "ben", "hi", "g1"),
        ];
        let last = message("m3", "ann", "<@a1> yes", "g1");
        let found = candidate("a1", &panel, &earlier, &last, true);
        let text = "ANN: hello\nBEN: hi\nANN: yes".to_owned();
        assert_eq!(found.pieces, [Piece::Text(text)]);
        assert_eq!(found.id.as_str(), "m3");
        assert_eq!(found.metadata["buffered_count"], 3);
        assert_eq!(found.metadata[OWN_LINE_KEY], "yes");
        assert_eq!(found.delivery.reply_to, Some("m3".into()));
        let extra = json!({"kind": "panel", "group_id": "g1"});
        assert_eq!(Value::Object(found.delivery.extra), extra);
    }
}
