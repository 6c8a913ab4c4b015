//! From a message of the bridge to a candidate message.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, DeliveryContext, Map, MessageId, SenderId, Value,
};
use serde_json::json;

use crate::content::pieces;
use crate::frame::Version;
use crate::jid::{Jid, JidKind};
use crate::state::Account;
use crate::wire::{flag, given, number, shortened, text};

/// The member of a delivery context with the author of the message that is quoted.
pub(crate) const PARTICIPANT: &str = "participant";
/// The member of a delivery context with the text of the message that is quoted.
pub(crate) const QUOTED: &str = "quoted";
/// Longest id of a message, in bytes.
const ID_LIMIT: usize = 128;
/// Longest name and longest quotation of a message, in characters.
const NAME_LIMIT: usize = 100;
const QUOTED_LIMIT: usize = 200;

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<MessageOrigin>;

/// The address of a received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageOrigin {
    pub(crate) chat: String,
    /// The author in a group; empty in a direct chat.
    pub(crate) participant: String,
    pub(crate) id: String,
}

/// The author of a message: the phone number, and the id that hides it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Author {
    phone: Option<String>,
    lid: Option<String>,
}

impl Author {
    /// Reads the author from addresses of a person.
    fn of(addresses: &[&str]) -> Self {
        let people = addresses.iter().filter_map(|text| Jid::person(text));
        people.fold(Self::default(), |author, jid| match jid.kind {
            JidKind::Phone => Self {
                phone: author.phone.or(Some(jid.user)),
                ..author
            },
            JidKind::Lid | JidKind::Group => Self {
                lid: author.lid.or(Some(jid.user)),
                ..author
            },
        })
    }

    /// Returns `number|lid`, either of which an access list may name, or the one that is known.
    fn sender_id(self) -> Option<SenderId> {
        match (self.phone, self.lid) {
            (Some(phone), Some(lid)) => Some(SenderId::from(format!("{phone}|{lid}"))),
            (phone, lid) => phone.or(lid).map(SenderId::from),
        }
    }
}

/// Reads a message. `None` if it names no sender, chat or id.
pub(crate) fn message_candidate(
    body: &Value,
    version: Version,
    account: &Account,
) -> Option<CandidateMessage> {
    let id = given(body, "id")?.trim();
    let chat_id = given(body, "sender")?.trim();
    let chat = Jid::parse(chat_id)?;
    let is_odd = |c: char| c.is_whitespace() || c.is_control();
    if id.len() > ID_LIMIT || id.contains(is_odd) {
        return None;
    }
    let is_group = chat.kind == JidKind::Group;
    let (participant, author) = match (is_group, version) {
        (false, _) => ("", Author::of(&[chat_id, text(body, "pn")])),
        (true, Version::Two) => {
            let participant = given(body, "participant")?.trim();
            let addresses = [participant, text(body, "participantPn")];
            (participant, Author::of(&addresses))
        }
        // Version 1 does not name the author: a group is one person, as in the Python program.
        (true, Version::One) => ("", Author::of(&[text(body, "pn")])),
    };
    let group_author = || is_group && version == Version::One;
    let sender = author.sender_id();
    let sender = sender.or_else(|| group_author().then(|| SenderId::from(chat.user.as_str())))?;
    let quotes_bot = body
        .get("quoted")
        .is_some_and(|quoted| flag(quoted, "fromBot"));
    let arrival = if is_group {
        Arrival::group(flag(body, "mentionsBot") || quotes_bot)
    } else {
        Arrival::direct()
    };
    Some(CandidateMessage {
        sender,
        chat: ChatId::from(chat_id),
        id: MessageId::from(id),
        pieces: pieces(body, version, account),
        metadata: metadata(body, id, is_group, participant),
        session: None,
        delivery: delivery(body, id, &arrival, participant),
        arrival,
        origin: MessageOrigin {
            chat: chat_id.to_owned(),
            participant: participant.to_owned(),
            id: id.to_owned(),
        },
    })
}

fn metadata(body: &Value, id: &str, is_group: bool, participant: &str) -> Map {
    let mut metadata = json!({
        "message_id": id, "timestamp": number(body, "timestamp").unwrap_or_default(),
        "is_group": is_group, "platform": "whatsapp",
    });
    let name = shortened(text(body, "pushName").trim(), NAME_LIMIT);
    let more = [("participant", participant), ("push_name", name.as_str())];
    for (key, value) in more.into_iter().filter(|(_, value)| !value.is_empty()) {
        if let Some(members) = metadata.as_object_mut() {
            members.insert(key.to_owned(), value.into());
        }
    }
    match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    }
}

