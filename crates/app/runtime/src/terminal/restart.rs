//! Restart of a conversation after `/restart`.
//!
//! Decision: an assistant of this process is rebuilt within the process, because lines of a pipe
//! that were already read would be lost with it. If a gateway restarts, the terminal waits for it
//! and joins the session there.

use std::pin::Pin;
use std::time::Duration;

use nanobot_control::ControlClient;
use nanobot_state::ProcessLock;

use super::{Terminal, TerminalOptions, TerminalPeer};
use crate::{Runtime, RuntimeError, control_socket};

/// Maximum time to wait for the gateway; then the terminal works without it.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between attempts to reach the gateway.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The future of the new conversation.
pub(super) type RestartFuture =
    Pin<Box<dyn Future<Output = Result<Terminal, RuntimeError>> + Send>>;

/// Ends a conversation and starts it again, with the current configuration. A prompt keeps the lock
/// of its session.
pub(super) fn begin(
    peer: TerminalPeer,
    runtime: Runtime,
    options: TerminalOptions,
    is_prompt: bool,
    lock: Option<ProcessLock>,
) -> RestartFuture {
    Box::pin(async move {
        let is_gateway = matches!(peer, TerminalPeer::Gateway(_));
        peer.end().await;
        let runtime = runtime.reload()?;
        if is_gateway {
            let socket = control_socket(runtime.config());
            let reconnected = async {
                while ControlClient::reach(&socket).await.is_err() {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            };
            if tokio::time::timeout(RECONNECT_TIMEOUT, reconnected)
                .await
                .is_err()
            {
                tracing::warn!("the gateway did not return in time");
            }
        }
        Terminal::begin(&runtime, options, is_prompt, lock).await
    })
}
