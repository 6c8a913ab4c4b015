//! From the event of a message to a candidate message.

use nanobot_channel::{
    Arrival, ChatId, ChatKind, DeliveryContext, Map, MessageId, SenderId, SessionKey, Value,
};
use nanobot_channel_kit::intake::Piece;
use serde_json::json;

use crate::FeishuConfig;
use crate::content::{parse_content, pieces};
use crate::mention::{EVERYONE, Mentions};
use crate::wire::{Message, MessageEvent};

/// Senders that are programs, this one included.
const PROGRAMS: &[&str] = &["app", "bot"];
/// The kind of a chat with one person.
pub(crate) const DIRECT: &str = "p2p";

/// The app's bot.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Its open id.
    pub(crate) bot: String,
    pub(crate) name: String,
}

/// A message that may be for the assistant.
pub(crate) type CandidateMessage = nanobot_channel_kit::intake::CandidateMessage<FeishuOrigin>;

/// Facts that are needed after the access check.
#[derive(Clone, Debug, Default)]
pub struct FeishuOrigin {
    /// The message that a reaction can be put on.
    pub(crate) message: Option<String>,
    /// The message that is quoted.
    pub(crate) parent: Option<String>,
    /// `true` if the message consists of others, which have to be fetched.
    pub(crate) is_merge_forward: bool,
    /// The message whose button was pressed, with the label.
    pub(crate) pressed: Option<(String, String)>,
}

/// The conversation of a message: its chat, and its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// `p2p` or `group`.
    pub(crate) chat_type: String,
    /// The chat of the API, `oc_…`.
    pub(crate) chat: String,
    /// The first message of the topic.
    pub(crate) topic: Option<String>,
}

impl Place {
    pub(crate) fn is_direct(&self) -> bool {
        self.chat_type == DIRECT
    }
}

/// Reads a message. `None` when it is not for the assistant.
pub(crate) fn message_candidate(
    channel: &str,
    config: &FeishuConfig,
    me: &Identity,
    event: MessageEvent,
) -> Option<CandidateMessage> {
    let MessageEvent { sender, message } = event;
    let sender_id = sender.sender_id.open_id;
    // Other bots may answer every message they see, and so would this one.
    if PROGRAMS.contains(&sender.sender_type.as_str()) || sender_id == me.bot {
        return None;
    }
    if [&sender_id, &message.message_id, &message.chat_id]
        .into_iter()
        .any(String::is_empty)
    {
        return None;
    }
    let given = |id: &String| Some(id.clone()).filter(|id| !id.is_empty());
    let is_direct = message.chat_type == DIRECT;
    let is_in_topic = !message.thread_id.is_empty();
    let begins_topic = config.topic_isolation && !is_direct;
    let root = given(&message.root_id);
    let topic = (is_in_topic || begins_topic)
        .then(|| root.clone().unwrap_or_else(|| message.message_id.clone()));
    let place = Place {
        chat_type: message.chat_type.clone(),
        chat: message.chat_id.clone(),
        topic,
    };
    let mentions = Mentions {
        list: &message.mentions,
        bot: &me.bot,
    };
    let content = parse_content(&message.content);
    let is_addressed = mentions.has_bot() || mentions_everyone(&message);
    let metadata = json!({
        "message_id": message.message_id, "chat_type": message.chat_type, "msg_type": message.message_type,
        "parent_id": given(&message.parent_id), "root_id": root, "thread_id": given(&message.thread_id),
    });
    let mut candidate = empty_candidate(
        channel,
        config,
        sender_id,
        &place,
        message.message_id.clone(),
        metadata,
    );
    if !is_direct {
        candidate.arrival = Arrival::group(is_addressed);
    }
    let is_merge_forward = message.message_type == "merge_forward";
    if !is_merge_forward {
        let kind = message.message_type.as_str();
        candidate.pieces = pieces(kind, &content, &message.message_id, mentions);
    }
    candidate.delivery.reply_to = Some(MessageId::from(message.message_id.as_str()));
    candidate.origin = FeishuOrigin {
        message: Some(message.message_id),
        parent: given(&message.parent_id),
        is_merge_forward,
        pressed: None,
    };
    Some(candidate)
}

/// A candidate without content that means the assistant. A person is the chat of direct messages,
/// so that messages can be sent there without knowing another id.
pub(crate) fn empty_candidate(
    channel: &str,
    config: &FeishuConfig,
    sender: String,
    place: &Place,
    id: String,
    metadata: Value,
) -> CandidateMessage {
    let kind = if place.is_direct() {
        ChatKind::Direct
    } else {
        ChatKind::Group
    };
    let chat = if place.is_direct() {
        &sender
    } else {
        &place.chat
    };
    let session = place
        .topic
        .as_ref()
        .filter(|_| config.topic_isolation && !place.is_direct())
        .map(|topic| SessionKey::from(format!("{channel}:{chat}:{topic}")));
    let metadata = match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    };
    CandidateMessage {
        chat: ChatId::from(chat.as_str()),
        sender: SenderId::from(sender),
        arrival: match kind {
            ChatKind::Direct => Arrival::direct(),
            ChatKind::Group => Arrival::group(true),
        },
        id: MessageId::from(id),
        pieces: Vec::<Piece>::new(),
        metadata,
        session,
        delivery: DeliveryContext {
            thread: place.topic.clone(),
            ..DeliveryContext::default()
        },
        origin: FeishuOrigin::default(),
    }
}

