//! The gateway that a terminal talks through, when there is one.
//!
//! Decision: a gateway that has the home is asked, so that a session has one owner. Who wants
//! another model or another workspace than the gateway's works beside it, on the files.

use nanobot_config::Config;
use nanobot_control::ControlClient;

use super::TerminalOptions;
use crate::{RuntimeError, remote};

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
        of_workspace(config).await
    }
}

/// The gateway that has the configuration's home and workspace.
///
/// # Errors
/// As [`remote::connect`].
pub(crate) async fn of_workspace(config: &Config) -> Result<Option<ControlClient>, RuntimeError> {
    let Some(client) = remote::connect(config).await? else {
        return Ok(None);
    };
    let shares_workspace = config
        .workspace()
        .is_ok_and(|workspace| workspace == client.about().workspace);
    if !shares_workspace {
        tracing::debug!("the gateway has another workspace: working on the files");
    }
    Ok(shares_workspace.then_some(client))
}
