//! Joining, leaving and inviting, and the creation of rooms by clients.

use serde_json::{Map, Value, json};

use crate::account::SERVER_NAME;
use crate::api::{ApiError, ApiResult, nothing, success};
use crate::json::{member, members, text};
use crate::params::Params;
use crate::state::MatrixState;

impl MatrixState {
    pub(crate) fn create_room_call(&mut self, params: &Params) -> ApiResult {
        let room = format!("!TESTroom{:010}:{SERVER_NAME}", self.next());
        self.create_room(&room, &params.user);
        if params.body.get("is_direct") == Some(&Value::Bool(true)) {
            self.set_direct(&room);
        }
        let named = [("m.room.name", "name"), ("m.room.topic", "topic")];
        for (kind, key) in named {
            if let Some(value) = params.text(key) {
                self.set_room_state(&room, kind, "", json!({key: value}));
            }
        }
        let initial = params.body.get("initial_state").and_then(Value::as_array);
        for state in initial.into_iter().flatten() {
            let kind = text(state, "type");
            let content = member(state, "content");
            let key = text(state, "state_key");
            self.set_room_state(&room, kind, key, content);
        }
        if params.text("preset") == Some("public_chat") {
            self.set_room_state(
                &room,
                "m.room.join_rules",
                "",
                json!({"join_rule": "public"}),
            );
        }
        let invited = params.body.get("invite").and_then(Value::as_array);
        for user in invited.into_iter().flatten().filter_map(Value::as_str) {
            if !self.users.contains_key(user) {
                return Err(ApiError::not_found("User"));
            }
            self.set_membership(&room, &params.user, user, "invite");
        }
        success(json!({"room_id": room}))
    }

    pub(crate) fn joined_rooms(&mut self, params: &Params) -> ApiResult {
        let rooms = self.rooms.iter();
        let joined = rooms.filter(|(_, room)| room.membership(&params.user) == "join");
        let joined: Vec<_> = joined.map(|(id, _)| id).collect();
        success(json!({"joined_rooms": joined}))
    }

    pub(crate) fn join(&mut self, params: &Params) -> ApiResult {
        let id = params.segment(0);
        let room = self.room(id)?;
        let rules = room
            .state_content("m.room.join_rules", "")
            .unwrap_or_default();
        let is_public = rules.get("join_rule").and_then(Value::as_str) == Some("public");
        match room.membership(&params.user).as_str() {
            "join" => {}
            "ban" => return Err(ApiError::forbidden("You are banned from this room")),
            "invite" => {
                self.set_membership(id, &params.user, &params.user, "join");
            }
            _ if is_public => {
                self.set_membership(id, &params.user, &params.user, "join");
            }
            _ => return Err(ApiError::forbidden("You are not invited to this room")),
        }
        success(json!({"room_id": id}))
    }

    pub(crate) fn leave(&mut self, params: &Params) -> ApiResult {
        let id = params.segment(0);
        match self.room(id)?.membership(&params.user).as_str() {
            "join" | "invite" => {
                self.set_membership(id, &params.user, &params.user, "leave");
                nothing()
            }
            _ => Err(ApiError::forbidden("You are not in this room")),
        }
    }

    pub(crate) fn invite_call(&mut self, params: &Params) -> ApiResult {
        let id = params.segment(0);
        let user = params.text("user_id").unwrap_or_default();
        let membership = self.joined_room(id, &params.user)?.membership(user);
        if matches!(membership.as_str(), "join" | "ban") {
            return Err(ApiError::forbidden(format!(
                "{user} has the membership {membership}"
            )));
        }
        if !self.users.contains_key(user) {
            return Err(ApiError::not_found("User"));
        }
        self.set_membership(id, &params.user, user, "invite");
        nothing()
    }

    pub(crate) fn read_state(&mut self, params: &Params) -> ApiResult {
        let room = self.joined_room(params.segment(0), &params.user)?;
        let state = room.state().into_values();
        let now = self.now();
        let events = state.map(|entry| entry.in_room(params, now));
        success(Value::Array(events.collect()))
    }

    pub(crate) fn get_state(&mut self, params: &Params) -> ApiResult {
        let room = self.joined_room(params.segment(0), &params.user)?;
        let content = room.state_content(params.segment(1), params.segment(2));
        let content = content.ok_or_else(|| ApiError::not_found("State event"))?;
        success(Value::Object(content))
    }

