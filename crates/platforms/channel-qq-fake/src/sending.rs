//! Messages of the bot: replies within their time, and active messages within their quota.

use serde_json::{Value, json};

use crate::account::{BOT_ID, BOT_NAME};
use crate::api::{ApiError, ApiResult};
use crate::content::Content;
use crate::model::{ChatKind, SentMessage};
use crate::params::Params;
use crate::state::{QqState, timestamp};

/// Time for replies in a private chat, in milliseconds.
const PRIVATE_WINDOW: i64 = 3_600_000;
/// Time for replies elsewhere, in milliseconds.
const WINDOW: i64 = 300_000;
/// Time over which active messages are counted, in milliseconds: a month.
const MONTH: i64 = 30 * 86_400_000;

impl QqState {
    /// Sends a message to a chat.
    pub(crate) fn send(&mut self, kind: ChatKind, params: &Params) -> ApiResult {
        self.check_chat(kind, &params.target)?;
        let content = self.read_content(kind, params)?;
        check_reference(params)?;
        if !params.text("event_id").is_empty() {
            return Err(ApiError::new(40_034_025));
        }
        let msg_id = Some(params.text("msg_id")).filter(|id| !id.is_empty());
        let msg_seq = params.number("msg_seq").unwrap_or(1);
        if let Some(msg_id) = msg_id {
            self.use_reply(kind, &params.target, msg_id, msg_seq, &content)?;
        } else {
            self.use_quota(kind, &params.target)?;
        }
        let id = self.message_id(kind);
        let created = timestamp(self.now());
        let answer = answer(kind, params, &id, &created, &content.text);
        if content.is_notification() {
            return Ok(answer);
        }
        self.sent.push(SentMessage {
            id,
            chat_id: params.target.clone(),
            chat_kind: kind,
            msg_type: content.msg_type,
            text: content.text,
            msg_id: msg_id.map(str::to_owned),
            msg_seq,
            content: Value::Object(params.body.clone()),
            files: content.files,
        });
        Ok(answer)
    }

    /// Returns a new id of a message, in the format of its kind.
    pub(crate) fn message_id(&mut self, kind: ChatKind) -> String {
        let number = self.next();
        if kind.is_guild() {
            format!("08{number:062x}")
        } else {
            format!("ROBOT1.0_TEST.{number:016x}-fake.{number:048x}!")
        }
    }

    /// Checks that a chat exists, and that the bot may write there.
    pub(crate) fn check_chat(&self, kind: ChatKind, id: &str) -> Result<(), ApiError> {
        let chat = self.chats.get(id).filter(|chat| chat.kind == kind);
        let Some(chat) = chat.filter(|chat| chat.has_bot) else {
            return Err(ApiError::new(match kind {
                ChatKind::User => 40_054_004,
                ChatKind::Group => 40_034_101,
                ChatKind::Channel => 10_003,
                ChatKind::Dms => 10_004,
            }));
        };
        if chat.is_muted {
            return Err(ApiError::new(40_054_002));
        }
        Ok(())
    }

    /// Counts a reply to a message.
    fn use_reply(
        &mut self,
        kind: ChatKind,
        chat: &str,
        msg_id: &str,
        msg_seq: i64,
        content: &Content,
    ) -> Result<(), ApiError> {
        let now = self.now();
        let limit = match kind {
            ChatKind::User => self.rules.replies.0,
            ChatKind::Group => self.rules.replies.1,
            ChatKind::Channel | ChatKind::Dms => usize::MAX,
        };
        let window = match kind {
            ChatKind::User => PRIVATE_WINDOW,
            _ => WINDOW,
        };
        let (invalid, expired) = if kind.is_guild() {
            (304_026, 304_027)
        } else {
            (40_034_024, 40_034_005)
        };
        let message = self.messages.get_mut(msg_id);
        let Some(message) = message.filter(|message| message.chat == chat) else {
            return Err(ApiError::new(invalid));
        };
        if now - message.arrived > window {
            return Err(ApiError::new(expired));
        }
        if kind.is_guild() || content.is_notification() {
            return Ok(());
        }
        if message.replies.contains(&msg_seq) {
            return Err(ApiError::new(40_054_005));
        }
        if message.replies.len() >= limit {
            return Err(ApiError::new(40_034_128));
        }
        message.replies.insert(msg_seq);
        Ok(())
    }

    /// Counts an active message.
    pub(crate) fn use_quota(&mut self, kind: ChatKind, id: &str) -> Result<(), ApiError> {
        let (now, quota) = (self.now(), self.rules.active_quota);
        let Some(chat) = self.chats.get_mut(id) else {
            return Ok(());
        };
        if chat.rejects_active {
            return Err(ApiError::new(40_034_105));
        }
        chat.active.retain(|time| now - time < MONTH);
        if chat.active.len() >= quota {
            return Err(ApiError::new(match kind {
                ChatKind::User | ChatKind::Group => 40_034_100,
                ChatKind::Channel => 304_045,
                ChatKind::Dms => 304_049,
            }));
        }
        chat.active.push(now);
        Ok(())
    }
}

/// Checks that a quotation names a message.
fn check_reference(params: &Params) -> Result<(), ApiError> {
    let Some(reference) = params.object("message_reference") else {
        return Ok(());
    };
    let id = reference.get("message_id").and_then(Value::as_str);
    match id.filter(|id| !id.is_empty()) {
        Some(_) => Ok(()),
        None => Err(ApiError::malformed("message_reference")),
    }
}

