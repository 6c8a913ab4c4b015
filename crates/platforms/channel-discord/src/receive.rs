//! Receives: keeps a connection to the gateway, and handles events in order.
//!
//! Reading and handling are concurrent, with a bounded queue between them: heartbeats continue
//! while a file is fetched or a message waits to be stored. A full queue pauses the reading.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::intake::{self, Next};
use nanobot_channel_kit::{Handling, Reconnect, chance, jittered_backoff};
use tokio::sync::mpsc;

use crate::catch_up::CatchUp;
use crate::channel::Discord;
use crate::interaction::channel_of;
use crate::socket::{ConnectionEnd, EventContent, GatewayEvent, Socket};
use crate::wire::RawMessage;

/// Capacity of the queue of events.
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
        queue: &mpsc::Sender<GatewayEvent>,
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
        queue: &mpsc::Sender<GatewayEvent>,
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

    /// Handles events in order, after the missed ones of their channels. Returns if the run ends.
    async fn handle_events(
        &self,
        mut events: mpsc::Receiver<GatewayEvent>,
        context: &ChannelContext,
    ) {
        let mut catch_up = CatchUp::new(self, context);
        loop {
            let next = tokio::select! {
                biased;
                answer = catch_up.next() => catch_up.handle_fetched(answer).await,
                event = events.recv() => match event {
                    Some(event) => self.handle_event(event, &mut catch_up, context).await,
                    None => return,
                },
            };
            if next == Next::Stop {
                return;
            }
        }
    }

    async fn handle_event(
        &self,
        event: GatewayEvent,
        catch_up: &mut CatchUp<'_>,
        context: &ChannelContext,
    ) -> Next {
        let GatewayEvent {
            epoch,
            number,
            content,
        } = event;
        let place = match &content {
            Some(EventContent::Message(message)) => message.channel,
            Some(EventContent::Interaction(interaction)) => channel_of(interaction),
            Some(EventContent::SessionStart) | None => None,
        };
        if let Some(place) = place
            && catch_up.ensure_caught_up(place).await == Next::Stop
        {
            return Next::Stop;
        }
        let next = match content {
            Some(EventContent::Message(message)) => self.handle_message(&message, context).await,
            Some(EventContent::Interaction(interaction)) => {
                match self.interaction_candidate(&interaction).await {
                    Some(candidate) => intake::accept(self, &candidate, None, context).await,
                    None => Next::Confirm,
                }
            }
            Some(EventContent::SessionStart) => {
                catch_up.restart();
                Next::Confirm
            }
            None => Next::Confirm,
        };
        if next == Next::Confirm {
            self.with_cursor(|cursor| cursor.mark_handled(epoch, number));
        }
        next
    }

    /// Handles a message, unless it is known from the gateway or from fetching. Its attempt is
    /// noted before it is parsed.
    pub(crate) async fn handle_message(&self, raw: &RawMessage, context: &ChannelContext) -> Next {
        if self.recent().contains(&raw.id) {
            return Next::Confirm;
        }
        let key = raw.id.to_string();
        let admitted = self
            .base
            .quarantine
            .admit(&key, raw.text.as_bytes(), context.progress.as_ref())
            .await;
        let next = match admitted {
            Some(handling) => self.parse_and_accept(raw, handling, context).await,
            None => Next::Confirm,
        };
        if let (Next::Confirm, Some(channel)) = (next, raw.channel) {
            self.recent().insert(raw.id);
            self.marks.mark_handled(&channel, &raw.id.get());
        }
        next
    }

    async fn parse_and_accept(
        &self,
        raw: &RawMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let candidate = match raw.parse() {
            Ok(message) => self.message_candidate(&message, context).await,
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, "a message could not be read and was skipped");
                None
            }
        };
        match candidate {
            Some(candidate) => intake::accept(self, &candidate, Some(handling), context).await,
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }
}
