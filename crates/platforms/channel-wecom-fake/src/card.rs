//! Template cards: their types, tasks and buttons.

use serde_json::{Value, json};

use crate::api::{ApiError, ApiResult, INVALID_REQ_ID};
use crate::callback::EVENT_WINDOW;
use crate::incoming::Person;
use crate::model::{CallbackKind, Pushed};
use crate::params::Params;
use crate::state::WeComState;

/// Types of cards, with `true` for those that people can answer.
const TYPES: &[(&str, bool)] = &[
    ("text_notice", false),
    ("news_notice", false),
    ("button_interaction", true),
    ("vote_interaction", true),
    ("multiple_interaction", true),
];

/// Checks a card, and returns its visible text.
pub(crate) fn checked(card: Params<'_>) -> Result<String, ApiError> {
    let kind = card.text("card_type");
    let known = TYPES.iter().find(|(known, _)| *known == kind);
    let Some((_, is_interactive)) = known else {
        return Err(ApiError::parameter("card_type"));
    };
    if *is_interactive && card.text("task_id").is_empty() {
        return Err(ApiError::parameter("missing task_id"));
    }
    let title = card.object("main_title");
    let parts = ["title", "desc"].map(|key| title.map_or("", |title| title.text(key)));
    let parts = parts.into_iter().chain([card.text("sub_title_text")]);
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    Ok(parts.join("\n"))
}

impl WeComState {
    /// Presses a button of a card that the bot has sent.
    pub(crate) fn press(&mut self, key: &str, person: &Person, button: &str) -> Option<Pushed> {
        let sent = self.sent.iter().find(|sent| sent.key == key)?;
        let (chat, card) = (sent.chat_id.clone(), sent.content.clone());
        let member = |name| card.get(name).cloned().unwrap_or_default();
        let event = json!({
            "eventtype": "template_card_event",
            "template_card_event": {
                "card_type": member("card_type"), "event_key": button, "task_id": member("task_id"),
            },
        });
        Some(self.push_event(&chat, person, &event))
    }

    /// Replaces a card after one of its buttons was pressed.
    pub(crate) fn update_card(&mut self, req_id: &str, params: Params<'_>) -> ApiResult {
        if params.text("response_type") != "update_template_card" {
            return Err(ApiError::parameter("response_type"));
        }
        let Some(card) = params.object("template_card") else {
            return Err(ApiError::unreadable("missing field `body.template_card`"));
        };
        if params.list("userids").iter().any(|user| !user.is_string()) {
            return Err(ApiError::parameter("userids"));
        }
        let text = checked(card)?;
        let callback = self.callback(req_id, EVENT_WINDOW)?;
        let CallbackKind::Card(task) = &callback.kind else {
            return Err(ApiError::because(INVALID_REQ_ID, "no card").clumsy());
        };
        let (task, chat) = (task.clone(), callback.chat.clone());
        if card.text("task_id") != task {
            return Err(ApiError::parameter("task_id of another card"));
        }
        callback.is_answered = true;
        let of_task =
            |content: &Value| content.get("task_id").and_then(Value::as_str) == Some(&task);
        let mut sent = self.sent.iter_mut().rev();
        let sent = sent.find(|sent| sent.chat_id == chat && of_task(&sent.content));
        if let Some(sent) = sent {
            sent.history.push(std::mem::replace(&mut sent.text, text));
            sent.content = Value::Object(card.0.clone());
        }
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::api::INVALID_PARAMETER;
    use crate::probe::{Probe, ann};

    const UPDATE: &str = "aibot_respond_update_msg";

    fn card(task: &str, title: &str) -> Value {
        json!({"card_type": "button_interaction", "task_id": task, "main_title": {"title": title}})
    }

    fn update(task: &str, title: &str) -> Value {
        json!({"response_type": "update_template_card", "template_card": card(task, title)})
    }

    #[test]
    fn pressed_card_can_be_replaced_for_five_seconds() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        let body = json!({"msgtype": "template_card", "template_card": card("t1", "Choose")});
        assert_eq!(probe.code("aibot_respond_msg", &callback, &body), 0);
        let key = probe.state.sent[0].key.clone();
        let press = |probe: &mut Probe| {
            let pushed = probe.state.press(&key, &ann(), "yes").unwrap();
            (pushed.req_id, probe.frame())
        };
        let (event, frame) = press(&mut probe);
        let pressed = &frame["body"]["event"]["template_card_event"];
        assert_eq!(
            (&pressed["event_key"], &pressed["task_id"]),
            (&json!("yes"), &json!("t1"))
        );
        assert_eq!(
            probe.code(UPDATE, &event, &update("t2", "x")),
            INVALID_PARAMETER
        );
        assert_eq!(
            probe.code(UPDATE, &callback, &update("t1", "x")),
            INVALID_REQ_ID
        );
        assert_eq!(probe.code(UPDATE, &event, &update("t1", "Chosen")), 0);
        let sent = &probe.state.sent[0];
        assert_eq!(
            (sent.text.as_str(), sent.history.as_slice()),
            ("Chosen", ["Choose".to_owned()].as_slice())
        );
        let (late, _) = press(&mut probe);
        probe.state.advanced = Duration::from_secs(5);
        assert_eq!(
            probe.code(UPDATE, &late, &update("t1", "x")),
            INVALID_REQ_ID
        );
        assert_eq!(probe.state.press("unknown", &ann(), "yes"), None);
    }

    #[test]
    fn cards_have_a_type_and_a_task() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        let table = [
            (json!({"card_type": "text_notice"}), 0),
            (json!({"card_type": "letter"}), INVALID_PARAMETER),
            (json!({"card_type": "vote_interaction"}), INVALID_PARAMETER),
        ];
        for (card, code) in table {
            let body = json!({"msgtype": "template_card", "template_card": card});
            assert_eq!(probe.code("aibot_respond_msg", &callback, &body), code);
        }
        assert_eq!(probe.complaints().len(), 2);
    }
}
