//! Settings of the parts of a turn that a terminal shows with its reply.

use nanobot_channels::DeliverySettings;
use nanobot_config::Config;

use crate::RuntimeError;

/// Which news of a turn a terminal shows: `channels.sendProgress` and `channels.sendToolHints`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalProgress {
    /// Thoughts on the way, such as words beside a call of tools.
    pub thoughts: bool,
    /// Tools that run. At a terminal they are shown unless the configuration says otherwise: a person
    /// sits in front of it and waits.
    pub tool_hints: bool,
}

impl TerminalProgress {
    /// Reads both keys from the configuration.
    ///
    /// # Errors
    /// A section that cannot be read.
    pub fn of(config: &Config) -> Result<Self, RuntimeError> {
        let delivery: DeliverySettings = config.section("channels")?;
        let tool_hints = delivery.send_tool_hints || !config.is_set("channels.sendToolHints")?;
        Ok(Self {
            thoughts: delivery.send_progress,
            tool_hints,
        })
    }
}
