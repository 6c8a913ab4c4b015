//! The gateway that a terminal talks through, when there is one.
//!
//! Decision: a gateway that has the home is asked, so that a session has one owner. Who wants
//! another model or another workspace than the gateway's works beside it, on the files.

use nanobot_config::Config;
use nanobot_control::ControlClient;

use super::TerminalOptions;
use crate::RuntimeError;
use crate::operator::remote;

/// The gateway for this conversation.
///
/// # Errors
/// As [`remote::connect`].
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
