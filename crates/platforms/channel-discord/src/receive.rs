//! Receives: keeps a connection to the gateway, and resumes its session.
//!
//! Reading and [handling](crate::lanes) are concurrent, with a bounded queue between them:
//! heartbeats continue while a file is fetched or a message waits to be stored. A full queue pauses
//! the reading.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::{Reconnect, chance, jittered_backoff};
use tokio::sync::mpsc;

use crate::channel::Discord;
use crate::socket::{ConnectionEnd, Received, Socket};

/// Capacity of the queue of events that were read and have no lane yet.
const QUEUE_CAPACITY: usize = 256;
/// Failed connections in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 5;

impl Discord {
    /// Receives until the run ends.
    pub(crate) async fn receive_events(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        self.with_cursor(|cursor| cursor.rewind());
        self.marks.open(context.notes.as_ref()).await;
        let (queue, events) = mpsc::channel(QUEUE_CAPACITY);
        tokio::select! {
            error = self.keep_connected(context, &queue) => Err(error),
            () = self.handle_events(events, context) => Ok(()),
            () = self.marks.write_periodically(context.notes.as_ref()) => Ok(()),
        }
    }

    /// Reconnects until that does not help.
    async fn keep_connected(
        self: &Arc<Self>,
        context: &ChannelContext,
        queue: &mpsc::Sender<Received>,
    ) -> ChannelError {
        let first = Duration::from_secs_f64(self.config.reconnect_pause);
        let mut reconnect = Reconnect::new("Discord", first, MAX_FAILURES);
        loop {
            let (end, progress) = self.connect(context, queue).await;
            let (why, shortest) = match end {
                ConnectionEnd::Lost(why) => (why, Duration::ZERO),
                ConnectionEnd::SessionOver(why) => {
                    tracing::info!(channel = %self.base.name, why, "messages until the next session will be fetched");
                    self.with_cursor(|cursor| cursor.forget());
                    // Discord requires one to five seconds before a new session.
                    (
                        why,
                        Duration::from_secs(1) + Duration::from_secs(4).mul_f64(chance()),
                    )
                }
                ConnectionEnd::Down(error) => return error,
            };
            let pause = if progress > 0 {
                reconnect.succeeded();
                self.pause(0)
            } else {
                let error = ChannelError::Unavailable(why.clone());
                match reconnect.failed(error, context.progress.as_ref()) {
                    Ok(pause) => pause,
                    Err(error) => return error,
                }
            };
            let pause = pause.max(shortest);
            tracing::info!(channel = %self.base.name, why, pause_ms = pause.as_millis(), "connecting to Discord again");
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the jittered pause after this number of failures in a row; a short one after none.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let first = Duration::from_secs_f64(self.config.reconnect_pause);
        match failures.checked_sub(1) {
            Some(doublings) => jittered_backoff(first, doublings),
            None => jittered_backoff(first / 5, 0),
        }
    }

    /// Keeps one connection. Returns its end and its progress.
    async fn connect(
        self: &Arc<Self>,
        context: &ChannelContext,
        queue: &mpsc::Sender<Received>,
    ) -> (ConnectionEnd, u64) {
        let mut connection = match Socket::open(self, context).await {
            Ok(connection) => connection,
            Err(end) => return (end, 0),
        };
        let end = connection.read(queue).await;
        let progress = connection.progress;
        connection.close().await;
        (end, progress)
    }
}
