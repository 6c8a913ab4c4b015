//! Listens for clients, and starts a task for each connection.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, TaskTracker};
use nanobot_listen::{Listener, Penalties, SeatLimits};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use crate::connection::ConnectionContext;
use crate::token::SHORT_TOKEN;
use crate::{WebSocketChannel, WebSocketConfig};

/// Maximum number of connected clients.
const CLIENTS: usize = 256;
/// Limits of connections that have shown no token yet.
pub(crate) const GUESTS: SeatLimits = SeatLimits {
    total: 32,
    per_address: 8,
};
/// Interval of signs of life: a client may not connect for days.
const ALIVE_EVERY: Duration = Duration::from_secs(30);
/// Pause after a failed accept (too many open files, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

impl WebSocketChannel {
    /// Starts to listen.
    pub(crate) async fn listen(&self) -> Result<TcpListener, ChannelError> {
        let WebSocketConfig { host, port, .. } = &*self.config;
        let failed =
            |error| ChannelError::Unavailable(format!("cannot listen on {host}:{port}: {error}"));
        let listener = TcpListener::bind((host.as_str(), *port))
            .await
            .map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        tracing::info!(channel = %self.name, %address, "listening for WebSocket clients");
        if self.config.token.is_short() {
            let (channel, length) = (&self.name, SHORT_TOKEN);
            tracing::warn!(%channel, "the token is shorter than {length} characters: it can be guessed");
        }
        self.address.send_replace(Some(address));
        Ok(listener)
    }

    /// Accepts clients until the channel is cancelled.
    pub(crate) async fn accept(
        &self,
        listener: &Listener,
        context: &ChannelContext,
        connections: &TaskTracker,
    ) {
        let clients = Arc::new(Semaphore::new(CLIENTS));
        let penalties = Arc::new(Penalties::default());
        let mut alive = tokio::time::interval(ALIVE_EVERY);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        alive.reset();
        context.progress.alive();
        loop {
            let accepted = tokio::select! {
                () = context.cancel.cancelled() => return,
                _ = alive.tick() => {
                    context.progress.alive();
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, seat)) => {
                    let host = self.host(context, &clients, &penalties);
                    connections.spawn(context.tasks.track_future(host.serve(stream, seat)));
                }
                Err(error) => {
                    context
                        .progress
                        .degraded(&format!("cannot take WebSocket clients: {error}"));
                    context
                        .cancel
                        .run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE))
                        .await;
                }
            }
        }
    }

    fn host(
        &self,
        context: &ChannelContext,
        clients: &Arc<Semaphore>,
        penalties: &Arc<Penalties>,
    ) -> ConnectionContext {
        ConnectionContext {
            channel: self.name.clone(),
            config: Arc::clone(&self.config),
            hub: self.hub.clone(),
            access: Arc::clone(&context.access),
            intake: Arc::clone(&context.intake),
            cancel: context.cancel.child_token(),
            clients: Arc::clone(clients),
            penalties: Arc::clone(penalties),
        }
    }
}
