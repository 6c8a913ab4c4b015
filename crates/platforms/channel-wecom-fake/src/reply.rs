//! Replies to callbacks: messages and welcomes.

use serde_json::Value;

use crate::api::{ApiError, ApiResult, INVALID_REQ_ID};
use crate::callback::{EVENT_WINDOW, REPLY_WINDOW};
use crate::card;
use crate::model::CallbackKind;
use crate::params::Params;
use crate::state::WeComState;

const RESPOND: &str = "aibot_respond_msg";
const WELCOME: &str = "aibot_respond_welcome_msg";
/// Types of replies besides streams.
const REPLIES: &[&str] = &[
    "template_card",
    "markdown",
    "image",
    "file",
    "voice",
    "video",
];

impl WeComState {
    /// Replies to a message.
    pub(crate) fn respond(&mut self, req_id: &str, params: Params<'_>) -> ApiResult {
        let callback = self.callback(req_id, REPLY_WINDOW)?;
        if callback.kind != CallbackKind::Message {
            return Err(ApiError::because(INVALID_REQ_ID, "no message").clumsy());
        }
        let chat = callback.chat.clone();
        match params.text("msgtype") {
            "stream" => {
                self.check_members(RESPOND, params, &["stream"]);
                return self.respond_stream(req_id, &chat, params);
            }
            "stream_with_template_card" => {
                if let Some(card) = params.object("template_card") {
                    card::checked(card)?;
                    self.complain(format!("{RESPOND}: the card of a stream is not shown"));
                }
                self.check_members(RESPOND, params, &["stream", "template_card"]);
                return self.respond_stream(req_id, &chat, params);
            }
            _ => {}
        }
        let content = self.read_content(RESPOND, params, REPLIES)?;
        self.check_chat(&chat)?;
        self.keep(RESPOND, req_id, &chat, content)?;
        Ok(Value::Null)
    }

    /// Welcomes a person who opened the chat.
    pub(crate) fn welcome(&mut self, req_id: &str, params: Params<'_>) -> ApiResult {
        let content = self.read_content(WELCOME, params, &["text", "template_card"])?;
        let callback = self.callback(req_id, EVENT_WINDOW)?;
        if callback.kind != CallbackKind::EnterChat {
            return Err(ApiError::because(INVALID_REQ_ID, "no enter_chat").clumsy());
        }
        if callback.is_answered {
            return Err(ApiError::because(INVALID_REQ_ID, "a second welcome").clumsy());
        }
        callback.is_answered = true;
        let chat = callback.chat.clone();
        self.keep(WELCOME, req_id, &chat, content)?;
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::api::{INVALID_CHAT, INVALID_MESSAGE_TYPE};
    use crate::probe::{Probe, ann};

    fn enter(probe: &mut Probe) -> String {
        let event = json!({"eventtype": "enter_chat"});
        let pushed = probe.state.push_event("ann", &ann(), &event);
        probe.frame();
        pushed.req_id
    }

    #[test]
    fn welcome_comes_once_and_within_five_seconds() {
        let mut probe = Probe::new();
        let body = json!({"msgtype": "text", "text": {"content": "welcome"}});
        let first = enter(&mut probe);
        assert_eq!(probe.code(WELCOME, &first, &body), 0);
        assert_eq!(probe.code(WELCOME, &first, &body), INVALID_REQ_ID);
        assert_eq!(probe.code(RESPOND, &first, &body), INVALID_REQ_ID);
        // The text is an unknown parameter of the last one, too.
        assert_eq!(probe.complaints().len(), 3);
        let late = enter(&mut probe);
        probe.state.advanced = Duration::from_secs(5);
        assert_eq!(probe.code(WELCOME, &late, &body), INVALID_REQ_ID);
        assert_eq!(probe.complaints().len(), 0);
        let message = probe.hear("hello");
        assert_eq!(probe.code(WELCOME, &message, &body), INVALID_REQ_ID);
        let kinds: Vec<&str> = probe
            .state
            .sent
            .iter()
            .map(|sent| sent.text.as_str())
            .collect();
        assert_eq!(kinds, ["welcome"]);
    }

    #[test]
    fn replies_need_a_callback_of_the_last_day() {
        let mut probe = Probe::new();
        let markdown = json!({"msgtype": "markdown", "markdown": {"content": "**a**"}});
        let first = probe.hear("hello");
        assert_eq!(probe.code(RESPOND, &first, &markdown), 0);
        assert_eq!(probe.code(RESPOND, "unknown", &markdown), INVALID_REQ_ID);
        let text = json!({"msgtype": "text", "text": {"content": "a"}});
        // The text is an unknown parameter here, too.
        assert_eq!(probe.code(RESPOND, &first, &text), INVALID_MESSAGE_TYPE);
        assert_eq!(probe.complaints().len(), 3);
        probe.state.chats.remove("ann");
        assert_eq!(probe.code(RESPOND, &first, &markdown), INVALID_CHAT);
        probe.state.advanced = Duration::from_secs(86_400);
        assert_eq!(probe.code(RESPOND, &first, &markdown), INVALID_REQ_ID);
        assert_eq!(probe.complaints().len(), 0);
    }
}
