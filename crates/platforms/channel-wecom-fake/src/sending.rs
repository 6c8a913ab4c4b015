//! Messages of the bot without a callback, and the record of all messages.

use serde_json::Value;

use crate::api::{ApiError, ApiResult, INVALID_CHAT, MISSING_CHAT};
use crate::content::Content;
use crate::model::SentMessage;
use crate::params::Params;
use crate::state::WeComState;

const SEND: &str = "aibot_send_msg";
/// Types of messages.
const MESSAGES: &[&str] = &[
    "markdown",
    "template_card",
    "image",
    "file",
    "voice",
    "video",
];

impl WeComState {
    /// Sends a message to a chat in which someone wrote to the bot before.
    pub(crate) fn send_message(&mut self, req_id: &str, params: Params<'_>) -> ApiResult {
        let id = params.text("chatid");
        if id.is_empty() {
            return Err(ApiError::new(MISSING_CHAT));
        }
        let content = self.read_content(SEND, params, MESSAGES)?;
        self.check_chat(id)?;
        let chat = self.chats.get(id);
        if !chat.is_some_and(|chat| chat.is_open) {
            return Err(ApiError::because(INVALID_CHAT, "no one wrote to the bot"));
        }
        let is_group = chat.is_some_and(|chat| chat.is_group);
        let is_right = match params.number("chat_type") {
            None | Some(0) => true,
            Some(1) => !is_group,
            Some(2) => is_group,
            Some(_) => return Err(ApiError::parameter("chat_type")),
        };
        if !is_right {
            return Err(ApiError::because(INVALID_CHAT, "chat_type").clumsy());
        }
        self.keep(SEND, req_id, id, content)?;
        Ok(Value::Null)
    }

    /// Refuses chats that the bot cannot write to.
    pub(crate) fn check_chat(&self, id: &str) -> Result<(), ApiError> {
        match self.chats.get(id) {
            Some(chat) if chat.has_bot => Ok(()),
            _ => Err(ApiError::new(INVALID_CHAT)),
        }
    }

    /// Adds a message, and returns its position.
    pub(crate) fn keep(
        &mut self,
        command: &str,
        req_id: &str,
        chat: &str,
        content: Content,
    ) -> Result<usize, ApiError> {
        let now = self.now();
        self.limits.count(chat, now)?;
        let key = self.next_id("sent_");
        self.sent.push(SentMessage {
            key,
            command: command.to_owned(),
            req_id: req_id.to_owned(),
            chat_id: chat.to_owned(),
            kind: content.kind,
            content: content.value,
            text: content.text,
            history: Vec::new(),
            stream: None,
            is_streaming: false,
            files: content.files,
        });
        Ok(self.sent.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{INVALID_PARAMETER, TOO_MANY_MESSAGES};
    use crate::incoming::Incoming;
    use crate::probe::{GROUP, Probe, ann};

    #[test]
    fn messages_need_a_chat_in_which_someone_wrote() {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        assert_eq!(probe.send("ann", "x"), INVALID_CHAT);
        assert_eq!(probe.send("nobody", "x"), INVALID_CHAT);
        assert_eq!(probe.send("", "x"), MISSING_CHAT);
        assert_eq!(probe.complaints().len(), 1);
        probe.hear("hello");
        assert_eq!(probe.send("ann", "x"), 0);
        probe.push(Incoming::to(GROUP, &ann(), "hi").mentioning_bot());
        assert_eq!(probe.send(GROUP, "x"), 0);
        probe.state.add_group(GROUP, false);
        assert_eq!(probe.send(GROUP, "x"), INVALID_CHAT);
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }

    #[test]
    fn type_of_the_chat_is_checked() {
        let mut probe = Probe::new();
        probe.hear("hello");
        for (chat_type, code) in [(0, 0), (1, 0), (2, INVALID_CHAT), (3, INVALID_PARAMETER)] {
            let body = json!({
                "chatid": "ann", "chat_type": chat_type, "msgtype": "markdown",
                "markdown": {"content": "x"},
            });
            assert_eq!(probe.code(SEND, "a", &body), code);
        }
        assert_eq!(probe.complaints().len(), 2);
    }

    #[test]
    fn limits_apply_on_demand() {
        let mut probe = Probe::new();
        let callback = probe.hear("hello");
        probe.state.limits.apply = true;
        assert_eq!(probe.stream(&callback, "s1", "first", false), 0);
        assert_eq!(probe.stream(&callback, "s1", "second", false), 0);
        for _ in 2..30 {
            assert_eq!(probe.send("ann", "x"), 0);
        }
        assert_eq!(probe.send("ann", "x"), TOO_MANY_MESSAGES);
        let code = probe.stream(&callback, "s1", "third", true);
        assert_eq!(code, TOO_MANY_MESSAGES);
        assert_eq!(probe.complaints(), Vec::<String>::new());
    }
}
