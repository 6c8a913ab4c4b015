//! Lines of the relay's protocol.

use serde::{Deserialize, Serialize};

/// Line from the relay.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum FromRelay {
    /// A user sent a message.
    Message {
        id: String,
        sender: String,
        text: String,
    },
    /// The relay accepted a part.
    Taken { taken: String },
    /// The relay rejected a part permanently.
    Refused { refused: String, why: String },
    /// Keep-alive.
    Ping {
        #[serde(rename = "ping")]
        _number: u64,
    },
    /// The relay rejected the token.
    Denied { denied: String },
}

/// Line from the channel.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum ToRelay<'a> {
    /// Authentication, sent first.
    Hello { token: &'a str },
    /// Acknowledgement of a message.
    Ack { ack: &'a str },
    /// A part to show.
    Part {
        to: &'a str,
        key: &'a str,
        text: &'a str,
    },
}
