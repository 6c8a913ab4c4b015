//! Messages that exist: shown, edited and withdrawn.

use serde_json::{Value, json};

use crate::account::{APP_ID, TENANT_KEY};
use crate::api::{ApiError, ApiResult};
use crate::card;
use crate::model::{Sender, StoredMessage};
use crate::params::Params;
use crate::state::FeishuState;
use crate::text;

/// Time for which a message can be changed, in milliseconds.
const CHANGE_TIME: i64 = 14 * 24 * 3_600_000;
/// Time for which a message can be withdrawn, in milliseconds.
const RECALL_TIME: i64 = 24 * 3_600_000;
/// Maximum number of edits of a text or a post.
const EDIT_LIMIT: usize = 20;

impl FeishuState {
    /// Returns a message that is not withdrawn.
    pub(crate) fn message(&self, id: &str) -> Result<&StoredMessage, ApiError> {
        match self.messages.get(id) {
            None => Err(ApiError::new(99992354)),
            Some(message) if message.is_deleted => Err(ApiError::new(230011)),
            Some(message) => Ok(message),
        }
    }

    /// Returns the message of the bot that a call changes.
    fn own(&self, id: &str, foreign: u64) -> Result<&StoredMessage, ApiError> {
        let message = self.message(id)?;
        if message.sender == Sender::Bot {
            Ok(message)
        } else {
            Err(ApiError::new(foreign))
        }
    }

    pub(crate) fn show_message(&mut self, params: &Params) -> ApiResult {
        let id = params.id(0);
        let message = self
            .messages
            .get(id)
            .ok_or_else(|| ApiError::new(99992354))?;
        if self
            .chats
            .get(&message.chat)
            .is_none_or(|chat| !chat.has_bot)
        {
            return Err(ApiError::new(230002));
        }
        let parts = self.messages.values();
        let parts = parts.filter(|part| part.upper.as_deref() == Some(id));
        let items: Vec<Value> = std::iter::once(message)
            .chain(parts)
            .map(|message| self.json(message))
            .collect();
        Ok(json!({"items": items}))
    }

    pub(crate) fn update_message(&mut self, params: &Params) -> ApiResult {
        let (kind, content) = (params.text("msg_type"), params.text("content"));
        let message = self.own(params.id(0), 230071)?;
        let (id, edits) = (message.id.clone(), message.edits);
        if !matches!(kind, "text" | "post") || !matches!(message.kind.as_str(), "text" | "post") {
            return Err(ApiError::new(230054));
        }
        if edits >= EDIT_LIMIT {
            return Err(ApiError::new(230072));
        }
        self.check_content(kind, content)?;
        self.replace_content(&id, content.to_owned(), Some(kind));
        let message = self.message(&id)?;
        Ok(self.json(message))
    }

    pub(crate) fn patch_message(&mut self, params: &Params) -> ApiResult {
        self.count_update(params.id(0))?;
        let message = self.own(params.id(0), 230071)?;
        if message.kind != "interactive" {
            return Err(ApiError::because(230001, "this message is NOT a card"));
        }
        if self.now() - message.created >= CHANGE_TIME {
            return Err(ApiError::new(230031));
        }
        let id = message.id.clone();
        let before = self.content_of(message);
        let content = params.text("content");
        if self.check_content("interactive", content)?.is_some() {
            return Err(ApiError::because(
                230001,
                "a card entity cannot replace a card",
            ));
        }
        let after = serde_json::from_str(content).unwrap_or_default();
        for card in [&before, &after] {
            if !is_shared(card) {
                return Err(ApiError::because(230001, "update_multi is not true"));
            }
        }
        self.replace_content(&id, content.to_owned(), None);
        Ok(json!({}))
    }

    /// Replaces the content of a message of the bot.
    pub(crate) fn replace_content(&mut self, id: &str, content: String, kind: Option<&str>) {
        let now = self.now();
        let Some(message) = self.messages.get(id) else {
            return;
        };
        let earlier = text::visible(&message.kind, &self.content_of(message));
        if let Some(message) = self.messages.get_mut(id) {
            message.history.push(earlier);
            message.set_content(content);
            message.card = None;
            message.updated = now;
            message.edits += 1;
            if let Some(kind) = kind {
                kind.clone_into(&mut message.kind);
            }
        }
    }

    pub(crate) fn delete_message(&mut self, params: &Params) -> ApiResult {
        let message = self.own(params.id(0), 230026)?;
        if self.now() - message.created >= RECALL_TIME {
            return Err(ApiError::new(230009));
        }
        let id = message.id.clone();
        if let Some(message) = self.messages.get_mut(&id) {
            message.is_deleted = true;
        }
        Ok(json!({}))
    }

    /// Returns the content of a message: that of its card entity, if it shows one.
    pub(crate) fn content_of(&self, message: &StoredMessage) -> Value {
        let card = message.card.as_ref().and_then(|id| self.cards.get(id));
        match card {
            Some(card) => card.content.clone(),
            None => message.body.clone(),
        }
    }

