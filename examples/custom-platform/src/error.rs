//! Beacon's error words.

use std::fmt;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::Refusal;

pub(crate) type CallError = nanobot_channel_kit::CallError<BeaconRefusal>;

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeaconRefusal {
    pub(crate) status: u16,
    pub(crate) word: String,
}

impl fmt::Display for BeaconRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (status {})", self.word, self.status)
    }
}

impl Refusal for BeaconRefusal {
    fn to_channel_error(&self) -> ChannelError {
        let text = self.to_string();
        match self.word.as_str() {
            "bad_token" => ChannelError::Auth(text),
            "no_such_room" => ChannelError::NotFound(text),
            "too_large" => ChannelError::TooLarge(text),
            _ if self.status >= 500 => ChannelError::Unavailable(text),
            _ => ChannelError::Refused(text),
        }
    }
}