fn answer(kind: ChatKind, params: &Params, id: &str, created: &str, text: &str) -> Value {
    match kind {
        ChatKind::User | ChatKind::Group => json!({
            "id": id, "timestamp": created, "ext_info": {"ref_idx": "REFIDX_TEST=="},
        }),
        ChatKind::Channel | ChatKind::Dms => json!({
            "id": id, "channel_id": params.target, "guild_id": params.target, "content": text,
            "timestamp": created, "tts": false, "mention_everyone": false, "pinned": false,
            "type": 0, "flags": 0, "seq_in_channel": "1",
            "author": {"id": BOT_ID, "username": BOT_NAME, "avatar": "", "bot": true},
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::incoming::Incoming;
    use crate::probe::{GROUP, Probe, ann};

    fn reply(msg_id: &str, msg_seq: i64) -> Value {
        json!({"msg_type": 0, "content": "x", "msg_id": msg_id, "msg_seq": msg_seq})
    }

    #[test]
    fn replies_are_few_and_numbered() {
        let mut probe = Probe::new();
        let in_group = Incoming::to_group(GROUP, &ann(), "hi").mentioning_bot();
        for (incoming, place, limit) in [
            (Incoming::direct(&ann(), "hi"), "users", 4),
            (in_group, "groups", 5),
        ] {
            let pushed = probe.state.push(incoming, true);
            for number in 1..=limit {
                let body = reply(&pushed.message_id, number);
                assert_eq!(probe.send(place, &pushed.chat_id, &body), 0);
            }
            let again = reply(&pushed.message_id, 1);
            assert_eq!(probe.send(place, &pushed.chat_id, &again), 40_054_005);
            let more = reply(&pushed.message_id, 9);
            assert_eq!(probe.send(place, &pushed.chat_id, &more), 40_034_128);
        }
        assert_eq!(probe.state.complaints, Vec::<String>::new());
    }

    #[test]
    fn replies_have_a_time_and_a_chat() {
        let mut probe = Probe::new();
        let direct = probe.state.push(Incoming::direct(&ann(), "hi"), true);
        let group = Incoming::to_group(GROUP, &ann(), "hi").mentioning_bot();
        let group = probe.state.push(group, true);
        let elsewhere = reply(&direct.message_id, 1);
        assert_eq!(probe.send("groups", GROUP, &elsewhere), 40_034_024);
        let (in_group, privately) = (reply(&group.message_id, 1), reply(&direct.message_id, 1));
        probe.state.advanced = Duration::from_secs(301);
        assert_eq!(probe.send("groups", GROUP, &in_group), 40_034_005);
        assert_eq!(probe.send("users", &ann().openid, &privately), 0);
        probe.state.advanced = Duration::from_secs(3601);
        let late = reply(&direct.message_id, 2);
        assert_eq!(probe.send("users", &ann().openid, &late), 40_034_005);
    }

    #[test]
    fn active_messages_have_a_quota_for_a_month() {
        let mut probe = Probe::new();
        probe.state.add_chat(ChatKind::Group, GROUP);
        let body = json!({"content": "x"});
        for code in [0, 0, 0, 0, 40_034_100] {
            assert_eq!(probe.send("groups", GROUP, &body), code);
        }
        probe.state.advanced = Duration::from_secs(31 * 86_400);
        probe.renew_token();
        assert_eq!(probe.send("groups", GROUP, &body), 0);
        probe.state.chats.get_mut(GROUP).unwrap().rejects_active = true;
        assert_eq!(probe.send("groups", GROUP, &body), 40_034_105);
    }

    #[test]
    fn chats_must_exist_and_be_open() {
        let mut probe = Probe::new();
        let body = json!({"content": "x"});
        probe.state.add_person(&ann());
        assert_eq!(probe.send("users", "NOBODY", &body), 40_054_004);
        assert_eq!(probe.send("groups", &ann().openid, &body), 40_034_101);
        assert_eq!(probe.code("POST", "/channels/1/messages", &body), 10_003);
        assert_eq!(probe.code("POST", "/dms/1/messages", &body), 10_004);
        probe.state.chats.get_mut(&ann().openid).unwrap().is_muted = true;
        assert_eq!(probe.send("users", &ann().openid, &body), 40_054_002);
    }

    #[test]
    fn odd_members_are_refused() {
        let mut probe = Probe::new();
        probe.state.add_person(&ann());
        let table = [
            (json!({"message_reference": {"message_id": "x"}}), 0),
            (json!({"message_reference": {"message_id": 5}}), 11_255),
            (json!({"message_reference": {}}), 11_255),
            (json!({"event_id": "FRIEND_ADD:1"}), 40_034_025),
        ];
        for (mut body, code) in table {
            body["content"] = json!("x");
            assert_eq!(probe.send("users", &ann().openid, &body), code, "{body}");
        }
        assert_eq!(probe.state.complaints.len(), 2);
    }

    #[test]
    fn typing_is_no_message_and_costs_no_reply() {
        let mut probe = Probe::new();
        let pushed = probe.state.push(Incoming::direct(&ann(), "hi"), true);
        let typing = json!({
            "msg_type": 6, "msg_id": pushed.message_id, "msg_seq": 1,
            "input_notify": {"input_type": 1, "input_second": 60},
        });
        assert_eq!(probe.send("users", &pushed.chat_id, &typing), 0);
        let body = reply(&pushed.message_id, 1);
        assert_eq!(probe.send("users", &pushed.chat_id, &body), 0);
        assert_eq!(probe.state.sent.len(), 1);
    }
}
