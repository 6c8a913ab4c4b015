//! Errors of channels before they run.

use nanobot_channel::{ChannelError, ChannelName};

/// Error in the configuration of channels.
#[derive(Debug, thiserror::Error)]
pub enum ChannelsError {
    /// No factory is registered for this platform.
    #[error("no channel of kind `{kind}` is built in; there are: {known}")]
    UnknownKind {
        /// Requested kind.
        kind: String,
        /// Registered kinds, as a comma-separated list.
        known: String,
    },
    /// Two factories are registered for one platform.
    #[error("the channel kind `{kind}` is registered twice")]
    DuplicateKind {
        /// Duplicate kind.
        kind: &'static str,
    },
    /// Two channels have the same name.
    #[error("two channels are called `{name}`")]
    DuplicateName {
        /// Duplicate name.
        name: ChannelName,
    },
    /// A key common to all channels has an invalid value.
    #[error("channels.{name}{}{key} cannot be used", if .key.is_empty() { "" } else { "." })]
    Settings {
        /// Channel.
        name: ChannelName,
        /// Key; empty if unknown.
        key: String,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
    /// The channel rejects its section.
    #[error("channels.{name} cannot be used")]
    Create {
        /// Channel.
        name: ChannelName,
        /// Cause: the wrong key and what to write instead.
        #[source]
        source: ChannelError,
    },
}
