//! Identifier newtypes, so that a chat id cannot be passed where a sender id is expected.
//!
//! Each is a cheap-to-clone shared string that serializes as a plain JSON string. None of them
//! validates its content: it is chosen by a platform, a vendor or a user.

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

            /// Returns the inner string.
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
    /// Name of one configured channel instance (`telegram`, `telegram-work`), not of a platform.
    ChannelName
);
id!(
    /// Id of a conversation on a channel, as the platform writes it.
    ChatId
);
id!(
    /// Id of the sender of a message. It comes from platform metadata only, never from message
    /// text.
    SenderId
);
id!(
    /// Id of a message, as the platform writes it; unique within its chat.
    MessageId
);
id!(
    /// Key of one conversation history, usually `channel:chat_id`.
    SessionKey
);
id!(
    /// Id of one turn. It is stable across restarts if the message that started the turn has an id.
    TraceId
);
id!(
    /// Id that links a tool call to its one result.
    CallId
);
id!(
    /// Name of a tool, as the model calls it.
    ToolName
);
id!(
    /// Name of an entry in the provider table, or of a custom provider.
    ProviderName
);
id!(
    /// Name of a model, as its provider writes it.
    ModelId
);
id!(
    /// Id of a scheduled job.
    JobId
);
id!(
    /// Id of one run of streamed text: all deltas of one model call share it.
    StreamId
);

impl SessionKey {
    /// Returns the default key of a chat: `channel:chat_id`.
    #[must_use]
    pub fn of_chat(channel: &ChannelName, chat: &ChatId) -> Self {
        Self::from(format!("{channel}:{chat}"))
    }
}
