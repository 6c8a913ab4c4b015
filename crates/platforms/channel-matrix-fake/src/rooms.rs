//! Rooms as people make and change them.

use serde_json::{Map, Value, json};

use crate::account::{BOT_ID, Person};
use crate::json::{members, put};
use crate::model::{Pushed, Room};
use crate::state::{MatrixState, NewEvent};

impl MatrixState {
    /// Creates a room with the state that homeservers give to a private room.
    pub(crate) fn create_room(&mut self, room: &str, creator: &str) {
        self.rooms.insert(room.to_owned(), Room::default());
        let states = [
            ("m.room.create", "", json!({"room_version": "11"})),
            (
                "m.room.member",
                creator,
                self.member_content(room, creator, "join"),
            ),
            (
                "m.room.power_levels",
                "",
                json!({"users": {creator: 100}, "users_default": 0, "state_default": 50,
                    "events_default": 0, "invite": 0, "redact": 50, "kick": 50, "ban": 50}),
            ),
            ("m.room.join_rules", "", json!({"join_rule": "invite"})),
            (
                "m.room.history_visibility",
                "",
                json!({"history_visibility": "shared"}),
            ),
        ];
        for (kind, key, content) in states {
            self.add_state(room, creator, kind, key, members(content));
        }
    }

    /// Creates a room of people, unless it exists.
    pub(crate) fn add_room(&mut self, room: &str, people: &[Person]) {
        for person in people {
            self.add_account(person);
        }
        if !self.rooms.contains_key(room) {
            let creator = people.first().map_or(BOT_ID, |person| &person.user_id);
            self.create_room(room, creator);
            self.set_room_state(room, "m.room.name", "", json!({"name": room}));
        }
        for person in people {
            let user = &person.user_id;
            if self.rooms.get(room).map(|room| room.membership(user)) != Some("join".to_owned()) {
                self.set_membership(room, user, user, "join");
            }
        }
    }

    pub(crate) fn add_state(
        &mut self,
        room: &str,
        sender: &str,
        kind: &str,
        key: &str,
        content: Map<String, Value>,
    ) -> Pushed {
        let new = NewEvent {
            kind,
            sender,
            state_key: Some(key),
            content,
            ..NewEvent::default()
        };
        let (event_id, position) = self.add_event(room, new);
        Pushed {
            room_id: room.to_owned(),
            event_id,
            position,
        }
    }

    fn member_content(&self, room: &str, user: &str, membership: &str) -> Value {
        let mut content = json!({"membership": membership});
        if let Some(user) = self.users.get(user)
            && matches!(membership, "join" | "invite")
        {
            put(&mut content, &["displayname"], user.display_name.clone());
            if let Some(avatar) = &user.avatar_url {
                put(&mut content, &["avatar_url"], avatar.clone());
            }
        }
        let is_direct = self.rooms.get(room).is_some_and(|room| room.is_direct);
        if membership == "invite" && is_direct {
            put(&mut content, &["is_direct"], true);
        }
        content
    }

    /// Changes the membership of a user, as another user or the same.
    pub(crate) fn set_membership(
        &mut self,
        room: &str,
        sender: &str,
        user: &str,
        membership: &str,
    ) -> Pushed {
        let content = members(self.member_content(room, user, membership));
        self.add_state(room, sender, "m.room.member", user, content)
    }

    pub(crate) fn set_direct(&mut self, room: &str) {
        if let Some(room) = self.rooms.get_mut(room) {
            room.is_direct = true;
        }
    }

    pub(crate) fn encrypt(&mut self, room: &str) -> Pushed {
        let content = json!({"algorithm": "m.megolm.v1.aes-sha2"});
        self.set_room_state(room, "m.room.encryption", "", content)
    }

    /// Sets a state event, as the creator of the room.
    pub(crate) fn set_room_state(
        &mut self,
        room: &str,
        kind: &str,
        key: &str,
        content: Value,
    ) -> Pushed {
        let creator = self.rooms.get(room).map(Room::creator).unwrap_or_default();
        self.add_state(room, &creator, kind, key, members(content))
    }

    /// Sets the power level of the bot.
    pub(crate) fn set_power(&mut self, room: &str, power: i64) {
        let levels = self.rooms.get(room);
        let levels = levels.and_then(|room| room.state_content("m.room.power_levels", ""));
        let mut levels = Value::Object(levels.unwrap_or_default());
        put(&mut levels, &["users", BOT_ID], power);
        self.set_room_state(room, "m.room.power_levels", "", levels);
    }
}
