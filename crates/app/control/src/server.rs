//! The gateway's side of the control socket.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::Subscription;
use nanobot_types::{ChannelName, Event, OutboundMessage};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::PeerConnection;
use crate::parts::{ControlParts, ControlState};
use crate::seats::Seats;
use crate::socket::ControlListener;
use crate::terminals::Terminals;
use crate::{ControlError, TERMINAL_CHANNEL};

/// Pause after the system failed to accept a connection.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A bound socket that does not serve clients yet. Dropping it removes the socket file.
#[derive(Debug)]
pub struct ControlServer {
    listener: ControlListener,
}

/// A socket that is ready to serve and owns the subscription to terminal replies.
#[derive(Debug)]
pub struct RunningControl {
    listener: ControlListener,
    shared: Arc<ControlState>,
    replies: Subscription<OutboundMessage>,
    events: broadcast::Receiver<Event>,
}

impl ControlServer {
    /// Listens on `path`, for this user only. The caller owns the home, so a stale socket is
    /// replaced.
    ///
    /// # Errors
    /// Returns [`ControlError::Bind`] or [`ControlError::Unsupported`].
    pub async fn bind(path: &Path) -> Result<Self, ControlError> {
        Ok(Self {
            listener: ControlListener::bind(path).await?,
        })
    }

    /// Subscribes to the replies to terminals. After `closing` is cancelled, messages are refused.
    ///
    /// # Errors
    /// Returns [`ControlError::Bus`] if the subscription fails.
    pub async fn prepare(
        self,
        parts: ControlParts,
        closing: CancellationToken,
    ) -> Result<RunningControl, ControlError> {
        let replies = parts
            .bus
            .outbound(&ChannelName::from(TERMINAL_CHANNEL))
            .await?;
        let events = parts.events.subscribe();
        let shared = Arc::new(ControlState {
            parts,
            terminals: Terminals::default(),
            closing,
        });
        Ok(RunningControl {
            listener: self.listener,
            shared,
            replies,
            events,
        })
    }
}

impl RunningControl {
    /// Serves clients until `end` is cancelled; returns when every connection is closed.
    pub async fn run(self, end: CancellationToken) {
        let Self {
            listener,
            shared,
            replies,
            events,
        } = self;
        let clients = TaskTracker::new();
        let accepting = accept(&listener, &shared, &clients, &end);
        tokio::join!(
            accepting,
            shared
                .terminals
                .run(replies, events, &*shared.parts.unseen, end.clone())
        );
        clients.close();
        clients.wait().await;
    }
}

async fn accept(
    listener: &ControlListener,
    shared: &Arc<ControlState>,
    clients: &TaskTracker,
    end: &CancellationToken,
) {
    let seats = Seats::new(end.clone());
    while let Some(accepted) = end.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok(stream) => {
                let Some(seat) = seats.take().await else {
                    tracing::warn!(
                        "too many clients on the control socket: a new one was disconnected"
                    );
                    continue;
                };
                clients.spawn(PeerConnection::serve(Arc::clone(shared), stream, seat));
            }
            Err(error) => {
                tracing::warn!(%error, "the control socket cannot accept a connection");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            }
        }
    }
}