/// `true` if a message mentions everyone in its chat. That counts as addressed, as it always did.
fn mentions_everyone(message: &Message) -> bool {
    let is_written = ["text", "post"].contains(&message.message_type.as_str());
    is_written && message.content.contains(EVERYONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Identity {
        Identity {
            bot: "ou_bot".to_owned(),
            name: "nanobot".to_owned(),
        }
    }

    fn event(changes: &Value) -> MessageEvent {
        let mut message = json!({
            "message_id": "om_1", "chat_id": "oc_1", "chat_type": "group", "message_type": "text",
            "content": "{\"text\":\"@_user_1 hi\"}",
            "mentions": [{"key": "@_user_1", "id": {"open_id": "ou_bot"}, "name": "nanobot"}],
        });
        let changes = changes.as_object().unwrap().clone();
        message.as_object_mut().unwrap().extend(changes);
        let sender = json!({"sender_id": {"open_id": "ou_ann"}, "sender_type": "user"});
        serde_json::from_value(json!({"sender": sender, "message": message})).unwrap()
    }

    fn read(isolation: bool, event: MessageEvent) -> Option<CandidateMessage> {
        let config = FeishuConfig {
            topic_isolation: isolation,
            ..FeishuConfig::default()
        };
        message_candidate("feishu", &config, &me(), event)
    }

    #[test]
    fn session_and_topic_follow_the_settings() {
        let table = [
            (true, json!({}), Some("feishu:oc_1:om_1"), Some("om_1")),
            (
                true,
                json!({"root_id": "om_0"}),
                Some("feishu:oc_1:om_0"),
                Some("om_0"),
            ),
            (false, json!({"root_id": "om_0"}), None, None),
            (
                false,
                json!({"root_id": "om_0", "thread_id": "omt_1"}),
                None,
                Some("om_0"),
            ),
            (true, json!({"chat_type": "p2p"}), None, None),
            (
                true,
                json!({"chat_type": "p2p", "root_id": "om_0"}),
                None,
                None,
            ),
            (
                true,
                json!({"chat_type": "p2p", "root_id": "om_0", "thread_id": "omt_1"}),
                None,
                Some("om_0"),
            ),
        ];
        for (isolation, changes, session, topic) in table {
            let candidate = read(isolation, event(&changes)).unwrap();
            let found = candidate.session.as_ref().map(SessionKey::as_str);
            let place = candidate.delivery.thread.as_deref();
            assert_eq!((found, place), (session, topic), "{isolation} {changes}");
        }
    }

    #[test]
    fn chat_and_addressee_are_read_from_metadata() {
        let table = [
            (json!({}), "oc_1", true),
            (json!({"mentions": []}), "oc_1", false),
            (
                json!({"mentions": null, "content": "{\"text\":\"@_all hi\"}"}),
                "oc_1",
                true,
            ),
            (
                json!({"mentions": [{"key": "@_user_1", "id": {"open_id": "ou_other"}}]}),
                "oc_1",
                false,
            ),
            (json!({"chat_type": "p2p", "mentions": []}), "ou_ann", true),
        ];
        for (changes, chat, is_addressed) in table {
            let candidate = read(true, event(&changes)).unwrap();
            let found = (candidate.chat.as_str(), candidate.arrival.addressed);
            assert_eq!(found, (chat, is_addressed), "{changes}");
        }
    }

    #[test]
    fn messages_of_programs_and_without_ids_are_left_out() {
        for sender_type in ["app", "bot"] {
            let mut message = event(&json!({}));
            message.sender.sender_type = sender_type.to_owned();
            assert!(read(true, message).is_none(), "{sender_type}");
        }
        let mut own = event(&json!({}));
        own.sender.sender_id.open_id = "ou_bot".to_owned();
        assert!(read(true, own).is_none());
        let mut unknown = event(&json!({}));
        unknown.sender.sender_id.open_id = String::new();
        assert!(read(true, unknown).is_none());
        for key in ["message_id", "chat_id"] {
            let changes = Value::Object(Map::from_iter([(key.to_owned(), json!(""))]));
            assert!(read(true, event(&changes)).is_none(), "{key}");
        }
    }

    #[test]
    fn leading_mention_of_the_bot_is_removed() {
        let candidate = read(
            true,
            event(&json!({"content": "{\"text\":\"@_user_1 /new\"}"})),
        )
        .unwrap();
        assert_eq!(candidate.pieces, [Piece::Text("/new".to_owned())]);
        let metadata = json!({
            "message_id": "om_1", "chat_type": "group", "msg_type": "text", "parent_id": null, "root_id": null,
            "thread_id": null,
        });
        assert_eq!(Value::Object(candidate.metadata), metadata);
    }
}
