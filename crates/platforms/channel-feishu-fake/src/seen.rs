//! What people and tests see of the state.

use crate::incoming::Person;
use crate::model::{Pushed, SentMessage, StoredMessage};
use crate::state::{Call, FeishuState};
use crate::text;

impl FeishuState {
    pub(crate) fn sent_messages(&self) -> Vec<SentMessage> {
        let sent = self.sent.iter().filter_map(|id| {
            let message = self.messages.get(id)?.clone();
            let content = self.content_of(&message);
            let card = message.card.as_ref().and_then(|id| self.cards.get(id));
            let mut history = message.history;
            history.extend(card.map(|card| card.history.clone()).unwrap_or_default());
            Some(SentMessage {
                text: text::visible(&message.kind, &content),
                files: self.files_in(&content),
                is_streaming: message
                    .card
                    .as_ref()
                    .is_some_and(|id| self.is_streaming(id)),
                content,
                message_id: message.id,
                chat_id: message.chat,
                kind: message.kind,
                card_id: message.card,
                root_id: message.root,
                parent_id: message.parent,
                thread_id: message.thread,
                uuid: message.uuid,
                history,
                is_deleted: message.is_deleted,
            })
        });
        sent.collect()
    }

    /// Returns the chat in which people can notice a call.
    pub(crate) fn place_of(&self, call: &Call) -> Option<String> {
        let mut path = call.path.split('/').skip(5);
        let chat = |message: &StoredMessage| message.chat.clone();
        match call.method.as_str() {
            "message.create" => {
                let id = call.body.get("receive_id")?.as_str()?;
                let people = &self.people;
                Some(people.get(id).map_or_else(|| id.to_owned(), Person::direct))
            }
            "message.get" | "reaction.list" | "resource.get" | "card.create" => None,
            method if method.starts_with("card.") => {
                let card = path.next()?;
                let shows = |message: &&StoredMessage| message.card.as_deref() == Some(card);
                self.messages.values().find(shows).map(chat)
            }
            _ => self.messages.get(path.next()?).map(chat),
        }
    }

    pub(crate) fn is_acknowledged(&self, pushed: &Pushed) -> bool {
        let is_acknowledged = |number: &usize| {
            let event = self.events.get(*number);
            event.is_some_and(|event| event.is_acknowledged)
        };
        pushed.events.iter().all(is_acknowledged)
    }

    pub(crate) fn deliveries(&self, pushed: &Pushed) -> usize {
        let events = pushed
            .events
            .iter()
            .filter_map(|number| self.events.get(*number));
        events.map(|event| event.deliveries).sum()
    }

    pub(crate) fn refusals(&self, pushed: &Pushed) -> usize {
        let events = pushed
            .events
            .iter()
            .filter_map(|number| self.events.get(*number));
        events.map(|event| event.refusals).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::Probe;

    #[test]
    fn noticed_calls_belong_to_chats() {
        let mut probe = Probe::new();
        let ann = Person::new("ou_ann", "Ann");
        let room = probe.state.push(Incoming::to("oc_1", &ann, "x"), false);
        let reaction = json!({"reaction_type": {"emoji_type": "OK"}});
        let target = format!("/open-apis/im/v1/messages/{}", room.message_id);
        assert_eq!(
            probe.code("POST", &format!("{target}/reactions"), &reaction),
            0
        );
        assert_eq!(probe.code("GET", &target, &json!({})), 0);
        let content = json!({"text": "y"}).to_string();
        let body = json!({"receive_id": "ou_ann", "msg_type": "text", "content": content});
        let target = "/open-apis/im/v1/messages?receive_id_type=open_id";
        assert_eq!(probe.code("POST", target, &body), 0);
        let cards = "/open-apis/cardkit/v1/cards";
        let card = json!({
            "schema": "2.0", "config": {"streaming_mode": true},
            "body": {"elements": [{"tag": "markdown", "content": "x", "element_id": "t"}]},
        });
        let body = json!({"type": "card_json", "data": card.to_string()});
        let card = probe.call("POST", cards, &body)["data"]["card_id"].clone();
        let card = card.as_str().unwrap();
        let reference = json!({"type": "card", "data": {"card_id": card}});
        assert_eq!(probe.send("oc_1", "interactive", &reference)["code"], 0);
        let target = format!("{cards}/{card}/elements/t/content");
        let body = json!({"content": "y", "sequence": 1});
        assert_eq!(probe.code("PUT", &target, &body), 0);
        let noticed = |chat: &str| -> Vec<&str> {
            let calls = probe.state.calls.all().iter();
            let there = calls.filter(|call| probe.state.place_of(call).as_deref() == Some(chat));
            there.map(|call| call.method.as_str()).collect()
        };
        assert_eq!(
            noticed("oc_1"),
            ["reaction.create", "message.create", "card.content"]
        );
        assert_eq!(noticed("oc_ann"), ["message.create"]);
        let [direct, shown] = probe.state.sent_messages().try_into().unwrap();
        assert_eq!((direct.text.as_str(), direct.is_streaming), ("y", false));
        assert_eq!(
            (shown.text.as_str(), shown.history, shown.is_streaming),
            ("y", vec!["x".to_owned()], true)
        );
    }
}
