//! Settings of the parts of a turn that a terminal shows with its reply.

use nanobot_channels::DeliverySettings;
use nanobot_config::Config;

use crate::RuntimeError;

/// Progress events that a terminal shows: `channels.sendProgress` and `channels.sendToolHints`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalProgress {
    /// Set when intermediate text is shown, such as the words next to a tool call.
    pub thoughts: bool,
    /// Set when running tools are shown. At a terminal this is the default, because the user is
    /// waiting in front of it.
    pub tool_hints: bool,
}

impl TerminalProgress {
    /// Reads both keys from the configuration.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if a section cannot be read.
    pub fn of(config: &Config) -> Result<Self, RuntimeError> {
        let delivery: DeliverySettings = config.section("channels")?;
        let tool_hints = delivery.send_tool_hints || !config.is_set("channels.sendToolHints")?;
        Ok(Self {
            thoughts: delivery.send_progress,
            tool_hints,
        })
    }
}
