//! AI cards: a message whose text can be replaced until it is finished.
//!
//! A card is named by this program (`outTrackId`), so creating it and changing it can be repeated
//! without harm. Cards cannot be deleted.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use nanobot_channel::Value;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::DingTalkConfig;
use crate::api::Api;
use crate::error::CallError;
use crate::target::SendTarget;

/// The template of cards, and its variable for the text.
#[derive(Clone, Debug)]
pub(crate) struct CardTemplate {
    id: String,
    key: String,
}

impl CardTemplate {
    /// Returns the template of the configuration.
    pub(crate) fn new(config: &DingTalkConfig) -> Self {
        Self {
            id: config.card_template_id.clone(),
            key: config.card_content_variable.clone(),
        }
    }

    /// Creates a card with a text and shows it in a chat. With the same `track`, there is only one.
    pub(crate) async fn create(
        &self,
        api: &Api,
        target: &SendTarget,
        track: &str,
        text: &str,
    ) -> Result<(), CallError> {
        let body = creation(&api.client_id, self, target, track, text);
        let path = "v1.0/card/instances/createAndDeliver";
        let created: Created = api.call(Method::POST, path, &body).await?;
        created.delivered()
    }

    /// Replaces the text of a card that grows.
    pub(crate) async fn write(&self, api: &Api, track: &str, text: &str) -> Result<(), CallError> {
        self.stream(api, track, text, &random_id(), false).await
    }

    /// Replaces the text of a card for the last time. Finished cards refuse any other text, so the
    /// call has a key of its own (`guid`): with the same one, DingTalk does nothing again.
    pub(crate) async fn finish(&self, api: &Api, track: &str, text: &str) -> Result<(), CallError> {
        let key = digest(&format!("{track}/{text}"));
        self.stream(api, track, text, &key, true).await
    }

    async fn stream(
        &self,
        api: &Api,
        track: &str,
        text: &str,
        guid: &str,
        is_finished: bool,
    ) -> Result<(), CallError> {
        let body = json!({
            "outTrackId": track, "guid": guid, "key": self.key, "content": text,
            "isFull": true, "isFinalize": is_finished, "isError": false,
        });
        let path = "v1.0/card/streaming";
        api.call(Method::PUT, path, &body).await.map(|_: Value| ())
    }
}

fn creation(
    robot: &str,
    template: &CardTemplate,
    target: &SendTarget,
    track: &str,
    text: &str,
) -> Value {
    let mut values = serde_json::Map::new();
    values.insert(template.key.clone(), text.into());
    let mut body = json!({
        "cardTemplateId": template.id, "outTrackId": track, "callbackType": "STREAM", "userIdType": 1,
        "cardData": {"cardParamMap": values},
    });
    let (space, models) = match target {
        SendTarget::Group(id) => (
            format!("dtv1.card//IM_GROUP.{id}"),
            json!({
                "imGroupOpenSpaceModel": {"supportForward": true},
                "imGroupOpenDeliverModel": {"robotCode": robot},
            }),
        ),
        SendTarget::User(id) => (
            format!("dtv1.card//IM_ROBOT.{id}"),
            json!({
                "imRobotOpenSpaceModel": {"supportForward": true},
                "imRobotOpenDeliverModel": {"spaceType": "IM_ROBOT", "robotCode": robot},
            }),
        ),
    };
    if let (Some(members), Value::Object(models)) = (body.as_object_mut(), models) {
        members.insert("openSpaceId".to_owned(), space.into());
        members.extend(models);
    }
    body
}

/// The answer to the creation of a card.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Created {
    result: Option<Delivered>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Delivered {
    deliver_results: Option<Vec<DeliverResult>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DeliverResult {
    success: Option<bool>,
    error_msg: Option<String>,
}

impl Created {
    /// Fails if the card was created, but is not shown anywhere.
    fn delivered(self) -> Result<(), CallError> {
        let results = self.result.and_then(|result| result.deliver_results);
        let failed = results
            .into_iter()
            .flatten()
            .find(|result| result.success == Some(false));
        match failed {
            Some(failed) => {
                let text = failed.error_msg.unwrap_or_default();
                Err(crate::error::from_code(
                    reqwest::StatusCode::OK,
                    "deliverResults",
                    &text,
                    None,
                ))
            }
            None => Ok(()),
        }
    }
}

/// Returns an id that no other card or call has.
pub(crate) fn random_id() -> String {
    // Each state has seeds of its own.
    let seeds: String = (0..4)
        .map(|_| format!("{:016x}", RandomState::new().build_hasher().finish()))
        .collect();
    digest(&seeds)
}

/// Returns a digest in the length of an id.
fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let bytes = digest.iter().take(16);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn card_names_its_place() {
        let template = CardTemplate {
            id: "x.schema".to_owned(),
            key: "content".to_owned(),
        };
        let group = SendTarget::Group("cid1".to_owned());
        let body = creation("ding1", &template, &group, "t1", "Once");
        let expected = json!({
            "cardTemplateId": "x.schema", "outTrackId": "t1", "callbackType": "STREAM", "userIdType": 1,
            "cardData": {"cardParamMap": {"content": "Once"}}, "openSpaceId": "dtv1.card//IM_GROUP.cid1",
            "imGroupOpenSpaceModel": {"supportForward": true},
            "imGroupOpenDeliverModel": {"robotCode": "ding1"},
        });
        assert_eq!(body, expected);
        let user = SendTarget::User("ann".to_owned());
        let body = creation("ding1", &template, &user, "t1", "Once");
        assert_eq!(body["openSpaceId"], json!("dtv1.card//IM_ROBOT.ann"));
    }

    #[test]
    fn undelivered_card_is_an_error() {
        let table = [
            (json!({}), true),
            (
                json!({"result": {"deliverResults": [{"success": true}]}}),
                true,
            ),
            (
                json!({"result": {"deliverResults": [{"success": false, "errorMsg": "no"}]}}),
                false,
            ),
        ];
        for (answer, is_delivered) in table {
            let created: Created = serde_json::from_value(answer).unwrap();
            assert_eq!(created.delivered().is_ok(), is_delivered);
        }
    }

    #[test]
    fn ids_differ() {
        let ids = [random_id(), random_id()];
        assert!(ids[0] != ids[1] && ids[0].len() == 32, "{ids:?}");
    }
}
