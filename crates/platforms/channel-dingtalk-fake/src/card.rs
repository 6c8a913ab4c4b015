//! AI cards: created with values, streamed into one of them, and finished.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::account::{CARD_TOPIC, CLIENT_ID, CORP_ID};
use crate::api::{ApiError, ApiResult};
use crate::incoming::Person;
use crate::model::{Card, StoredSend};
use crate::params::Params;
use crate::state::DingTalkState;

/// The variable for the state of a card, and its values for finished and failed ones.
const STATUS: &str = "flowStatus";
const FINISHED: &str = "3";
const FAILED: &str = "5";

impl DingTalkState {
    /// Creates a card and shows it in a chat. The same `outTrackId` is the same card.
    pub(crate) fn create_card(&mut self, params: &Params) -> ApiResult {
        let track = params.text("outTrackId").to_owned();
        if track.is_empty() {
            return Err(ApiError::because("param.error", "outTrackId"));
        }
        let Some(key) = self.templates.get(params.text("cardTemplateId")).cloned() else {
            return Err(ApiError::new("param.templateNotExist"));
        };
        let values = values(params.object("cardData"))?;
        let (kind, id) = space(params.text("openSpaceId"))?;
        let undelivered = match self.find_space(kind, id, params)? {
            Ok(chat) => {
                self.show_card(&track, key, &chat, values);
                None
            }
            Err(reason) => Some(reason),
        };
        let result = json!({
            "spaceType": kind, "spaceId": id, "success": undelivered.is_none(),
            "errorMsg": undelivered.unwrap_or_default(), "carrierId": format!("carrier-{track}"),
        });
        Ok(json!({"success": true, "result": {"outTrackId": track, "deliverResults": [result]}}))
    }

    /// Returns the chat of a space, or the reason why nothing is delivered there.
    fn find_space(
        &self,
        kind: &str,
        id: &str,
        params: &Params,
    ) -> Result<Result<String, String>, ApiError> {
        let model = |name| params.object(name);
        let missing = |name: &str| Err(ApiError::because("param.error", name));
        let robot = |deliver: &Value| {
            let robot = deliver.get("robotCode").and_then(Value::as_str);
            robot.map(str::to_owned)
        };
        if kind == "IM_GROUP" {
            match robot(model("imGroupOpenDeliverModel")).as_deref() {
                None => return missing("imGroupOpenDeliverModel.robotCode"),
                Some(robot) if robot != CLIENT_ID => {
                    return Err(ApiError::new("robotCode.notExist"));
                }
                Some(_) => {}
            }
            let group = self.check_group(id);
            return Ok(group.map(|()| id.to_owned()).map_err(|error| error.code));
        }
        let deliver = model("imRobotOpenDeliverModel");
        if deliver.get("spaceType") != Some(&json!("IM_ROBOT")) {
            return missing("imRobotOpenDeliverModel.spaceType");
        }
        if robot(deliver).is_some_and(|robot| robot != CLIENT_ID) {
            return Err(ApiError::new("robotCode.notExist"));
        }
        let person = self.people.get(id);
        Ok(person
            .map(Person::direct)
            .ok_or_else(|| "staffId.notExisted".to_owned()))
    }

    fn show_card(
        &mut self,
        track: &str,
        key: String,
        chat: &str,
        values: BTreeMap<String, String>,
    ) {
        if self.cards.contains_key(track) {
            return;
        }
        let mut card = Card {
            key,
            values: BTreeMap::new(),
            guids: BTreeSet::new(),
            is_finished: false,
            is_failed: false,
            history: Vec::new(),
        };
        card.set(values);
        card.history.clear();
        self.cards.insert(track.to_owned(), card);
        let created = self.now();
        self.sent.push(StoredSend {
            key: track.to_owned(),
            chat: chat.to_owned(),
            kind: "card".to_owned(),
            content: Value::Null,
            card: Some(track.to_owned()),
            created,
        });
    }

    /// Streams a text into a card. A repeated `guid` has no effect.
    pub(crate) fn stream_card(&mut self, params: &Params) -> ApiResult {
        let Some(card) = self.cards.get_mut(params.text("outTrackId")) else {
            return Err(ApiError::new("param.outTrackIdNotExist"));
        };
        let (guid, key, content) = (
            params.text("guid"),
            params.text("key"),
            params.text("content"),
        );
        if guid.is_empty() || key != card.key {
            return Err(ApiError::because("param.error", "guid or key"));
        }
        let done = json!({"success": true, "result": true});
        if card.guids.contains(guid) {
            return Ok(done);
        }
        if card.is_finished {
            return Err(ApiError::new("param.cardFinished"));
        }
        card.guids.insert(guid.to_owned());
        let text = if params.flag("isFull") {
            content.to_owned()
        } else {
            card.text() + content
        };
        card.set(BTreeMap::from([(key.to_owned(), text)]));
        if params.flag("isFinalize") || params.flag("isError") {
            card.is_finished = true;
            card.is_failed = params.flag("isError");
        }
        Ok(done)
    }

