//! Buttons of cards: a callback to the app, whose answer may change the card.

use serde_json::{Value, json};

use crate::account::TENANT_KEY;
use crate::card;
use crate::incoming::Person;
use crate::model::Pushed;
use crate::state::FeishuState;

impl FeishuState {
    /// Presses the button with this text on a card of the bot; `None` if there is none.
    pub(crate) fn press(&mut self, id: &str, person: &Person, label: &str) -> Option<Pushed> {
        let message = self
            .messages
            .get(id)
            .filter(|message| !message.is_deleted)?;
        let chat = message.chat.clone();
        let card = self.content_of(message);
        let button = card::elements(&card)
            .into_iter()
            .find(|(tag, button)| {
                *tag == "button" && button.pointer("/text/content") == Some(&json!(label))
            })?
            .1;
        let value = callback_value(button);
        let mut person_ids = person.ids();
        nanobot_testkit::json::set(&mut person_ids, "tenant_key", TENANT_KEY);
        let action = json!({
            "tag": "button", "value": value, "timezone": "Asia/Shanghai",
            "name": button.get("name").cloned().unwrap_or_default(),
        });
        self.add_person(person);
        let event = json!({
            "operator": person_ids, "token": self.next_id("c-"), "action": action,
            "host": "im_message",
            "context": {"open_message_id": id, "open_chat_id": chat},
        });
        Some(Pushed {
            chat_id: chat,
            message_id: id.to_owned(),
            events: vec![self.queue_event("card.action.trigger", &event)],
        })
    }

    /// Applies the card in the answer of a callback.
    pub(crate) fn apply_callback(&mut self, number: usize) {
        let Some(event) = self.events.get(number).filter(|event| event.is_callback) else {
            return;
        };
        let Some(card) = event.answer.pointer("/card/data").cloned() else {
            return;
        };
        let payload: Value = serde_json::from_slice(&event.payload).unwrap_or_default();
        let id = payload.pointer("/event/context/open_message_id");
        let id = id.and_then(Value::as_str).unwrap_or_default().to_owned();
        match card::check(&card, self.table_limit) {
            Ok(()) => self.replace_content(&id, card.to_string(), None),
            Err(problem) => self
                .complaints
                .push(format!("a callback's card: {problem}")),
        }
    }
}

/// Returns the value that a button sends: that of its callback, or its own.
fn callback_value(button: &Value) -> Value {
    let behaviors = button.get("behaviors").and_then(Value::as_array);
    let callback = behaviors.into_iter().flatten().find_map(|behavior| {
        (behavior.get("type") == Some(&json!("callback"))).then(|| behavior.get("value"))?
    });
    callback
        .or_else(|| button.get("value"))
        .cloned()
        .unwrap_or_default()
}
