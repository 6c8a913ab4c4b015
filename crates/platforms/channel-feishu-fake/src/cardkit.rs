//! Card entities: created, streamed into, configured and replaced.

use std::collections::BTreeSet;

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult};
use crate::card;
use crate::model::Card;
use crate::params::Params;
use crate::state::FeishuState;
use crate::text;

/// Time after which Feishu ends streaming by itself, in milliseconds.
const STREAMING_TIME: i64 = 10 * 60_000;
/// Time for which a card entity can be changed, in milliseconds.
const CARD_TIME: i64 = 14 * 24 * 3_600_000;
/// Maximum length of a text, in characters.
const TEXT_LIMIT: usize = 100_000;
/// Maximum length of a `uuid`.
const UUID_LENGTH: usize = 64;

impl FeishuState {
    pub(crate) fn create_card(&mut self, params: &Params) -> ApiResult {
        let content = self.card_of(params.text("type"), params.text("data"))?;
        let now = self.now();
        let card = Card {
            streaming_since: is_streaming(&content).then_some(now),
            content,
            sequence: 0,
            uuids: BTreeSet::new(),
            created: now,
            is_sent: false,
            history: Vec::new(),
        };
        let id = format!("7{:018}", self.next());
        self.cards.insert(id.clone(), card);
        Ok(json!({"card_id": id}))
    }

    /// Returns the card in the data of a call.
    fn card_of(&self, kind: &str, data: &str) -> Result<Value, ApiError> {
        if kind != "card_json" {
            return Err(ApiError::because(10002, "the fake has only cards of JSON"));
        }
        if data.is_empty() {
            return Err(ApiError::new(300307));
        }
        let content: Value = serde_json::from_str(data).unwrap_or_default();
        if !card::is_version_2(&content) {
            return Err(ApiError::because(200220, "the schema is not 2.0"));
        }
        if content.pointer("/config/update_multi") == Some(&json!(false)) {
            return Err(ApiError::new(300302));
        }
        if data.len() > card::SIZE_LIMIT {
            return Err(ApiError::new(200860));
        }
        self.check_card_json(&content)?;
        Ok(content)
    }

    /// Returns the card of a call after checking its order.
    fn ordered_card(&mut self, params: &Params) -> Result<&mut Card, ApiError> {
        let now = self.now();
        self.count_update(params.id(0))?;
        let card = self.cards.get_mut(params.id(0));
        let card = card.ok_or_else(|| ApiError::new(200740))?;
        if now - card.created >= CARD_TIME {
            return Err(ApiError::new(200750));
        }
        if let Some(uuid) = params.given("uuid") {
            if uuid.chars().count() > UUID_LENGTH {
                return Err(ApiError::of_field("uuid", "the max len is 64"));
            }
            if card.uuids.contains(uuid) {
                return Err(ApiError::new(200770));
            }
        }
        let sequence = params.number("sequence").unwrap_or_default();
        if sequence <= card.sequence || i32::try_from(sequence).is_err() {
            return Err(ApiError::new(300317));
        }
        Ok(card)
    }

    /// Records the number and the `uuid` of an operation that took effect.
    fn end_operation(&mut self, params: &Params, content: Value) {
        if let Some(card) = self.cards.get_mut(params.id(0)) {
            card.sequence = params.number("sequence").unwrap_or(card.sequence);
            card.uuids.extend(params.given("uuid").map(str::to_owned));
            let earlier = text::visible("interactive", &card.content);
            if earlier != text::visible("interactive", &content) {
                card.history.push(earlier);
            }
            card.content = content;
        }
    }

