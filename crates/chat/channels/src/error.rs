//! What can go wrong with channels before they run.

use nanobot_channel::{ChannelError, ChannelName};

/// An error of the configuration of channels.
#[derive(Debug, thiserror::Error)]
pub enum ChannelsError {
    /// Nobody registered this platform.
    #[error("no channel of kind `{kind}` is built in; there are: {known}")]
    UnknownKind {
        /// The kind asked for.
        kind: String,
        /// The kinds there are, in words.
        known: String,
    },
    /// Two factories for one platform.
    #[error("the channel kind `{kind}` is registered twice")]
    DuplicateKind {
        /// The kind.
        kind: &'static str,
    },
    /// Two channels under one name.
    #[error("two channels are called `{name}`")]
    DuplicateName {
        /// The name.
        name: ChannelName,
    },
    /// A key that every channel has holds the wrong thing.
    #[error("channels.{name}{}{key} cannot be used", if .key.is_empty() { "" } else { "." })]
    Settings {
        /// The channel.
        name: ChannelName,
        /// The key; empty where it is not known.
        key: String,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// The channel itself refuses its section.
    #[error("channels.{name} cannot be used")]
    Create {
        /// The channel.
        name: ChannelName,
        /// Which key is wrong and what to write instead.
        #[source]
        source: ChannelError,
    },
}
