//! Lines of the relay's protocol.

use serde::{Deserialize, Serialize};

/// What the relay says.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum FromRelay {
    /// A person wrote.
    Message {
        id: String,
        sender: String,
        text: String,
    },
    /// It has a part.
    Taken { taken: String },
    /// It will never take a part.
    Refused { refused: String, why: String },
    /// It is there, though it has no news.
    Ping {
        #[serde(rename = "ping")]
        _number: u64,
    },
    /// It does not know the token.
    Denied { denied: String },
}

/// What the channel says.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum ToRelay<'a> {
    /// Who connects.
    Hello { token: &'a str },
    /// A message may be forgotten.
    Ack { ack: &'a str },
    /// A part to show.
    Part {
        to: &'a str,
        key: &'a str,
        text: &'a str,
    },
}
