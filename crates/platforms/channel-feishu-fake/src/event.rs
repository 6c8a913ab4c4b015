//! Events for the app: their payloads and their queue.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::{APP_ID, TENANT_KEY};
use crate::connection::AppEvent;
use crate::model::Sender;
use crate::state::FeishuState;

impl FeishuState {
    /// Queues the event of a message, unless it is the bot's own.
    pub(crate) fn queue_message(&mut self, id: &str) -> Option<usize> {
        let message = self.messages.get(id)?;
        let (person, kind) = match &message.sender {
            Sender::Bot => return None,
            Sender::Person(person) => (person, "user"),
            Sender::OtherBot(bot) => (bot, "app"),
        };
        let chat = self.chats.get(&message.chat)?;
        let mut body = json!({
            "message_id": message.id, "create_time": message.created.to_string(),
            "update_time": message.updated.to_string(), "chat_id": message.chat,
            "chat_type": chat.kind.name(), "message_type": message.kind,
            "content": message.content, "user_agent": "",
        });
        let places = [
            ("root_id", &message.root),
            ("parent_id", &message.parent),
            ("thread_id", &message.thread),
        ];
        for (key, place) in places {
            if let Some(place) = place {
                set(&mut body, key, place.as_str());
            }
        }
        if message
            .mentions
            .as_array()
            .is_some_and(|all| !all.is_empty())
        {
            set(&mut body, "mentions", message.mentions.clone());
        }
        let sender =
            json!({"sender_id": person.ids(), "sender_type": kind, "tenant_key": TENANT_KEY});
        let event = json!({"sender": sender, "message": body});
        Some(self.queue_event("im.message.receive_v1", &event))
    }

    /// Queues an event of any type.
    pub(crate) fn queue_event(&mut self, event_type: &str, event: &Value) -> usize {
        let payload = json!({
            "schema": "2.0",
            "header": {
                "event_id": self.next_id(""), "token": "", "create_time": self.now().to_string(),
                "event_type": event_type, "tenant_key": TENANT_KEY, "app_id": APP_ID,
            },
            "event": event,
        });
        let number = self.queue_payload("event", payload.to_string().into_bytes());
        if let Some(event) = self.events.get_mut(number) {
            event.is_callback = event_type == "card.action.trigger";
        }
        number
    }

    /// Queues any payload; `kind` is the header `type` of its frames.
    pub(crate) fn queue_payload(&mut self, kind: &'static str, payload: Vec<u8>) -> usize {
        self.events.push(AppEvent {
            kind,
            payload,
            is_callback: false,
            is_acknowledged: false,
            is_waiting: true,
            deliveries: 0,
            retries: 0,
            refusals: 0,
            answer: Value::Null,
        });
        self.dispatch();
        self.events.len() - 1
    }
}
