//! The gateway that a terminal talks through, when there is one.
//!
//! Decision: a gateway that has the home is asked, so that a session has one owner. Who wants
//! another model or another workspace than the gateway's works beside it, on the files.

use nanobot_config::Config;
use nanobot_control::ControlClient;

use super::TerminalOptions;
use crate::control_socket;

/// The gateway for this conversation.
pub(super) async fn of(config: &Config, options: &TerminalOptions) -> Option<ControlClient> {
    if options.demo { None } else { of_workspace(config).await }
}

/// The gateway that has the configuration's home and workspace.
pub(crate) async fn of_workspace(config: &Config) -> Option<ControlClient> {
    let client = match ControlClient::reach(&control_socket(config)).await {
        Ok(client) => client,
        Err(error) => {
            tracing::debug!(%error, "no gateway answers: working on the files");
            return None;
        }
    };
    let shares_workspace = config.workspace().is_ok_and(|workspace| workspace == client.about().workspace);
    if !shares_workspace {
        tracing::debug!("the gateway has another workspace: working on the files");
    }
    shares_workspace.then_some(client)
}