    /// Returns a message as calls show it.
    pub(crate) fn json(&self, message: &StoredMessage) -> Value {
        let content = self.content_of(message);
        let content = match message.kind.as_str() {
            _ if message.is_deleted => "This message was recalled".to_owned(),
            "interactive" => text::card_as_read(&content).to_string(),
            "post" => text::post_body(&content).to_string(),
            _ => message.content.clone(),
        };
        let (sender, id_type, sender_type) = match &message.sender {
            Sender::Bot => (APP_ID, "app_id", "app"),
            Sender::Person(person) => (person.open_id.as_str(), "open_id", "user"),
            Sender::OtherBot(bot) => (bot.open_id.as_str(), "app_id", "app"),
        };
        let mut json = json!({
            "message_id": message.id, "msg_type": message.kind, "chat_id": message.chat,
            "create_time": message.created.to_string(), "update_time": message.updated.to_string(),
            "deleted": message.is_deleted, "updated": message.edits > 0,
            "sender": {
                "id": sender, "id_type": id_type, "sender_type": sender_type,
                "tenant_key": TENANT_KEY,
            },
            "body": {"content": content},
        });
        let places = [
            ("root_id", &message.root),
            ("parent_id", &message.parent),
            ("thread_id", &message.thread),
            ("upper_message_id", &message.upper),
        ];
        for (key, place) in places {
            if let Some(place) = place {
                nanobot_testkit::json::set(&mut json, key, place.as_str());
            }
        }
        let mentions = message.mentions.as_array().into_iter().flatten();
        let mentions: Vec<Value> = mentions.map(mention).collect();
        if !mentions.is_empty() {
            nanobot_testkit::json::set(&mut json, "mentions", mentions);
        }
        json
    }
}

/// Returns a mention as calls show it, with one id.
fn mention(event: &Value) -> Value {
    json!({
        "key": event.get("key"), "name": event.get("name"), "id_type": "open_id",
        "id": event.pointer("/id/open_id"), "tenant_key": TENANT_KEY,
    })
}

/// Returns `true` if all readers of a card share its state. Cards of version 2.0 always do.
fn is_shared(card: &Value) -> bool {
    let shared = card.pointer("/config/update_multi");
    match shared.and_then(Value::as_bool) {
        Some(is_shared) => is_shared,
        None => card::is_version_2(card),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::incoming::{Incoming, Person};
    use crate::model::ChatKind;
    use crate::probe::Probe;

    const ROOM: &str = "oc_room";

    fn ann() -> Person {
        Person::new("ou_ann", "Ann")
    }

    fn probe() -> Probe {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        probe.state.add_chat(ROOM, ChatKind::Group, true);
        probe
    }

    fn text(words: &str) -> Value {
        json!({"text": words})
    }

    #[test]
    fn only_own_recent_shared_cards_are_patched() {
        let mut probe = probe();
        let card = |is_shared: bool| json!({"config": {"update_multi": is_shared}, "elements": []});
        let mut send = |content: &Value| {
            let answer = probe.send(ROOM, "interactive", content);
            answer["data"]["message_id"].as_str().unwrap().to_owned()
        };
        let (shared, own) = (send(&card(true)), send(&card(false)));
        let new = send(&json!({"schema": "2.0", "body": {"elements": []}}));
        let plain = probe.send(ROOM, "text", &text("x"));
        let plain = plain["data"]["message_id"].as_str().unwrap();
        let foreign = probe.state.push(Incoming::to(ROOM, &ann(), "x"), false);
        let mut patch = |id: &str, card: &Value| {
            let target = format!("/open-apis/im/v1/messages/{id}");
            probe.code("PATCH", &target, &json!({"content": card.to_string()}))
        };
        assert_eq!(patch(&shared, &card(true)), 0);
        assert_eq!(patch(&shared, &card(false)), 230001);
        assert_eq!(patch(&own, &card(true)), 230001);
        assert_eq!(patch(&new, &card(true)), 0);
        assert_eq!(patch(plain, &card(true)), 230001);
        assert_eq!(patch(&foreign.message_id, &card(true)), 230071);
        assert_eq!(patch("om_unknown", &card(true)), 99992354);
        probe.state.advanced = Duration::from_secs(14 * 24 * 3600);
        probe.renew_token();
        let target = format!("/open-apis/im/v1/messages/{shared}");
        let body = json!({"content": card(true).to_string()});
        assert_eq!(probe.code("PATCH", &target, &body), 230031);
    }

    #[test]
    fn only_own_messages_are_withdrawn() {
        let mut probe = probe();
        let foreign = probe.state.push(Incoming::direct(&ann(), "x"), false);
        let sent = probe.send(&ann().direct(), "text", &text("y"));
        let own = sent["data"]["message_id"].as_str().unwrap();
        let mut delete = |id: &str| {
            let target = format!("/open-apis/im/v1/messages/{id}");
            probe.code("DELETE", &target, &json!({}))
        };
        assert_eq!(delete(&foreign.message_id), 230026);
        assert_eq!((delete(own), delete(own)), (0, 230011));
        let sent = probe.send(&ann().direct(), "text", &text("z"));
        let old = sent["data"]["message_id"].as_str().unwrap();
        probe.state.advanced = Duration::from_secs(24 * 3600);
        probe.renew_token();
        let target = format!("/open-apis/im/v1/messages/{old}");
        assert_eq!(probe.code("DELETE", &target, &json!({})), 230009);
    }
}
