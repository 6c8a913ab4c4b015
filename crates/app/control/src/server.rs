//! The gateway's side.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{Bus, EventFeed, Ledger, Subscription};
use nanobot_types::{ChannelName, Event, OutboundMessage};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::Connection;
use crate::seats::Seats;
use crate::socket::Listener;
use crate::terminals::Terminals;
use crate::{About, Channels, ControlError, Cuts, TERMINAL_CHANNEL};

/// How long to rest when the system gives no connection.
const REST: Duration = Duration::from_millis(200);

/// What clients are served with.
#[derive(Clone, Debug)]
pub struct ControlParts {
    /// Where what is said goes, and where replies come from.
    pub bus: Arc<dyn Bus>,
    /// What `inbox` requests see.
    pub ledger: Arc<dyn Ledger>,
    /// Who knows how channels are.
    pub channels: Arc<dyn Channels>,
    /// Who cuts conversations.
    pub cuts: Arc<dyn Cuts>,
    /// Tells when turns end.
    pub events: EventFeed,
    /// How it is ended.
    pub ending: Ending,
    /// Who this is.
    pub about: About,
}

/// How a gateway is told to end.
#[derive(Clone, Debug)]
pub struct Ending {
    /// For good.
    pub stop: CancellationToken,
    /// To begin again.
    pub restart: CancellationToken,
}

/// A socket that nobody is served on yet. The file goes when this goes.
#[derive(Debug)]
pub struct ControlServer {
    listener: Listener,
}

/// A socket that is ready to serve: replies to terminals are its to deliver.
#[derive(Debug)]
pub struct RunningControl {
    listener: Listener,
    shared: Arc<Shared>,
    replies: Subscription<OutboundMessage>,
    events: broadcast::Receiver<Event>,
}

/// What connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parts: ControlParts,
    pub(crate) terminals: Terminals,
    /// Fires when nothing new is taken.
    pub(crate) closing: CancellationToken,
}

impl ControlServer {
    /// Listens on `path`, for this user only. The caller owns the home, so a socket that was left
    /// behind there is replaced.
    ///
    /// # Errors
    /// [`ControlError::Bind`], [`ControlError::Unsupported`].
    pub async fn bind(path: &Path) -> Result<Self, ControlError> {
        Ok(Self {
            listener: Listener::bind(path).await?,
        })
    }

    /// Takes the queue of replies to terminals. Nothing said is taken after `closing` fires.
    ///
    /// # Errors
    /// [`ControlError::Bus`].
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
        let shared = Arc::new(Shared {
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
    /// Serves clients until `end` fires; returns when every connection is closed.
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
            shared.terminals.run(replies, events, end.clone())
        );
        clients.close();
        clients.wait().await;
    }
}

async fn accept(
    listener: &Listener,
    shared: &Arc<Shared>,
    clients: &TaskTracker,
    end: &CancellationToken,
) {
    let seats = Seats::new(end.clone());
    while let Some(accepted) = end.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok(stream) => {
                let Some(seat) = seats.take().await else {
                    tracing::warn!("too many clients on the gateway's socket: one is hung up on");
                    continue;
                };
                clients.spawn(Connection::serve(Arc::clone(shared), stream, seat));
            }
            Err(error) => {
                tracing::warn!(%error, "the gateway's socket gives no connection");
                tokio::time::sleep(REST).await;
            }
        }
    }
}