    /// Replaces the text of an element.
    pub(crate) fn stream_text(&mut self, params: &Params) -> ApiResult {
        let now = self.now();
        let written = params.text("content");
        if written.is_empty() || written.chars().count() > TEXT_LIMIT {
            return Err(ApiError::of_field("content", "the length is 1 to 100000"));
        }
        let card = self.ordered_card(params)?;
        match card.streaming_since {
            None => return Err(ApiError::new(300309)),
            // The first call after the end learns its reason, later ones do not.
            Some(since) if now - since >= STREAMING_TIME => {
                end_streaming(card);
                return Err(ApiError::new(200850));
            }
            Some(_) => {}
        }
        let mut content = card.content.clone();
        let Some(element) = card::element_mut(&mut content, params.id(1)) else {
            return Err(ApiError::new(300313));
        };
        if !matches!(
            element.get("tag").and_then(Value::as_str),
            Some("markdown" | "plain_text")
        ) {
            return Err(ApiError::new(300310));
        }
        set(element, "content", written);
        if content.to_string().len() > card::SIZE_LIMIT {
            return Err(ApiError::new(200860));
        }
        self.check_card_json(&content)?;
        self.end_operation(params, content);
        Ok(json!({}))
    }

    /// Changes the configuration of a card.
    pub(crate) fn set_card(&mut self, params: &Params) -> ApiResult {
        let now = self.now();
        let card = self.ordered_card(params)?;
        let settings: Value = serde_json::from_str(params.text("settings")).unwrap_or_default();
        let known = ["config", "card_link"];
        let members = settings.as_object().filter(|members| {
            !members.is_empty() && members.keys().all(|key| known.contains(&key.as_str()))
        });
        let Some(members) = members else {
            return Err(ApiError::new(300122));
        };
        if settings.pointer("/config/update_multi") == Some(&json!(false)) {
            return Err(ApiError::new(300302));
        }
        let mut content = card.content.clone();
        for (name, value) in members {
            let mut merged = content.get(name).cloned().unwrap_or_else(|| json!({}));
            for (key, value) in value.as_object().into_iter().flatten() {
                set(&mut merged, key, value.clone());
            }
            set(&mut content, name, merged);
        }
        match settings.pointer("/config/streaming_mode") {
            Some(Value::Bool(true)) => card.streaming_since = Some(now),
            Some(Value::Bool(false)) => card.streaming_since = None,
            _ => {}
        }
        self.end_operation(params, content);
        Ok(json!({}))
    }

    /// Replaces a whole card.
    pub(crate) fn update_card(&mut self, params: &Params) -> ApiResult {
        let now = self.now();
        let given = params.object("card");
        let member = |key: &str| given.get(key).and_then(Value::as_str).unwrap_or_default();
        let content = self.card_of(member("type"), member("data"))?;
        let card = self.ordered_card(params)?;
        card.streaming_since = match (is_streaming(&content), card.streaming_since) {
            (false, _) => None,
            (true, Some(since)) => Some(since),
            (true, None) => Some(now),
        };
        self.end_operation(params, content);
        Ok(json!({}))
    }

    /// Returns `true` while a card is in streaming mode.
    pub(crate) fn is_streaming(&self, id: &str) -> bool {
        let since = self.cards.get(id).and_then(|card| card.streaming_since);
        since.is_some_and(|since| self.now() - since < STREAMING_TIME)
    }
}

fn is_streaming(content: &Value) -> bool {
    content.pointer("/config/streaming_mode") == Some(&json!(true))
}

