//! Identifiers as types, so that a chat id can never be passed where a sender id is meant.
//!
//! Each is a cheap-to-clone shared string that reads and writes as a plain JSON string. None of
//! them validates: they carry what a platform, a vendor or a person chose.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a string.
            pub fn new(value: impl Into<Arc<str>>) -> Self {
                Self(value.into())
            }

            /// The string inside.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                Self(value.into())
            }
        }

        impl From<String> for $name {
            fn from(value: String) -> Self {
                Self(value.into())
            }
        }
    };
}

id!(
    /// Names one configured channel instance (`telegram`, `telegram-work`), not a platform.
    ChannelName
);
id!(
    /// A conversation on a channel, in the platform's own spelling.
    ChatId
);
id!(
    /// Who wrote a message, from platform metadata only, never from message text.
    SenderId
);
id!(
    /// A message in the platform's own spelling; unique within its chat.
    MessageId
);
id!(
    /// Names one conversation history, usually `channel:chat_id`.
    SessionKey
);
id!(
    /// Names one turn; stable across restarts when the message that began it had an id.
    TraceId
);
id!(
    /// Links a tool call to its one result.
    CallId
);
id!(
    /// A tool as the model calls it.
    ToolName
);
id!(
    /// An entry of the provider table, or a named custom provider.
    ProviderName
);
id!(
    /// A model in the spelling its provider expects.
    ModelId
);
id!(
    /// A scheduled job.
    JobId
);
id!(
    /// One run of streamed text: the deltas of one model call share it.
    StreamId
);

impl SessionKey {
    /// The default key of a chat: `channel:chat_id`.
    #[must_use]
    pub fn of_chat(channel: &ChannelName, chat: &ChatId) -> Self {
        Self::from(format!("{channel}:{chat}"))
    }
}
