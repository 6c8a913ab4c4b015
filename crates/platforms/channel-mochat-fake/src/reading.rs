//! Lists of sessions and panels, and the history of a panel.

use serde_json::{Value, json};

use crate::account::{BOT_USER_ID, GROUP_ID, WORKSPACE_ID};
use crate::api::{ApiError, ApiResult};
use crate::model::{Chat, Event, time};
use crate::params::Params;
use crate::sending::check_group;
use crate::state::MochatState;

/// Usual number of messages in one answer.
const USUAL_PAGE: usize = 50;

impl MochatState {
    pub(crate) fn list_sessions(&self, params: &Params) -> Value {
        let is_mine = |chat: &Chat| chat.is_session() && chat.has_robot;
        let sessions = self.chats.iter().filter(|(_, chat)| is_mine(chat));
        let sessions = sessions.map(|(id, chat)| {
            let mut participants = vec![BOT_USER_ID.to_owned()];
            participants.extend(chat.participants.iter().cloned());
            json!({
                "sessionId": id, "workspaceId": WORKSPACE_ID, "converseId": chat.converse,
                "participants": participants, "visibility": "public", "status": "active",
            })
        });
        let sessions: Vec<Value> = sessions.take(params.limit(usize::MAX)).collect();
        json!({"sessions": sessions})
    }

    pub(crate) fn read_group(&self, params: &Params) -> ApiResult {
        check_group(params)?;
        let panels = self.chats.iter().filter(|(_, chat)| chat.has_robot);
        let panels = panels.filter_map(|(id, chat)| {
            let kind = chat.panel?;
            let mut panel = json!({"name": format!("Panel {id}"), "type": kind});
            nanobot_testkit::json::set(&mut panel, self.panel_id_key, id.as_str());
            Some(panel)
        });
        let members = self.people.keys();
        let members = members.map(|id| json!({"userId": id, "roles": []}));
        Ok(json!({
            "_id": GROUP_ID, "name": "A group", "members": members.collect::<Value>(),
            "panels": panels.collect::<Value>(),
        }))
    }

    /// Returns the messages of a panel, newest first, without those that were taken back.
    pub(crate) fn read_panel(&mut self, params: &Params) -> ApiResult {
        let id = params.text("panelId").to_owned();
        self.check_chat(&id, false)?;
        check_group(params)?;
        let limit = params.limit(USUAL_PAGE);
        let before = params.given("beforeMessageId");
        let Some(chat) = self.chats.get_mut(&id) else {
            return Err(ApiError::unknown("Panel", &id));
        };
        let before = match before {
            None => u64::MAX,
            Some(message) => {
                let mut events = chat.events.iter();
                let event = events.find(|event| event.message_id() == message);
                event.ok_or(ApiError::unknown("Message", &message))?.seq
            }
        };
        let (gone, edits) = (gone(chat), edits(chat));
        let added = chat.events.iter_mut().rev().filter(|event| {
            let is_shown = !gone.iter().any(|id| id == event.message_id());
            event.kind == "message.add" && event.seq < before && is_shown
        });
        let messages = added.take(limit).map(|event| {
            event.deliveries += 1;
            let mut message = event.payload.clone();
            let edited = edits.iter().rev().find(|(id, _)| id == event.message_id());
            if let Some((_, content)) = edited {
                nanobot_testkit::json::set(&mut message, "content", content.clone());
            }
            nanobot_testkit::json::set(&mut message, "createdAt", time(event.created));
            message
        });
        let messages: Vec<Value> = messages.collect();
        Ok(json!({"groupId": GROUP_ID, "panelId": id, "messages": messages}))
    }
}

/// Returns the new contents of edited messages, in order.
fn edits(chat: &Chat) -> Vec<(String, Value)> {
    let events = chat.events.iter();
    let edits = events.filter(|event| event.kind == "message.update");
    let content = |event: &Event| event.payload.get("content").cloned().unwrap_or_default();
    edits
        .map(|event| (event.message_id().to_owned(), content(event)))
        .collect()
}

/// Returns the messages that were recalled or deleted.
fn gone(chat: &Chat) -> Vec<String> {
    let events = chat.events.iter();
    let ends = events.filter(|event| matches!(&*event.kind, "message.recall" | "message.delete"));
    ends.map(|event| event.message_id().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::incoming::Incoming;
    use crate::probe::{PANEL, Probe, ann};

    const MESSAGES: &str = "/api/claw/groups/panels/messages";

    #[test]
    fn lists_name_what_the_bot_belongs_to() {
        let mut probe = Probe::new();
        probe.state.add_panel("folder", 1);
        probe.state.add_panel("secret", 0);
        probe.state.chats.get_mut("secret").unwrap().has_robot = false;
        let sessions = probe.call("/api/claw/sessions/list", &json!({}));
        let [session] = sessions["sessions"].as_array().unwrap().as_slice() else {
            panic!("{sessions}");
        };
        assert_eq!(session["sessionId"], json!(ann().direct()));
        assert_eq!(session["participants"][1], "ann");
        for key in ["id", "_id"] {
            probe.state.panel_id_key = key;
            let group = probe.call("/api/claw/groups/get", &json!({}));
            let panels = group["panels"].as_array().unwrap().iter();
            let panels: Vec<_> = panels.map(|panel| (&panel[key], &panel["type"])).collect();
            let expected = [(&json!("folder"), &json!(1)), (&json!(PANEL), &json!(0))];
            assert_eq!(panels, expected);
        }
    }

    #[test]
    fn history_of_a_panel_begins_with_the_newest() {
        let mut probe = Probe::new();
        let said: Vec<_> = ["a", "b", "c", "d"]
            .map(|text| probe.state.push(Incoming::to(PANEL, &ann(), text)))
            .to_vec();
        probe.state.change_message(&said[2], "recall", None);
        let read = |probe: &mut Probe, limit: u64, before: Option<&str>| {
            let mut body = json!({"panelId": PANEL, "limit": limit});
            if let Some(before) = before {
                body["beforeMessageId"] = json!(before);
            }
            let answer = probe.call(MESSAGES, &body);
            let messages = answer["messages"].as_array().unwrap().iter();
            let texts = messages.map(|message| message["content"].as_str().unwrap().to_owned());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(read(&mut probe, 100, None), ["d", "b", "a"]);
        assert_eq!(read(&mut probe, 2, None), ["d", "b"]);
        assert_eq!(read(&mut probe, 9, Some(&said[1].message_id)), ["a"]);
        let unknown = json!({"panelId": PANEL, "beforeMessageId": "no"});
        assert_eq!(probe.code(MESSAGES, &unknown), json!(404));
        assert_eq!(probe.code(MESSAGES, &json!({"panelId": "no"})), json!(404));
    }
}
