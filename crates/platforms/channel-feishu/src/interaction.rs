//! Presses of buttons.
//!
//! Decision: a button carries its label and the kind of its chat, so that a press is understood
//! after any restart. The person and the chat are those that Feishu reports, and never those of the
//! button. Once a press is durable, the choice replaces the buttons, as long as this program knows
//! what the card said.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::{DeliveryContext, Value};
use nanobot_channel_kit::intake::Piece;
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::FeishuConfig;
use crate::api::{Body, Endpoint};
use crate::candidate::{CandidateMessage, DIRECT, Place, empty_candidate};
use crate::card::{card, markdown};
use crate::channel::Feishu;
use crate::draft::DraftCard;
use crate::target::GROUP_PREFIX;
use crate::wire::CardAction;

/// Longest label of a press, in characters.
const LABEL_LIMIT: usize = 1000;
/// Number of cards with buttons whose text is remembered.
const REMEMBERED: usize = 64;

/// The value of a button.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ButtonValue {
    label: String,
    /// `p2p` or `group`: Feishu does not report it with a press.
    chat: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
}

impl ButtonValue {
    /// Creates the value of the buttons in a chat.
    pub(crate) fn new(chat: &str, delivery: &DeliveryContext) -> Self {
        let is_group = chat.starts_with(GROUP_PREFIX);
        Self {
            label: String::new(),
            chat: if is_group { "group" } else { DIRECT }.to_owned(),
            topic: delivery.thread.clone(),
        }
    }

    pub(crate) fn with_label(&self, label: &str) -> Value {
        let label = label.chars().take(LABEL_LIMIT).collect();
        serde_json::to_value(Self {
            label,
            ..self.clone()
        })
        .unwrap_or_default()
    }
}

/// A card whose buttons were not pressed yet.
#[derive(Clone, Debug)]
pub(crate) struct OpenChoice {
    pub(crate) message: String,
    /// The text above the buttons, in Markdown.
    pub(crate) text: String,
    /// The card, if the message shows one that grew.
    pub(crate) card: Option<DraftCard>,
}

/// Cards with buttons, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct OpenChoices(Mutex<VecDeque<OpenChoice>>);

impl OpenChoices {
    pub(crate) fn remember(&self, choice: OpenChoice) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|other| other.message != choice.message);
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back(choice);
    }

    fn take(&self, message: &str) -> Option<OpenChoice> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = known.iter().position(|choice| choice.message == message)?;
        known.remove(position)
    }
}

/// Reads a press of a button. `None` when the button is not one of ours.
pub(crate) fn press_candidate(
    channel: &str,
    config: &FeishuConfig,
    event_id: String,
    press: CardAction,
) -> Option<CandidateMessage> {
    let CardAction {
        operator,
        action,
        context,
    } = press;
    let value: ButtonValue = serde_json::from_value(action.value).ok()?;
    let is_complete = ![&event_id, &operator.open_id, &context.open_chat_id]
        .into_iter()
        .any(String::is_empty);
    if action.tag != "button" || value.label.trim().is_empty() || !is_complete {
        return None;
    }
    let place = Place {
        chat_type: value.chat,
        chat: context.open_chat_id,
        topic: value.topic,
    };
    let label: String = value.label.chars().take(LABEL_LIMIT).collect();
    let metadata = json!({
        "message_id": context.open_message_id, "chat_type": place.chat_type, "msg_type": "card_action",
    });
    let mut candidate = empty_candidate(
        channel,
        config,
        operator.open_id,
        &place,
        event_id,
        metadata,
    );
    candidate.pieces = vec![Piece::Text(label.clone())];
    candidate.origin.pressed = Some((context.open_message_id, label));
    Some(candidate)
}

impl Feishu {
    /// Replaces the buttons of a card by the choice, in the background.
    pub(crate) fn show_choice(&self, message: &str, label: &str) {
        let Some(choice) = self.choices.take(message) else {
            return;
        };
        let text = Some(choice.text).filter(|text| !text.trim().is_empty());
        let mut elements: Vec<Value> = text.iter().map(|text| markdown(text)).collect();
        elements.push(json!({
            "tag": "div", "text": {"tag": "plain_text", "content": format!("✓ {label}")},
        }));
        let shown = card(&elements);
        let endpoint = Endpoint::new(Method::PATCH, ["im", "v1", "messages", message]);
        let (api, name) = (Arc::clone(&self.api), self.base.name.clone());
        self.base.background.spawn(async move {
            let updated = match choice.card {
                Some(card) => card.complete(&api, &shown).await,
                None => {
                    let body = json!({"content": shown.to_string()});
                    api.call(&endpoint, Body::Json(body)).await
                }
            };
            if let Err(error) = updated {
                tracing::debug!(channel = %name, %error, "a choice could not be shown");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(changes: &Value) -> CardAction {
        let mut press = json!({
            "operator": {"open_id": "ou_ann"},
            "action": {"tag": "button", "value": {"label": "Yes", "chat": "group", "topic": "om_0"}},
            "context": {"open_message_id": "om_1", "open_chat_id": "oc_1"},
        });
        let changes = changes.as_object().unwrap().clone();
        press.as_object_mut().unwrap().extend(changes);
        serde_json::from_value(press).unwrap()
    }

    fn read(changes: &Value) -> Option<CandidateMessage> {
        press_candidate(
            "feishu",
            &FeishuConfig::default(),
            "e1".to_owned(),
            press(changes),
        )
    }

    #[test]
    fn press_is_a_message_of_the_one_who_pressed() {
        let candidate = read(&json!({})).unwrap();
        let session = candidate.session.as_ref().map(|session| session.as_str());
        assert_eq!(
            (candidate.sender.as_str(), candidate.chat.as_str(), session),
            ("ou_ann", "oc_1", Some("feishu:oc_1:om_0"))
        );
        assert_eq!(candidate.pieces, [Piece::Text("Yes".to_owned())]);
        let direct = json!({"action": {"tag": "button", "value": {"label": "No", "chat": "p2p"}}});
        let candidate = read(&direct).unwrap();
        assert_eq!(
            (candidate.chat.as_str(), candidate.session),
            ("ou_ann", None)
        );
    }

    #[test]
    fn presses_of_other_elements_are_left_out() {
        let table = [
            json!({"action": {"tag": "select_static", "value": {"label": "Yes"}}}),
            json!({"action": {"tag": "button", "value": {"label": " "}}}),
            json!({"action": {"tag": "button", "value": "text"}}),
            json!({"operator": {}}),
            json!({"context": {}}),
        ];
        for changes in table {
            assert!(read(&changes).is_none(), "{changes}");
        }
    }

    #[test]
    fn open_choices_are_bounded() {
        let choices = OpenChoices::default();
        let choice = |number: usize| OpenChoice {
            message: number.to_string(),
            text: String::new(),
            card: None,
        };
        for number in 0..=REMEMBERED {
            choices.remember(choice(number));
        }
        assert!(choices.take("0").is_none() && choices.take("1").is_some());
        assert!(choices.take("1").is_none());
    }
}