fn end_streaming(card: &mut Card) {
    card.streaming_since = None;
    if let Some(config) = card.content.get_mut("config") {
        set(config, "streaming_mode", false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::ChatKind;
    use crate::probe::Probe;

    const CARDS: &str = "/open-apis/cardkit/v1/cards";

    fn card(is_streaming: bool) -> Value {
        json!({
            "schema": "2.0", "config": {"streaming_mode": is_streaming},
            "body": {"elements": [
                {"tag": "markdown", "content": "x", "element_id": "text"},
                {"tag": "hr", "element_id": "line"},
            ]},
        })
    }

    fn create(probe: &mut Probe, card: &Value) -> String {
        let body = json!({"type": "card_json", "data": card.to_string()});
        let answer = probe.call("POST", CARDS, &body);
        answer["data"]["card_id"].as_str().unwrap().to_owned()
    }

    #[test]
    fn operations_are_ordered() {
        let mut probe = Probe::new();
        let id = create(&mut probe, &card(true));
        let target = format!("{CARDS}/{id}/elements/text/content");
        let mut put = |sequence: Value| {
            probe.code(
                "PUT",
                &target,
                &json!({"content": "y", "sequence": sequence}),
            )
        };
        let sequences = [
            (json!(0), 300317),
            (json!(-1), 300317),
            (json!("1"), 99992402),
            (json!(null), 99992402),
            (json!(5), 0),
            (json!(5), 300317),
            (json!(4), 300317),
            (json!(2_147_483_648_u64), 300317),
            (json!(2_147_483_647), 0),
        ];
        for (sequence, code) in sequences {
            assert_eq!(put(sequence.clone()), code, "{sequence}");
        }
    }

    #[test]
    fn card_changes_few_times_a_second_on_demand() {
        let mut probe = Probe::new();
        probe.state.update_limit = Some(2);
        let id = create(&mut probe, &card(true));
        let target = format!("{CARDS}/{id}/elements/text/content");
        let mut put = |sequence: u64, seconds: u64| {
            probe.state.advanced = Duration::from_secs(seconds);
            let body = json!({"content": "y", "sequence": sequence});
            probe.code("PUT", &target, &body)
        };
        let codes = [put(1, 0), put(2, 0), put(3, 0), put(3, 1)];
        assert_eq!(codes, [0, 0, 230020, 0]);
    }

    #[test]
    fn failed_operations_change_nothing() {
        let mut probe = Probe::new();
        let id = create(&mut probe, &card(true));
        let body = json!({"content": "y", "sequence": 1, "uuid": "u"});
        let targets = [
            ("none", 300313),
            ("line", 300310),
            ("text", 0),
            ("text", 200770),
        ];
        for (element, code) in targets {
            let target = format!("{CARDS}/{id}/elements/{element}/content");
            assert_eq!(probe.code("PUT", &target, &body), code, "{element}");
        }
    }

    #[test]
    fn settings_are_merged() {
        let mut probe = Probe::new();
        let id = create(&mut probe, &card(false));
        let target = format!("{CARDS}/{id}/settings");
        let mut set = |sequence: u64, settings: Value| {
            let body = json!({"settings": settings.to_string(), "sequence": sequence});
            probe.code("PATCH", &target, &body)
        };
        let summary = json!({"config": {"streaming_mode": true, "summary": {"content": "s"}}});
        assert_eq!(set(1, summary), 0);
        assert_eq!(set(2, json!({"config": {"update_multi": false}})), 300302);
        assert_eq!(set(2, json!({"elements": []})), 300122);
        assert!(probe.state.is_streaming(&id));
        let config = &probe.state.cards[&id].content["config"];
        let expected = json!({"streaming_mode": true, "summary": {"content": "s"}});
        assert_eq!(*config, expected);
    }

    #[test]
    fn card_entity_is_sent_once_and_expires() {
        let mut probe = Probe::new();
        probe.state.add_chat("oc_1", ChatKind::Group, true);
        let id = create(&mut probe, &card(true));
        let reference = json!({"type": "card", "data": {"card_id": id}});
        let codes = [0, 230099].map(json_code);
        for code in codes {
            assert_eq!(probe.send("oc_1", "interactive", &reference)["code"], code);
        }
        let unknown = json!({"type": "card", "data": {"card_id": "7"}});
        assert_eq!(probe.send("oc_1", "interactive", &unknown)["code"], 200740);
        probe.state.advanced = Duration::from_secs(14 * 24 * 3600);
        probe.renew_token();
        let target = format!("{CARDS}/{id}/elements/text/content");
        let body = json!({"content": "y", "sequence": 1});
        assert_eq!(probe.code("PUT", &target, &body), 200750);
    }

    fn json_code(code: u64) -> Value {
        json!(code)
    }
}
