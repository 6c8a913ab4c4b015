//! Selects the gateway that a terminal talks through, if there is one.
//!
//! Decision: a gateway that has the home is used, so that a session has one owner. If the user
//! wants another model or another workspace than the gateway's, the terminal works next to it, on
//! the files.

use nanobot_config::Config;
use nanobot_control::ControlClient;

use super::TerminalOptions;
use crate::RuntimeError;
use crate::operator::remote;

/// Returns the gateway for this conversation.
///
/// # Errors
/// Returns the errors of [`remote::connect`].
pub(super) async fn of(
    config: &Config,
    options: &TerminalOptions,
) -> Result<Option<ControlClient>, RuntimeError> {
    if options.demo {
        Ok(None)
    } else {
        remote::connect_sharing_workspace(config).await
    }
}
