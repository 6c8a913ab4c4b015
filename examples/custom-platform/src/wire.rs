//! Frames of the stream.

use nanobot_channel::Map;
use serde::Deserialize;

/// A frame from Beacon. Frames without a message are signs of life.
#[derive(Debug, Deserialize)]
pub(crate) struct Frame {
    pub(crate) message: Option<RawMessage>,
}

/// A message that has only been read as far as its id, so that it can be acknowledged even if the
/// rest is unreadable.
#[derive(Debug, Deserialize)]
pub(crate) struct RawMessage {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) content: Map,
}

/// The content of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) room: String,
    pub(crate) sender: String,
    pub(crate) text: String,
    /// `true` in a room with one person.
    #[serde(default)]
    pub(crate) direct: bool,
    /// `true` if the text mentions the bot.
    #[serde(default)]
    pub(crate) mentioned: bool,
    pub(crate) file: Option<File>,
}

/// A file of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) mime: Option<String>,
    pub(crate) size: Option<u64>,
}
