//! Messages of the bot.

use serde_json::json;

use crate::account::GROUP_ID;
use crate::api::{ApiError, ApiResult};
use crate::model::SentMessage;
use crate::params::Params;
use crate::state::MochatState;

impl MochatState {
    pub(crate) fn send_to_session(&mut self, params: &Params) -> ApiResult {
        let id = params.text("sessionId").to_owned();
        self.check_chat(&id, true)?;
        self.keep(&id, params)?;
        Ok(json!({"sessionId": id, "status": "active"}))
    }

    pub(crate) fn send_to_panel(&mut self, params: &Params) -> ApiResult {
        let id = params.text("panelId").to_owned();
        self.check_chat(&id, false)?;
        check_group(params)?;
        self.keep(&id, params)?;
        Ok(json!({"groupId": GROUP_ID, "panelId": id}))
    }

    fn keep(&mut self, chat: &str, params: &Params) -> Result<(), ApiError> {
        let text = params.text("content");
        if text.len() > self.text_limit {
            return Err(ApiError::new(413));
        }
        let reply_to = params.given("replyTo");
        if let Some(id) = &reply_to
            && self.find_message(chat, id).is_none()
        {
            return Err(ApiError::unknown("Message", id));
        }
        let id = self.echo(chat, text, reply_to.as_deref());
        self.sent.push(SentMessage {
            id,
            chat_id: chat.to_owned(),
            text: text.to_owned(),
            reply_to,
            group_id: params.given("groupId"),
        });
        Ok(())
    }
}

/// Checks that the group that a call names, if any, is the bot's.
pub(crate) fn check_group(params: &Params) -> Result<(), ApiError> {
    match params.given("groupId") {
        Some(group) if group != GROUP_ID => Err(ApiError::unknown("Group", &group)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::account::{BOT_USER_ID, GROUP_ID};
    use crate::probe::{PANEL, Probe, ann, text};

    const SESSION: &str = "/api/claw/sessions/send";
    const TO_PANEL: &str = "/api/claw/groups/panels/send";

    #[test]
    fn messages_are_kept_and_are_events() {
        let mut probe = Probe::new();
        let hello = probe.state.push(text("hello"));
        let session = ann().direct();
        let reply = json!({"sessionId": session, "content": "hi", "replyTo": hello.message_id});
        assert_eq!(probe.call(SESSION, &reply)["sessionId"], json!(session));
        probe.call(
            TO_PANEL,
            &json!({"panelId": PANEL, "content": "all", "groupId": GROUP_ID}),
        );
        let sent: Vec<_> = probe.state.sent.iter().map(|sent| &*sent.text).collect();
        assert_eq!(sent, ["hi", "all"]);
        assert_eq!(probe.state.sent[0].reply_to, Some(hello.message_id));
        let event = probe.state.chats[&session].events.last().unwrap();
        assert_eq!(event.payload["author"], BOT_USER_ID);
        assert_eq!(event.payload["meta"]["reply"]["content"], "hello");
        probe.state.echoes_sends = false;
        probe.send_to_session("silent");
        assert_eq!(probe.state.chats[&session].events.len(), 2);
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn wrong_targets_are_refused() {
        let mut probe = Probe::new();
        probe.state.add_panel("folder", 1);
        probe.state.text_limit = 4;
        let session = ann().direct();
        let table = [
            (
                SESSION,
                json!({"sessionId": "session_x", "content": "x"}),
                404,
            ),
            (SESSION, json!({"sessionId": PANEL, "content": "x"}), 404),
            (
                SESSION,
                json!({"sessionId": session, "content": "12345"}),
                413,
            ),
            (
                SESSION,
                json!({"sessionId": session, "content": "x", "replyTo": "no"}),
                404,
            ),
            (TO_PANEL, json!({"panelId": session, "content": "x"}), 404),
            (TO_PANEL, json!({"panelId": "folder", "content": "x"}), 400),
            (
                TO_PANEL,
                json!({"panelId": PANEL, "content": "x", "groupId": "no"}),
                404,
            ),
        ];
        for (path, body, code) in table {
            assert_eq!(probe.code(path, &body), json!(code), "{body}");
        }
        let chat = probe.state.chats.get_mut(PANEL).unwrap();
        chat.has_robot = false;
        let body = json!({"panelId": PANEL, "content": "x"});
        assert_eq!(probe.code(TO_PANEL, &body), json!(403));
        assert_eq!(
            (probe.state.sent.len(), probe.state.complaints.len()),
            (0, 1)
        );
    }
}
