//! Meaning of a send's error for calls that may be repeated.

use nanobot_channel::ChannelError;

/// Converts the error of a call that may be repeated without harm: an unknown outcome means that it
/// was not made.
#[must_use]
pub fn repeatable(error: ChannelError) -> ChannelError {
    match error {
        ChannelError::Ambiguous(why) => ChannelError::Unavailable(why),
        other => other,
    }
}
