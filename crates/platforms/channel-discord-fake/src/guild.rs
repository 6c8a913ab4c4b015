//! The server, its channels and threads, and the bot.

use nanobot_testkit::json::set;
use serde_json::{Value, json};

use crate::account::{APPLICATION_ID, BOT_ID, BOT_NAME, CHANNELS, GUILD};
use crate::session::GUILDS;
use crate::state::DiscordState;

/// Creation time of everything that exists from the start.
pub(crate) const LONG_AGO: &str = "2024-01-01T00:00:00.000000+00:00";

/// Returns the bot as it appears in messages.
pub(crate) fn bot() -> Value {
    json!({
        "id": BOT_ID.to_string(), "username": BOT_NAME, "discriminator": "0001", "global_name": null,
        "avatar": null, "bot": true, "public_flags": 0,
    })
}

/// Returns the bot as it appears to itself.
pub(crate) fn me() -> Value {
    let mut me = bot();
    for (key, value) in [
        ("mfa_enabled", json!(false)),
        ("verified", json!(true)),
        ("flags", json!(0)),
    ] {
        set(&mut me, key, value);
    }
    set(&mut me, "locale", "en-US");
    me
}

/// Returns the application that owns the bot.
pub(crate) fn application() -> Value {
    json!({
        "id": APPLICATION_ID.to_string(), "name": BOT_NAME, "icon": null, "description": "", "summary": "",
        "bot_public": false, "bot_require_code_grant": false, "verify_key": "00", "flags": 565_248,
        "owner": bot(), "team": null, "hook": true, "type": null,
    })
}

/// Returns a channel of the server.
fn text_channel(id: u64, position: usize) -> Value {
    json!({
        "id": id.to_string(), "type": 0, "guild_id": GUILD.to_string(), "name": format!("room-{position}"),
        "position": position, "permission_overwrites": [], "parent_id": null, "topic": null, "nsfw": false,
        "last_message_id": null, "rate_limit_per_user": 0, "flags": 0,
    })
}

fn thread(id: u64, parent: u64) -> Value {
    json!({
        "id": id.to_string(), "type": 11, "guild_id": GUILD.to_string(), "name": "a thread",
        "parent_id": parent.to_string(), "owner_id": BOT_ID.to_string(), "last_message_id": null,
        "message_count": 0, "member_count": 1, "rate_limit_per_user": 0, "flags": 0, "total_message_sent": 0,
        "thread_metadata": {
            "archived": false, "auto_archive_duration": 1440, "archive_timestamp": LONG_AGO, "locked": false,
            "create_timestamp": LONG_AGO,
        },
    })
}

/// Kind of an existing channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Direct,
    Server,
}

impl DiscordState {
    /// Returns the first event of a session.
    pub(crate) fn ready(&self, session: &str) -> Value {
        json!({
            "v": 10, "user": me(), "guilds": [{"id": GUILD.to_string(), "unavailable": true}],
            "session_id": session, "session_type": "normal", "private_channels": [], "relationships": [],
            "resume_gateway_url": format!("{}/resume", self.gateway_url), "shard": [0, 1],
            "application": {"id": APPLICATION_ID.to_string(), "flags": 565_248}, "_trace": [],
        })
    }

    pub(crate) fn guild(&self) -> Value {
        let channels = CHANNELS
            .iter()
            .enumerate()
            .map(|(position, id)| text_channel(*id, position));
        let threads = self.threads.iter().map(|(id, parent)| thread(*id, *parent));
        let mut guild = json!({
            "id": GUILD.to_string(), "name": "test", "owner_id": "1", "afk_timeout": 300, "verification_level": 0,
            "premium_progress_bar_enabled": false, "default_message_notifications": 0, "explicit_content_filter": 0,
            "mfa_level": 0, "system_channel_flags": 0, "premium_tier": 0, "nsfw_level": 0, "joined_at": LONG_AGO,
            "preferred_locale": "en-US", "large": false, "unavailable": false, "member_count": 2,
        });
        for nothing in [
            "afk_channel_id",
            "banner",
            "description",
            "icon",
            "public_updates_channel_id",
            "rules_channel_id",
            "safety_alerts_channel_id",
            "splash",
            "system_channel_id",
            "vanity_url_code",
        ] {
            set(&mut guild, nothing, Value::Null);
        }
        for empty in [
            "emojis",
            "features",
            "guild_scheduled_events",
            "presences",
            "soundboard_sounds",
            "stage_instances",
            "stickers",
            "voice_states",
        ] {
            set(&mut guild, empty, json!([]));
        }
        let everyone = json!({
            "id": GUILD.to_string(), "name": "@everyone", "color": 0, "hoist": false, "position": 0,
            "permissions": "1071698660929", "managed": false, "mentionable": false, "flags": 0,
        });
        let member = json!({"user": bot(), "roles": [], "joined_at": LONG_AGO, "deaf": false, "mute": false, "flags": 0});
        set(&mut guild, "roles", json!([everyone]));
        set(&mut guild, "members", json!([member]));
        set(&mut guild, "channels", channels.collect::<Value>());
        set(&mut guild, "threads", threads.collect::<Value>());
        guild
    }

    /// Returns the kind of a channel, or `None` if it does not exist.
    pub(crate) fn room(&self, channel: u64) -> Option<Room> {
        if CHANNELS.contains(&channel) || self.threads.contains_key(&channel) {
            return Some(Room::Server);
        }
        self.direct.contains_key(&channel).then_some(Room::Direct)
    }

    /// Returns a channel as the API shows it.
    pub(crate) fn channel_json(&self, channel: u64) -> Option<Value> {
        if let Some(position) = CHANNELS.iter().position(|id| *id == channel) {
            return Some(text_channel(channel, position));
        }
        if let Some(parent) = self.threads.get(&channel) {
            return Some(thread(channel, *parent));
        }
        let person = self.direct.get(&channel)?;
        Some(json!({
            "id": channel.to_string(), "type": 1, "last_message_id": null, "flags": 0, "recipients": [person.json()],
        }))
    }

    /// Starts a thread, notifies the sessions and returns the thread's id.
    pub(crate) fn start_thread(&mut self, parent: u64) -> u64 {
        let id = self.new_id();
        self.threads.insert(id, parent);
        let mut event = thread(id, parent);
        set(&mut event, "newly_created", true);
        self.dispatch("THREAD_CREATE", &event, GUILDS);
        id
    }
}
