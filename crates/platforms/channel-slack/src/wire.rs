//! What comes over the socket, as far as it is needed.
//!
//! Decision: read leniently, by hand. slack-morphism's event types drop what they do not know (the
//! size of a file, the author of a thread) and refuse a whole message over one odd block; a person's
//! message has to arrive whatever Slack adds to it.

use nanobot_channel::Value;
use serde::Deserialize;
use serde_json::value::RawValue;

/// One frame, of whose payload nothing was read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Frame<'a> {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What to acknowledge; frames about the connection have none.
    pub(crate) envelope_id: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    /// Why the connection ends.
    pub(crate) reason: Option<String>,
    /// How many connections the app has, this one included.
    pub(crate) num_connections: Option<u64>,
}

impl<'a> Frame<'a> {
    /// Finds the parts of a frame. Builds no value of the payload and does not recurse into it.
    pub(crate) fn find(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn payload(&self) -> &'a str {
        self.payload.map_or("null", RawValue::get)
    }
}

/// Where a payload belongs, as far as it says so where every other one does.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    /// What happened, for an event.
    pub(crate) kind: String,
    pub(crate) chat: String,
    pub(crate) thread: Option<String>,
    /// The message's `ts`, if it is one.
    pub(crate) ts: Option<String>,
    /// The name of its tries: the same however often and on whichever way Slack tells of it.
    pub(crate) key: String,
}

impl Origin {
    /// Finds out where a payload belongs. Builds no value of the rest and does not recurse into it.
    pub(crate) fn find(payload: &str) -> Self {
        if let Ok(Told {
            event_id,
            event:
                Some(Happened {
                    kind,
                    channel,
                    ts,
                    thread_ts,
                }),
        }) = serde_json::from_str(payload)
        {
            let key = match (&ts, event_id) {
                (Some(ts), _) if !channel.is_empty() => said_key(&channel, ts),
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
        if let Ok(Numbered {
            event_id,
            event: Kind { kind },
        }) = serde_json::from_str(payload)
        {
            return Self {
                kind,
                key: format!("event/{event_id}"),
                ..Self::default()
            };
        }
        let pressed = || {
            serde_json::from_str::<Pressed>(payload)
                .ok()
                .map(|pressed| pressed.channel.id)
        };
        let command = || {
            serde_json::from_str::<Command>(payload)
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

/// The places in a payload that say where it belongs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Told {
    event_id: Option<String>,
    event: Option<Happened>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Happened {
    #[serde(rename = "type")]
    kind: String,
    channel: String,
    ts: Option<String>,
    thread_ts: Option<String>,
}

/// An event whose place is no text (`channel_created`).
#[derive(Deserialize)]
struct Numbered {
    event_id: String,
    event: Kind,
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

/// A press of a button.
#[derive(Deserialize)]
struct Pressed {
    channel: Named,
}

#[derive(Deserialize)]
struct Command {
    channel_id: String,
}

/// The name of a message's tries.
pub(crate) fn said_key(chat: &str, ts: &str) -> String {
    format!("{chat}/{ts}")
}

/// What happened in the workspace.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
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
    /// Who began the thread.
    pub(crate) parent_user_id: Option<String>,
    pub(crate) files: Option<Vec<Value>>,
    /// Messages that were shared with this one, and previews of links.
    pub(crate) attachments: Option<Vec<Value>>,
}

/// A file of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) mimetype: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) is_external: bool,
    pub(crate) url_private: Option<String>,
    pub(crate) url_private_download: Option<String>,
}

/// Somebody pressed something.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Interaction {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) user: Named,
    pub(crate) channel: Named,
    /// The message with the buttons, as it is now.
    pub(crate) message: Value,
    pub(crate) actions: Vec<Action>,
}

/// Something with an id.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) id: String,
}

/// A pressed button.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Action {
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
