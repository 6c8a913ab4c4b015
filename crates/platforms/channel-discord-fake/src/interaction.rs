//! Menu commands, buttons and the responses to them.

use nanobot_testkit::json::set;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::account::{APPLICATION_ID, GUILD};
use crate::guild::{LONG_AGO, Room};
use crate::incoming::Person;
use crate::refusal::{RestError, RestResult};
use crate::sending::{components_problem, unknown_field};
use crate::state::{Answer, DiscordState, OpenInteraction, Pushed};

const COMMAND: u8 = 2;
const COMPONENT: u8 = 3;
const ANSWER_FIELDS: &[&str] = &[
    "tts",
    "content",
    "embeds",
    "allowed_mentions",
    "flags",
    "components",
    "attachments",
    "poll",
    "files",
];

impl DiscordState {
    pub(crate) fn use_command(
        &mut self,
        channel: u64,
        person: &Person,
        name: &str,
        arguments: Option<&str>,
    ) -> Pushed {
        let options: Vec<Value> = arguments
            .iter()
            .map(|text| json!({"name": "arguments", "type": 3, "value": text}))
            .collect();
        let data = json!({"id": "77", "name": name, "type": 1, "options": options});
        self.interact(COMMAND, channel, person, &data, None)
    }

    pub(crate) fn press(
        &mut self,
        channel: u64,
        message: u64,
        person: &Person,
        label: &str,
    ) -> Option<Pushed> {
        let stored = self.messages.get(&message)?;
        let rows = stored
            .components
            .as_array()?
            .iter()
            .filter_map(|row| row.get("components")?.as_array());
        let pressed = rows
            .flatten()
            .find(|button| button.get("label").and_then(Value::as_str) == Some(label))?;
        let data = json!({"custom_id": pressed.get("custom_id")?, "component_type": 2});
        Some(self.interact(COMPONENT, channel, person, &data, Some(message)))
    }

    fn interact(
        &mut self,
        kind: u8,
        channel: u64,
        person: &Person,
        data: &Value,
        message: Option<u64>,
    ) -> Pushed {
        if self.room(channel).is_none() {
            self.direct.insert(channel, person.clone());
        }
        let id = self.new_id();
        let token = format!("interaction-token-{id}");
        let mut event = json!({
            "id": id.to_string(), "application_id": APPLICATION_ID.to_string(), "type": kind, "data": data,
            "channel": self.channel_json(channel), "channel_id": channel.to_string(), "token": token, "version": 1,
            "app_permissions": "1071698660929", "locale": "en-US", "entitlements": [], "context": 0,
            "authorizing_integration_owners": {}, "attachment_size_limit": 10_485_760,
        });
        if self.room(channel) == Some(Room::Server) {
            set(&mut event, "guild_id", GUILD.to_string());
            set(&mut event, "guild_locale", "en-US");
            let member = json!({
                "user": person.json(), "roles": [], "joined_at": LONG_AGO, "deaf": false, "mute": false, "flags": 0,
                "permissions": "1071698660929", "nick": null, "avatar": null, "pending": false,
                "premium_since": null, "communication_disabled_until": null,
            });
            set(&mut event, "member", member);
        } else {
            set(&mut event, "user", person.json());
        }
        if let Some(message) = message.and_then(|message| self.messages.get(&message)) {
            set(&mut event, "message", self.message_json(message));
        }
        let asked = Instant::now();
        self.interactions.insert(
            id,
            OpenInteraction {
                token,
                asked,
                kind,
                message,
                is_answered: false,
            },
        );
        Pushed {
            channel_id: channel,
            message_id: id,
            number: self.dispatch("INTERACTION_CREATE", &event, 0),
        }
    }

    /// Records a response to an interaction and returns its type.
    pub(crate) fn answer(&mut self, id: u64, token: &str, body: &Value) -> RestResult {
        let unknown = || RestError::new(404, 10_062, "Unknown interaction");
        let answer_time = self.answer_time;
        let open = self
            .interactions
            .get_mut(&id)
            .filter(|open| open.token == token)
            .ok_or_else(unknown)?;
        if open.is_answered {
            return Err(RestError::new(
                400,
                40_060,
                "Interaction has already been acknowledged.",
            ));
        }
        if open.asked.elapsed() > answer_time {
            return Err(unknown());
        }
        let kind = body.get("type").and_then(Value::as_u64).unwrap_or_default();
        let fits = matches!((open.kind, kind), (_, 4 | 5) | (COMPONENT, 6 | 7));
        if !fits {
            return Err(RestError::form(
                "type: this kind of response does not fit the interaction",
            ));
        }
        let data = body.get("data").cloned().unwrap_or_default();
        if let Some(field) = unknown_field(&data, ANSWER_FIELDS) {
            return Err(RestError::form(format!("data.{field}: unknown")));
        }
        let text = data.get("content").and_then(Value::as_str);
        if kind == 4 && !text.is_some_and(|text| (1..=2000).contains(&text.chars().count())) {
            return Err(RestError::form(
                "data.content: must be between 1 and 2000 in length",
            ));
        }
        if let Some(problem) = data.get("components").and_then(components_problem) {
            return Err(RestError::form(problem));
        }
        open.is_answered = true;
        let message = open.message.filter(|_| kind == 7);
        if let Some(message) = message.and_then(|message| self.messages.get_mut(&message))
            && let Some(components) = data.get("components")
        {
            message.components = components.clone();
        }
        self.answers.push(Answer {
            interaction: id,
            kind,
            data,
        });
        Ok(json!(kind))
    }

    /// Replaces the whole command menu.
    pub(crate) fn set_commands(&mut self, body: &Value) -> RestResult {
        let Some(commands) = body.as_array() else {
            return Err(RestError::form("must be a list"));
        };
        let mut set_commands = Vec::new();
        for command in commands {
            let text = |key: &str| {
                command
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
            let name = text("name");
            if !(1..=32).contains(&name.len()) || !name.chars().all(plain) {
                return Err(RestError::form(
                    "name: String value did not match validation regex.",
                ));
            }
            let options = command
                .get("options")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let description = |entry: &Value| {
                entry
                    .get("description")
                    .and_then(Value::as_str)
                    .is_some_and(|text| (1..=100).contains(&text.chars().count()))
            };
            if !description(command) || !options.iter().all(description) {
                return Err(RestError::form(
                    "description: must be between 1 and 100 in length",
                ));
            }
            let mut stored = command.clone();
            for (key, value) in [
                ("id", json!(format!("77{}", set_commands.len()))),
                ("application_id", json!(APPLICATION_ID.to_string())),
                ("version", json!("1")),
                ("default_member_permissions", Value::Null),
            ] {
                set(&mut stored, key, value);
            }
            set_commands.push(stored);
        }
        self.commands = Value::Array(set_commands);
        Ok(self.commands.clone())
    }
}
