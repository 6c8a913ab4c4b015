//! A conversation that begins again after `/restart`.
//!
//! Decision: an assistant of this process is built anew within it, because lines of a pipe that
//! were read already would be lost with the process. For a gateway that begins again the terminal
//! waits, and joins the session there.

use std::pin::Pin;
use std::time::Duration;

use nanobot_control::ControlClient;

use super::{Talk, Terminal, TerminalOptions};
use crate::{Runtime, RuntimeError, control_socket};

/// How long a gateway may take to be there again; then the terminal works without it.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The new conversation, when it has begun.
pub(super) type Again = Pin<Box<dyn Future<Output = Result<Terminal, RuntimeError>> + Send>>;

/// Ends a conversation and begins it again, with the configuration as it is by then.
pub(super) fn begin(talk: Talk, runtime: Runtime, options: TerminalOptions) -> Again {
    Box::pin(async move {
        let is_gateway = matches!(talk, Talk::Gateway(_));
        talk.end().await;
        let runtime = runtime.reload()?;
        if is_gateway {
            let socket = control_socket(runtime.config());
            let found = async {
                while ControlClient::reach(&socket).await.is_err() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            };
            if tokio::time::timeout(PATIENCE, found).await.is_err() {
                tracing::warn!("the gateway did not come back in time");
            }
        }
        Terminal::start(&runtime, options).await
    })
}