    pub(crate) fn put_state(&mut self, params: &Params) -> ApiResult {
        let (id, kind, key) = (params.segment(0), params.segment(1), params.segment(2));
        let room = self.joined_room(id, &params.user)?;
        let is_own_membership = kind == "m.room.member" && key == params.user;
        if room.power(&params.user) < 50 && !is_own_membership {
            return Err(ApiError::forbidden("Your power level is too low"));
        }
        let pushed = self.add_state(id, &params.user, kind, key, params.body.clone());
        success(json!({"event_id": pushed.event_id}))
    }

    pub(crate) fn room_members(&mut self, params: &Params) -> ApiResult {
        let room = self.joined_room(params.segment(0), &params.user)?;
        let until = params
            .queried("at")
            .map(crate::sync::position)
            .transpose()?;
        let state = room.state_at(until.unwrap_or(u64::MAX)).into_iter();
        let chosen = state.filter(|((kind, _), entry)| {
            let content = entry.content();
            let membership = content.get("membership").and_then(Value::as_str);
            let wanted = params.queried("membership");
            let unwanted = params.queried("not_membership");
            kind == "m.room.member"
                && (wanted.is_none() || wanted == membership)
                && (unwanted.is_none() || unwanted != membership)
        });
        let now = self.now();
        let chunk: Vec<_> = chosen
            .map(|(_, entry)| entry.in_room(params, now))
            .collect();
        success(json!({"chunk": chunk}))
    }

    pub(crate) fn joined_members(&mut self, params: &Params) -> ApiResult {
        let room = self.joined_room(params.segment(0), &params.user)?;
        let joined = room.users("join").into_iter().map(|user| {
            let member = members(self.profile(&user));
            let name = member.get("displayname").cloned().unwrap_or_default();
            let avatar = member.get("avatar_url").cloned().unwrap_or_default();
            (user, json!({"display_name": name, "avatar_url": avatar}))
        });
        let joined: Map<_, _> = joined.collect();
        success(json!({"joined": joined}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::BOT_ID;
    use crate::probe::{Probe, ROOM, ann};

    #[test]
    fn clients_create_rooms_and_invite() {
        let mut probe = Probe::new().by_ann();
        let initial = json!({"type": "m.room.encryption", "state_key": "",
            "content": {"algorithm": "m.megolm.v1.aes-sha2"}});
        let body = json!({"name": "x", "is_direct": true, "invite": [BOT_ID],
            "initial_state": [initial]});
        let answer = probe.call("POST", "createRoom", &body);
        let id = text(&answer, "room_id").to_owned();
        let room = &probe.state.rooms[&id];
        assert_eq!(
            (room.is_encrypted(), room.membership(BOT_ID)),
            (true, "invite".to_owned())
        );
        let name = probe.get(&format!("rooms/{id}/state/m.room.name"));
        assert_eq!(name, json!({"name": "x"}));
        let again = probe.code(
            "POST",
            &format!("rooms/{ROOM}/invite"),
            &json!({"user_id": BOT_ID}),
        );
        assert_eq!(again, "M_FORBIDDEN");
    }

    #[test]
    fn state_needs_power() {
        let mut probe = Probe::new();
        let path = format!("rooms/{ROOM}/state/m.room.topic/");
        assert_eq!(
            probe.code("PUT", &path, &json!({"topic": "x"})),
            "M_FORBIDDEN"
        );
        probe.state.set_power(ROOM, 50);
        probe.call("PUT", &path, &json!({"topic": "x"}));
        assert_eq!(probe.get(&path), json!({"topic": "x"}));
        assert_eq!(
            probe.code("GET", &format!("{path}y"), &Value::Null),
            "M_NOT_FOUND"
        );
        let all = probe.get(&format!("rooms/{ROOM}/state"));
        assert_eq!(all.as_array().unwrap().len(), 8);
    }

    #[test]
    fn members_are_listed() {
        let mut probe = Probe::new();
        let joined = probe.get(&format!("rooms/{ROOM}/joined_members"));
        let users: Vec<_> = joined["joined"].as_object().unwrap().keys().collect();
        assert_eq!(users, [&ann().user_id, BOT_ID]);
        probe.call("POST", &format!("rooms/{ROOM}/leave"), &json!({}));
        assert_eq!(
            probe.code("GET", &format!("rooms/{ROOM}/members"), &Value::Null),
            "M_FORBIDDEN"
        );
        let path = format!("rooms/{ROOM}/members?not_membership=leave");
        let members = probe.by_ann().get(&path);
        assert_eq!(members["chunk"].as_array().unwrap().len(), 1);
    }
}