/// Returns the address of the reply. In a group, the reply quotes the message.
fn delivery(body: &Value, id: &str, arrival: &Arrival, participant: &str) -> DeliveryContext {
    let mut delivery = DeliveryContext {
        reply_to: Some(MessageId::from(id)),
        ..DeliveryContext::default()
    };
    if arrival.kind == ChatKind::Group && !participant.is_empty() {
        let quoted = shortened(text(body, "content").trim(), QUOTED_LIMIT);
        let facts = [(PARTICIPANT, participant), (QUOTED, quoted.as_str())];
        for (key, value) in facts {
            delivery.extra.insert(key.to_owned(), value.into());
        }
    }
    delivery
}

#[cfg(test)]
mod tests {
    use nanobot_channel_kit::intake::Piece;

    use super::*;

    fn read_as(version: Version, changes: &Value) -> Option<CandidateMessage> {
        let mut body = json!({
            "type": "message", "seq": 1, "id": "3EB0A", "sender": "120363@g.us", "pn": "",
            "participant": "77:3@lid", "participantPn": "4915@s.whatsapp.net", "pushName": "Ann",
            "content": "hello", "timestamp": 1_789_000_000, "isGroup": true,
        });
        let changes = changes.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(changes);
        message_candidate(&body, version, &Account::default())
    }

    fn read(changes: &Value) -> Option<CandidateMessage> {
        read_as(Version::Two, changes)
    }

    #[test]
    fn sender_and_chat_follow_the_metadata() {
        let ids = |changes: Value| {
            let candidate = read(&changes).unwrap();
            let chat = candidate.chat.as_str().to_owned();
            (candidate.sender.as_str().to_owned(), chat)
        };
        let is = |sender: &str, chat: &str| (sender.to_owned(), chat.to_owned());
        assert_eq!(ids(json!({})), is("4915|77", "120363@g.us"));
        assert_eq!(ids(json!({"participantPn": ""})), is("77", "120363@g.us"));
        let number = json!({"sender": "49@s.whatsapp.net"});
        assert_eq!(ids(number), is("49", "49@s.whatsapp.net"));
        assert_eq!(ids(json!({"sender": "5@lid"})), is("5", "5@lid"));
        let both = json!({"sender": "5@lid", "pn": "49@s.whatsapp.net"});
        assert_eq!(ids(both), is("49|5", "5@lid"));
    }

    #[test]
    fn mention_or_reply_to_the_bot_addresses_it() {
        let arrival = |changes: Value| read(&changes).unwrap().arrival;
        assert_eq!(arrival(json!({})), Arrival::group(false));
        assert_eq!(arrival(json!({"mentionsBot": true})), Arrival::group(true));
        let quoted = |from_bot| json!({"quoted": {"id": "q", "fromBot": from_bot}});
        assert_eq!(arrival(quoted(true)), Arrival::group(true));
        assert_eq!(arrival(quoted(false)), Arrival::group(false));
        assert_eq!(arrival(json!({"sender": "5@lid"})), Arrival::direct());
    }

    #[test]
    fn group_of_version_1_is_one_person() {
        let group = json!({"participant": null, "participantPn": null, "mentionsBot": null});
        assert!(read(&group).is_none());
        let candidate = read_as(Version::One, &group).unwrap();
        assert_eq!(candidate.sender.as_str(), "120363");
        assert_eq!(candidate.arrival, Arrival::group(false));
        assert!(candidate.delivery.extra.is_empty());
        let direct = json!({"sender": "5@lid", "pn": "49@s.whatsapp.net"});
        assert_eq!(
            read_as(Version::One, &direct).unwrap().sender.as_str(),
            "49|5"
        );
    }

    #[test]
    fn metadata_and_address_of_the_reply_are_kept() {
        let candidate = read(&json!({})).unwrap();
        let metadata = json!({
            "message_id": "3EB0A", "timestamp": 1_789_000_000, "is_group": true,
            "platform": "whatsapp", "participant": "77:3@lid", "push_name": "Ann",
        });
        assert_eq!(Value::Object(candidate.metadata), metadata);
        let extra = json!({"participant": "77:3@lid", "quoted": "hello"});
        assert_eq!(Value::Object(candidate.delivery.extra), extra);
        assert_eq!(candidate.delivery.reply_to, Some(MessageId::from("3EB0A")));
        assert_eq!(candidate.pieces, [Piece::Text("hello".to_owned())]);
    }

    #[test]
    fn messages_without_ids_are_left_out() {
        let table = [
            json!({"id": ""}),
            json!({"id": 5}),
            json!({"id": "a b"}),
            json!({"id": "x".repeat(129)}),
            json!({"sender": null}),
            json!({"sender": "status@broadcast"}),
            json!({"sender": "1|2@s.whatsapp.net"}),
            json!({"participant": " "}),
            json!({"participant": "1@g.us", "participantPn": "x"}),
        ];
        for changes in table {
            assert!(read(&changes).is_none(), "{changes}");
        }
    }
}
