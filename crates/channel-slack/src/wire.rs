//! What comes over the socket, as far as it is needed.
//!
//! Decision: read leniently, by hand. slack-morphism's event types drop what they do not know (the
//! size of a file, the author of a thread) and refuse a whole message over one odd block; a person's
//! message has to arrive whatever Slack adds to it.

use nanobot_channel::Value;
use serde::Deserialize;

/// One frame.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Frame {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// What to acknowledge; frames about the connection have none.
    pub(crate) envelope_id: Option<String>,
    pub(crate) payload: Value,
    /// Why the connection ends.
    pub(crate) reason: Option<String>,
    /// How many connections the app has, this one included.
    pub(crate) num_connections: Option<u64>,
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
