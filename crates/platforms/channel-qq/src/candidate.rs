//! From a message of the gateway to a candidate message.
//!
//! A chat is named by its bare id, as older sessions are; its kind is in the delivery context,
//! which is kept with the session.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, DeliveryContext, Map, MessageId, SenderId, Value,
};
use serde_json::json;

use crate::content::pieces;
use crate::target::Place;
use crate::wire::{EventKind, Mention, Message};

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<Place>;

/// Reads a message. `None` if it names no sender or no usable chat, or if a bot sent it.
pub(crate) fn message_candidate(kind: EventKind, message: &Message) -> Option<CandidateMessage> {
    let author = &message.author;
    if author.bot {
        return None;
    }
    let id = given(&message.id)?;
    let (sender, chat, place, arrival) = match kind {
        EventKind::Direct => {
            let person = given(&author.user_openid).or_else(|| given(&author.id))?;
            let place = Place::Person(person.clone());
            (person.clone(), person, place, Arrival::direct())
        }
        EventKind::GroupMention | EventKind::Group => {
            let sender = given(&author.member_openid).or_else(|| given(&author.id))?;
            let group = given(&message.group_openid)?;
            let is_named = message.mentions.iter().any(|mention| mention.is_you);
            let arrival = Arrival::group(kind == EventKind::GroupMention || is_named);
            (sender, group.clone(), Place::Group(group), arrival)
        }
        EventKind::GuildDirect => {
            let person = given(&author.id)?;
            let place = Place::Guild(given(&message.guild_id)?);
            (person.clone(), person, place, Arrival::direct())
        }
    };
    if !place.is_valid() {
        return None;
    }
    let metadata = json!({
        "message_id": id, "sender_name": given(&author.username), "platform": "qq",
        "chat_kind": if arrival.kind == ChatKind::Group { "group" } else { "direct" },
    });
    let metadata = match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    };
    Some(CandidateMessage {
        sender: SenderId::from(sender),
        chat: ChatId::from(chat),
        arrival,
        pieces: pieces(message, &own_names(&message.mentions)),
        metadata,
        session: None,
        delivery: DeliveryContext {
            reply_to: Some(MessageId::from(id.clone())),
            extra: place.to_extra(),
            ..DeliveryContext::default()
        },
        id: MessageId::from(id),
        origin: place,
    })
}

/// Returns the ids by which a text mentions the bot.
fn own_names(mentions: &[Mention]) -> Vec<&str> {
    let own = mentions.iter().filter(|mention| mention.is_you);
    let names = own.flat_map(|mention| [mention.id.as_str(), mention.member_openid.as_str()]);
    names.filter(|name| !name.is_empty()).collect()
}

fn given(id: &str) -> Option<String> {
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use nanobot_channel_kit::intake::Piece;

    use super::*;

    fn read(kind: EventKind, changes: &Value) -> Option<CandidateMessage> {
        let mut message = json!({
            "id": "m1", "content": " /new ", "group_openid": "G", "guild_id": "9",
            "author": {"id": "7", "user_openid": "U", "member_openid": "M", "username": "Ann"},
        });
        let changes = changes.as_object().unwrap().clone();
        message.as_object_mut().unwrap().extend(changes);
        message_candidate(kind, &serde_json::from_value(message).unwrap())
    }

    #[test]
    fn sender_chat_and_place_follow_the_metadata() {
        let mentioned = json!({"mentions": [{"member_openid": "B", "is_you": true}, 5]});
        let table = [
            (
                EventKind::Direct,
                json!({}),
                ("U", "U", Place::Person("U".into()), true),
            ),
            (
                EventKind::GroupMention,
                json!({}),
                ("M", "G", Place::Group("G".into()), true),
            ),
            (
                EventKind::Group,
                json!({}),
                ("M", "G", Place::Group("G".into()), false),
            ),
            (
                EventKind::Group,
                mentioned,
                ("M", "G", Place::Group("G".into()), true),
            ),
            (
                EventKind::GuildDirect,
                json!({}),
                ("7", "7", Place::Guild("9".into()), true),
            ),
        ];
        for (kind, changes, (sender, chat, place, is_addressed)) in table {
            let found = read(kind, &changes).unwrap();
            assert_eq!((found.sender.as_str(), found.chat.as_str()), (sender, chat));
            assert_eq!(found.arrival.addressed, is_addressed, "{kind:?}");
            assert_eq!(Place::from_extra(chat, &found.delivery.extra), Some(place));
        }
    }

    #[test]
    fn content_and_metadata_are_kept() {
        let candidate = read(EventKind::GroupMention, &json!({})).unwrap();
        assert_eq!(candidate.pieces, [Piece::Text("/new".to_owned())]);
        assert_eq!(candidate.delivery.reply_to, Some("m1".into()));
        let metadata = json!({
            "message_id": "m1", "sender_name": "Ann", "platform": "qq", "chat_kind": "group",
        });
        assert_eq!(Value::Object(candidate.metadata), metadata);
    }

    #[test]
    fn messages_without_ids_and_of_bots_are_left_out() {
        let table = [
            (EventKind::Direct, json!({"id": ""})),
            (EventKind::Direct, json!({"author": {}})),
            (
                EventKind::Direct,
                json!({"author": {"user_openid": "U", "bot": true}}),
            ),
            (EventKind::Group, json!({"group_openid": null})),
            (EventKind::GuildDirect, json!({"guild_id": " "})),
            (EventKind::Group, json!({"group_openid": "../users/U"})),
        ];
        for (kind, changes) in table {
            assert!(read(kind, &changes).is_none(), "{changes}");
        }
    }
}
