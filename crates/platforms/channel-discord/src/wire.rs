//! Frames of the gateway, version 10, in JSON.

use std::borrow::Cow;

use nanobot_channel::json as bounded;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use serenity::model::Timestamp;
use serenity::model::channel::Message;
use serenity::model::id::{ApplicationId, ChannelId, GuildId, MessageId, UserId};

use crate::DiscordConfig;
use crate::Secret;
use crate::cursor::{BotUser, GatewaySession};

/// Opcodes of frames.
pub(crate) mod op {
    pub(crate) const DISPATCH: u8 = 0;
    pub(crate) const HEARTBEAT: u8 = 1;
    pub(crate) const IDENTIFY: u8 = 2;
    pub(crate) const RESUME: u8 = 6;
    pub(crate) const RECONNECT: u8 = 7;
    pub(crate) const INVALID_SESSION: u8 = 9;
    pub(crate) const HELLO: u8 = 10;
    pub(crate) const HEARTBEAT_ACK: u8 = 11;
}

/// A frame from the gateway, its content not read yet.
#[derive(Debug, Deserialize)]
pub(crate) struct SocketFrame<'a> {
    pub(crate) op: u8,
    #[serde(borrow, default)]
    d: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) s: Option<u64>,
    #[serde(borrow, default)]
    pub(crate) t: Option<Cow<'a, str>>,
}

impl<'a> SocketFrame<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The content as one type.
    pub(crate) fn content<T: Deserialize<'a>>(&self) -> Result<T, serde_json::Error> {
        bounded::from_str(self.d.map_or("null", RawValue::get))
    }

    /// The content as a message.
    pub(crate) fn message(&self) -> Result<RawMessage, serde_json::Error> {
        RawMessage::peek(self.d.map_or("null", RawValue::get), None)
    }
}

/// A message of which only its place was read, of the gateway or of the API.
#[derive(Clone, Debug)]
pub(crate) struct RawMessage {
    pub(crate) id: MessageId,
    /// Not known of one that cannot be read.
    pub(crate) channel: Option<ChannelId>,
    /// Seconds since 1970 at which it was written.
    pub(crate) written: Option<u64>,
    /// The server of a fetched message, which does not say it itself.
    guild: Option<GuildId>,
    pub(crate) text: Box<str>,
}

impl RawMessage {
    /// Finds a message's id and place. Builds no value of the rest and does not recurse into it.
    pub(crate) fn peek(text: &str, guild: Option<GuildId>) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Placed<'a> {
            id: MessageId,
            channel_id: Option<ChannelId>,
            #[serde(borrow)]
            timestamp: Option<Cow<'a, str>>,
        }
        #[derive(Deserialize)]
        struct Named {
            id: MessageId,
        }
        let text: Box<str> = text.into();
        if let Ok(Placed {
            id,
            channel_id,
            timestamp,
        }) = serde_json::from_str(&text)
        {
            let timestamp = timestamp.and_then(|time| Timestamp::parse(&time).ok());
            let written = timestamp.and_then(|time| u64::try_from(time.unix_timestamp()).ok());
            return Ok(Self {
                id,
                channel: channel_id,
                written,
                guild,
                text,
            });
        }
        let Named { id } = serde_json::from_str(&text)?;
        Ok(Self {
            id,
            channel: None,
            written: None,
            guild,
            text,
        })
    }

    /// Reads the message.
    pub(crate) fn parse(&self) -> Result<Message, serde_json::Error> {
        let mut message = parse_message(&self.text)?;
        message.guild_id = message.guild_id.or(self.guild);
        Ok(message)
    }
}

/// Reads a message of the gateway or of the API. Unreadable content other than the text is left
/// out, because Discord often adds new kinds.
pub(crate) fn parse_message(text: &str) -> Result<Message, serde_json::Error> {
    const OTHER_CONTENT: [&str; 12] = [
        "activity",
        "application",
        "components",
        "interaction",
        "interaction_metadata",
        "member",
        "message_snapshots",
        "poll",
        "reactions",
        "referenced_message",
        "sticker_items",
        "thread",
    ];
    bounded::from_str(text).or_else(|error| {
        let Ok(Value::Object(mut message)) = bounded::from_str(text) else {
            return Err(error);
        };
        for key in OTHER_CONTENT {
            message.remove(key);
        }
        message.insert("embeds".to_owned(), json!([]));
        serde_json::from_value(Value::Object(message)).map_err(|_it_was_not_that| error)
    })
}

/// The first frame.
#[derive(Debug, Deserialize)]
pub(crate) struct Hello {
    pub(crate) heartbeat_interval: u64,
}

/// A new session.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    user: BotAccount,
    session_id: String,
    resume_gateway_url: Option<String>,
    application: Application,
}

#[derive(Debug, Deserialize)]
struct BotAccount {
    id: UserId,
    username: String,
}

#[derive(Debug, Deserialize)]
struct Application {
    id: ApplicationId,
}

impl Ready {
    /// Returns the name of the bot.
    pub(crate) fn username(&self) -> &str {
        &self.user.username
    }

    /// Returns the identity of the bot.
    pub(crate) fn bot(&self) -> BotUser {
        BotUser {
            id: self.user.id,
            application: self.application.id,
        }
    }

    /// Returns the session for resuming; `url` is the address where it began.
    pub(crate) fn into_session(self, url: &str) -> GatewaySession {
        GatewaySession {
            id: Secret::new(self.session_id),
            url: self.resume_gateway_url.unwrap_or_else(|| url.to_owned()),
        }
    }
}

/// Returns a heartbeat with the number of the last handled event.
pub(crate) fn heartbeat(last_handled: u64) -> Value {
    json!({"op": op::HEARTBEAT, "d": Some(last_handled).filter(|number| *number > 0)})
}

/// Returns a request for a new session.
pub(crate) fn identify(config: &DiscordConfig) -> Value {
    let properties = json!({"os": std::env::consts::OS, "browser": "nanobot", "device": "nanobot"});
    json!({"op": op::IDENTIFY, "d": {
        "token": config.token.expose(), "intents": config.intents, "properties": properties,
        "compress": false, "large_threshold": 50,
    }})
}

/// Returns a request for the events after the last handled one.
pub(crate) fn resume(config: &DiscordConfig, session: &GatewaySession, last_handled: u64) -> Value {
    json!({"op": op::RESUME, "d": {
        "token": config.token.expose(), "session_id": session.id.expose(), "seq": last_handled,
    }})
}
