//! Frames and payloads of the socket, as far as they are used.
//!
//! Decision: read leniently, by hand. slack-morphism's event types drop what they do not know (the
//! size of a file, the author of a thread) and refuse a whole message over one odd block; a
//! person's message has to arrive whatever Slack adds to it.

use nanobot_channel::Value;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One frame, of whose payload nothing was read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SocketFrame<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The envelope to acknowledge; frames about the connection have none.
    pub(crate) envelope_id: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    /// The reason why the connection ends.
    pub(crate) reason: Option<String>,
    /// Number of connections of the app, this one included.
    pub(crate) num_connections: Option<u64>,
}

impl<'a> SocketFrame<'a> {
    /// Finds the parts of a frame. Builds no value of the payload and does not recurse into it.
    pub(crate) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn payload(&self) -> &'a str {
        self.payload.map_or("null", RawValue::get)
    }
}

/// The conversation and the key of a payload.
#[derive(Debug, Default)]
pub(crate) struct PayloadOrigin {
    /// The type of an event.
    pub(crate) kind: String,
    pub(crate) chat: String,
    pub(crate) thread: Option<String>,
    /// The message's `ts`, if it is one.
    pub(crate) ts: Option<String>,
    /// Its key in the quarantine: the same for repetitions and for the history.
    pub(crate) key: String,
}

impl PayloadOrigin {
    /// Finds the conversation of a payload. Does not parse the rest and does not recurse into it.
    pub(crate) fn peek(payload: &str) -> Self {
        if let Ok(EventPayload {
            event_id,
            event:
                Some(EventFields {
                    kind,
                    channel,
                    ts,
                    thread_ts,
                }),
        }) = serde_json::from_str(payload)
        {
            let key = match (&ts, event_id) {
                (Some(ts), _) if !channel.is_empty() => message_key(&channel, ts),
                (_, Some(id)) => format!("event/{id}"),
                (_, None) => payload.to_owned(),
            };
            return Self {
                kind,
                chat: channel,
                thread: thread_ts.filter(|thread| Some(thread) != ts.as_ref()),
                ts,
                key,
            };
        }
        if let Ok(NumberedEvent {
            event_id,
            event: EventKind { kind },
        }) = serde_json::from_str(payload)
        {
            return Self {
                kind,
                key: format!("event/{event_id}"),
                ..Self::default()
            };
        }
        let pressed = || {
            serde_json::from_str::<InteractionPayload>(payload)
                .ok()
                .map(|pressed| pressed.channel.id)
        };
        let command = || {
            serde_json::from_str::<CommandPayload>(payload)
                .ok()
                .map(|command| command.channel_id)
        };
        Self {
            chat: pressed().or_else(command).unwrap_or_default(),
            key: payload.to_owned(),
            ..Self::default()
        }
    }
}

/// The fields of a payload that name its conversation.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EventPayload {
    event_id: Option<String>,
    event: Option<EventFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventFields {
    #[serde(rename = "type")]
    kind: String,
    channel: String,
    ts: Option<String>,
    thread_ts: Option<String>,
}

/// An event whose channel is no text (`channel_created`).
#[derive(Deserialize)]
struct NumberedEvent {
    event_id: String,
    event: EventKind,
}

#[derive(Deserialize)]
struct EventKind {
    #[serde(rename = "type")]
    kind: String,
}

/// A press of a button.
#[derive(Deserialize)]
struct InteractionPayload {
    channel: ObjectId,
}

#[derive(Deserialize)]
struct CommandPayload {
    channel_id: String,
}

/// Returns the key of a message in the quarantine.
pub(crate) fn message_key(chat: &str, ts: &str) -> String {
    format!("{chat}/{ts}")
}

/// The payload of an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SlackEventPayload {
    pub(crate) event_id: Value,
    pub(crate) event: SlackEvent,
}

/// An event of the workspace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SlackEvent {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) subtype: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) bot_id: Option<String>,
    pub(crate) channel: Option<String>,
    /// Not there in an `app_mention`.
    pub(crate) channel_type: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) ts: Option<String>,
    pub(crate) thread_ts: Option<String>,
    /// The author of the thread's first message.
    pub(crate) parent_user_id: Option<String>,
    pub(crate) files: Option<Vec<Value>>,
    /// Messages that were shared with this one, and previews of links.
    pub(crate) attachments: Option<Vec<Value>>,
}

/// A file of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct SlackFile {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) mimetype: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) is_external: bool,
    pub(crate) url_private: Option<String>,
    pub(crate) url_private_download: Option<String>,
}

/// A use of an interactive element.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Interaction {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) user: ObjectId,
    pub(crate) channel: ObjectId,
    /// The message with the buttons, as it is now.
    pub(crate) message: Value,
    pub(crate) actions: Vec<ButtonAction>,
}

/// An object with an id.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectId {
    pub(crate) id: String,
}

/// A pressed button.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ButtonAction {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) action_id: String,
    pub(crate) value: Option<String>,
    pub(crate) action_ts: String,
}

/// A slash command.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SlashCommand {
    pub(crate) command: String,
    pub(crate) text: Option<String>,
    pub(crate) user_id: String,
    pub(crate) channel_id: String,
    pub(crate) channel_name: Option<String>,
    pub(crate) trigger_id: String,
}
