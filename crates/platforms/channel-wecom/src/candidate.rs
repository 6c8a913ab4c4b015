//! From the callback of a message to a candidate message.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, DeliveryContext, Map, MessageId, SenderId, Value,
};
use serde_json::json;

use crate::content::pieces;
use crate::frame::Callback;
use crate::wire::{CallbackHead, GROUP, SINGLE};

/// The member of a delivery context with the `req_id` of the message.
pub(crate) const REQ_ID: &str = "req_id";
/// The member of a delivery context with the type of the chat.
pub(crate) const CHAT_TYPE: &str = "chat_type";

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<()>;

/// The author and the place of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sender: SenderId,
    pub(crate) chat: ChatId,
    pub(crate) arrival: Arrival,
}

impl Place {
    /// Returns the place of a callback; `None` if it names no sender or chat.
    pub(crate) fn of(head: &CallbackHead) -> Option<Self> {
        let given = |id: &str| Some(id.trim().to_owned()).filter(|id| !id.is_empty());
        let sender = given(&head.userid)?;
        let (chat, arrival) = match head.chattype.as_str() {
            SINGLE => (sender.clone(), Arrival::direct()),
            // WeCom delivers only messages that mention the bot.
            GROUP => (given(&head.chatid)?, Arrival::group(true)),
            _ => return None,
        };
        Some(Self {
            sender: SenderId::from(sender),
            chat: ChatId::from(chat),
            arrival,
        })
    }
}

/// Reads a message. `None` if it is not for the assistant, or if it names no sender or chat.
pub(crate) fn message_candidate(callback: &Callback) -> Option<CandidateMessage> {
    let head = CallbackHead::read(&callback.body);
    let id = head.msgid.trim();
    if id.is_empty() {
        return None;
    }
    let place = Place::of(&head)?;
    let is_group = place.arrival.kind == ChatKind::Group;
    let metadata = json!({
        "message_id": id, "msg_type": head.msgtype, "chat_type": head.chattype,
        "platform": "wecom",
    });
    let metadata = match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    };
    let mut delivery = DeliveryContext::default();
    let facts = [(REQ_ID, &callback.req_id), (CHAT_TYPE, &head.chattype)];
    for (name, value) in facts {
        delivery.extra.insert(name.to_owned(), json!(value));
    }
    Some(CandidateMessage {
        sender: place.sender,
        chat: place.chat,
        arrival: place.arrival,
        id: MessageId::from(id.to_owned()),
        pieces: pieces(&callback.body, is_group),
        metadata,
        session: None,
        delivery,
        origin: (),
    })
}

#[cfg(test)]
mod tests {
    use nanobot_channel_kit::intake::Piece;

    use super::*;
    use crate::frame::MESSAGE;

    fn read(changes: &Value) -> Option<CandidateMessage> {
        let mut body = json!({
            "msgid": "m1", "aibotid": "aib1", "chattype": "group", "chatid": "wr1",
            "from": {"userid": "ann"}, "msgtype": "text", "text": {"content": "@bot /new"},
        });
        let changes = changes.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(changes);
        message_candidate(&Callback {
            cmd: MESSAGE.to_owned(),
            req_id: "r1".to_owned(),
            body,
        })
    }

    #[test]
    fn chat_and_arrival_follow_the_metadata() {
        let group = read(&json!({})).unwrap();
        assert_eq!((group.sender.as_str(), group.chat.as_str()), ("ann", "wr1"));
        assert_eq!(group.arrival, Arrival::group(true));
        assert_eq!(group.pieces, [Piece::Text("/new".to_owned())]);
        let single = read(&json!({"chattype": "single", "chatid": null})).unwrap();
        assert_eq!(
            (single.sender.as_str(), single.chat.as_str()),
            ("ann", "ann")
        );
        assert_eq!(single.arrival, Arrival::direct());
        // Only groups have mentions of the bot.
        assert_eq!(single.pieces, [Piece::Text("@bot /new".to_owned())]);
    }

    #[test]
    fn metadata_and_address_of_the_reply_are_kept() {
        let candidate = read(&json!({})).unwrap();
        let metadata = json!({
            "message_id": "m1", "msg_type": "text", "chat_type": "group", "platform": "wecom",
        });
        assert_eq!(Value::Object(candidate.metadata), metadata);
        let extra = json!({"req_id": "r1", "chat_type": "group"});
        assert_eq!(Value::Object(candidate.delivery.extra), extra);
    }

    #[test]
    fn messages_without_ids_are_left_out() {
        let table = [
            json!({"msgid": ""}),
            json!({"msgid": null}),
            json!({"from": {}}),
            json!({"from": "ann"}),
            json!({"from": {"userid": " "}}),
            json!({"chatid": ""}),
            json!({"chattype": "channel"}),
        ];
        for changes in table {
            assert!(read(&changes).is_none(), "{changes}");
        }
    }
}
