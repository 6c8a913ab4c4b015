//! From a message of Stream mode to a candidate message.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, DeliveryContext, Map, MessageId, SenderId, SessionKey, Value,
};
use serde_json::json;

use crate::DingTalkConfig;
use crate::content::pieces;
use crate::target::GROUP_PREFIX;
use crate::wire::{BotMessage, GROUP, PRIVATE};

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<()>;

/// Reads a message. `None` if it is not for the assistant, or if it names no sender or chat.
pub(crate) fn message_candidate(
    channel: &str,
    config: &DingTalkConfig,
    message: &BotMessage,
) -> Option<CandidateMessage> {
    let given = |id: &str| Some(id.trim().to_owned()).filter(|id| !id.is_empty());
    let id = given(&message.msg_id)?;
    let sender = given(&message.sender_staff_id).or_else(|| given(&message.sender_id))?;
    // A robot that answered itself would do so for ever.
    if given(&message.chatbot_user_id).is_some_and(|robot| robot == message.sender_id) {
        return None;
    }
    let conversation =
        given(&message.conversation_id).or_else(|| given(&message.open_conversation_id));
    let (chat, arrival) = match message.conversation_type.as_str() {
        PRIVATE => (sender.clone(), Arrival::direct()),
        GROUP => {
            // Without the field, DingTalk delivers only messages that mention the robot.
            let is_addressed = message.is_in_at_list.unwrap_or(true);
            let chat = format!("{GROUP_PREFIX}{}", conversation.clone()?);
            (chat, Arrival::group(is_addressed))
        }
        _ => return None,
    };
    let is_isolated = config.group_user_isolation && arrival.kind == ChatKind::Group;
    let session = is_isolated.then(|| SessionKey::from(format!("{channel}:{chat}:{sender}")));
    let metadata = json!({
        "message_id": id, "sender_name": given(&message.sender_nick), "platform": "dingtalk",
        "conversation_type": message.conversation_type, "conversation_id": conversation,
        "msg_type": message.kind,
    });
    let metadata = match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    };
    Some(CandidateMessage {
        sender: SenderId::from(sender),
        chat: ChatId::from(chat),
        arrival,
        id: MessageId::from(id),
        pieces: pieces(message),
        metadata,
        session,
        delivery: DeliveryContext::default(),
        origin: (),
    })
}

#[cfg(test)]
mod tests {
    use nanobot_channel_kit::intake::Piece;

    use super::*;

    fn read(isolation: bool, changes: &Value) -> Option<CandidateMessage> {
        let mut message = json!({
            "msgId": "m1", "conversationId": "cid1", "conversationType": "2", "senderId": "$:LWCP_v1:$a",
            "senderStaffId": "ann", "senderNick": "Ann", "chatbotUserId": "$:LWCP_v1:$bot", "isInAtList": true,
            "msgtype": "text", "text": {"content": " /new "},
        });
        let changes = changes.as_object().unwrap().clone();
        message.as_object_mut().unwrap().extend(changes);
        let config = DingTalkConfig {
            group_user_isolation: isolation,
            ..DingTalkConfig::default()
        };
        let message = serde_json::from_value(message).unwrap();
        message_candidate("dingtalk", &config, &message)
    }

    #[test]
    fn chat_session_and_addressee_follow_the_metadata() {
        let outside = json!({"senderStaffId": ""});
        let table = [
            (false, json!({}), "group:cid1", None, true),
            (
                true,
                json!({}),
                "group:cid1",
                Some("dingtalk:group:cid1:ann"),
                true,
            ),
            (
                true,
                outside,
                "group:cid1",
                Some("dingtalk:group:cid1:$:LWCP_v1:$a"),
                true,
            ),
            (
                false,
                json!({"isInAtList": false}),
                "group:cid1",
                None,
                false,
            ),
            (false, json!({"isInAtList": null}), "group:cid1", None, true),
            (true, json!({"conversationType": "1"}), "ann", None, true),
            (
                false,
                json!({"conversationId": null, "openConversationId": "cid2"}),
                "group:cid2",
                None,
                true,
            ),
        ];
        for (isolation, changes, chat, session, is_addressed) in table {
            let found = read(isolation, &changes).unwrap();
            let found_session = found.session.as_ref().map(SessionKey::as_str);
            assert_eq!(
                (found.chat.as_str(), found_session, found.arrival.addressed),
                (chat, session, is_addressed),
                "{changes}"
            );
        }
    }

    #[test]
    fn content_and_metadata_are_kept() {
        let candidate = read(false, &json!({})).unwrap();
        assert_eq!(candidate.sender.as_str(), "ann");
        assert_eq!(candidate.pieces, [Piece::Text("/new".to_owned())]);
        let metadata = json!({
            "message_id": "m1", "sender_name": "Ann", "platform": "dingtalk", "conversation_type": "2",
            "conversation_id": "cid1", "msg_type": "text",
        });
        assert_eq!(Value::Object(candidate.metadata), metadata);
    }

    #[test]
    fn messages_without_ids_and_of_the_robot_are_left_out() {
        let table = [
            json!({"msgId": ""}),
            json!({"senderId": "", "senderStaffId": null}),
            json!({"conversationId": ""}),
            json!({"conversationType": "3"}),
            json!({"senderId": "$:LWCP_v1:$bot", "senderStaffId": ""}),
        ];
        for changes in table {
            assert!(read(false, &changes).is_none(), "{changes}");
        }
    }
}
