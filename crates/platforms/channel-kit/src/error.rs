//! What an error of a send means for a call that is none.

use nanobot_channel::ChannelError;

/// The same error for a call that does no harm when it is made twice: what is unknown about it does
/// not matter.
#[must_use]
pub fn repeatable(error: ChannelError) -> ChannelError {
    match error {
        ChannelError::Ambiguous(why) => ChannelError::Unavailable(why),
        other => other,
    }
}