    /// Replaces values of a card; those that are not named stay. Finished cards can be changed, too.
    pub(crate) fn update_card(&mut self, params: &Params) -> ApiResult {
        let values = match params.object("cardData") {
            Value::Null => BTreeMap::new(),
            data => values(data)?,
        };
        let Some(card) = self.cards.get_mut(params.text("outTrackId")) else {
            return Err(ApiError::new("param.outTrackIdNotExist"));
        };
        card.set(values);
        Ok(json!({"success": true, "result": true}))
    }

    /// Pushes the callback of a pressed button.
    pub(crate) fn press(&mut self, card: &str, person: &Person, params: &Value) -> usize {
        let content = json!({"cardPrivateData": {"actionIds": ["button"], "params": params}});
        let data = json!({
            "extension": "{}", "corpId": CORP_ID, "type": "actionCallback", "outTrackId": card,
            "userId": person.staff_id, "userIdType": 1, "content": content.to_string(),
        });
        self.queue_callback(CARD_TOPIC, data.to_string())
    }
}

impl Card {
    /// Sets values, and the state of the card with them.
    fn set(&mut self, values: BTreeMap<String, String>) {
        let before = self.text();
        if let Some(status) = values.get(STATUS) {
            self.is_failed = status == FAILED;
            self.is_finished = status == FINISHED || self.is_failed;
        }
        self.values.extend(values);
        if self.text() != before {
            self.history.push(before);
        }
    }
}

/// Returns the values of a card, which are texts.
fn values(data: &Value) -> Result<BTreeMap<String, String>, ApiError> {
    let wrong = || ApiError::because("param.error", "cardData.cardParamMap");
    let map = data.get("cardParamMap").and_then(Value::as_object);
    let pairs = map.ok_or_else(wrong)?.iter();
    let pairs = pairs.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    pairs.collect::<Option<_>>().ok_or_else(wrong)
}

/// Splits the id of a space into its type and the id of the group or person.
fn space(id: &str) -> Result<(&str, &str), ApiError> {
    let parts = id
        .strip_prefix("dtv1.card//")
        .and_then(|id| id.split_once('.'));
    let parts =
        parts.filter(|(kind, id)| matches!(*kind, "IM_GROUP" | "IM_ROBOT") && !id.is_empty());
    parts.ok_or_else(|| ApiError::because("param.error", "openSpaceId"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{GROUP, Probe};

    const STREAMING: &str = "/v1.0/card/streaming";

    fn stream(probe: &mut Probe, guid: &str, text: &str, is_final: bool) -> String {
        let body = json!({
            "outTrackId": "t1", "guid": guid, "key": "content", "content": text, "isFull": true,
            "isFinalize": is_final, "isError": false,
        });
        probe.code("PUT", STREAMING, &body)
    }

    #[test]
    fn card_is_created_once_streamed_and_finished() {
        let mut probe = Probe::new();
        probe.state.add_group(GROUP, true);
        for text in ["begins", "again"] {
            let answer = probe.create_card("t1", GROUP, text);
            assert_eq!(answer["result"]["deliverResults"][0]["success"], true);
        }
        assert_eq!(stream(&mut probe, "g1", "grows", false), "");
        assert_eq!(stream(&mut probe, "g1", "repeated", false), "");
        let [shown] = probe.state.sent_messages().try_into().unwrap();
        assert_eq!((shown.text.as_str(), shown.is_streaming), ("grows", true));
        assert_eq!(stream(&mut probe, "g2", "all", true), "");
        assert_eq!(stream(&mut probe, "g2", "all", true), "");
        assert_eq!(
            stream(&mut probe, "g3", "more", false),
            "param.cardFinished"
        );
        let [shown] = probe.state.sent_messages().try_into().unwrap();
        assert_eq!((shown.text.as_str(), shown.is_streaming), ("all", false));
        assert_eq!(shown.history, ["begins", "grows"]);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn card_needs_a_template_a_chat_and_the_permission() {
        let mut probe = Probe::new();
        let answer = probe.create_card("t1", GROUP, "x");
        let delivered = &answer["result"]["deliverResults"][0];
        assert_eq!(delivered["errorMsg"], "openConversationId.notExist");
        assert_eq!(
            stream(&mut probe, "g1", "x", false),
            "param.outTrackIdNotExist"
        );
        probe.state.templates.clear();
        assert_eq!(
            probe.create_card("t1", GROUP, "x")["code"],
            "param.templateNotExist"
        );
        probe
            .state
            .denied_scopes
            .insert("Card.Instance.Write".to_owned());
        let code = "Forbidden.AccessDenied.AccessTokenPermissionDenied";
        assert_eq!(probe.create_card("t1", GROUP, "x")["code"], code);
        assert_eq!(probe.state.sent.len(), 0);
    }

    #[test]
    fn status_of_a_card_can_be_set() {
        let mut probe = Probe::new();
        probe.state.add_group(GROUP, true);
        probe.create_card("t1", GROUP, "begins");
        let body = json!({
            "outTrackId": "t1", "cardData": {"cardParamMap": {"content": "no", "flowStatus": "5"}},
        });
        assert_eq!(probe.code("PUT", "/v1.0/card/instances", &body), "");
        let [shown] = probe.state.sent_messages().try_into().unwrap();
        assert_eq!((shown.text.as_str(), shown.is_failed), ("no", true));
    }
}
