//! Handles events in lanes: in order within a channel, several channels at once.
//!
//! A slow download, or a fetch of missed messages, delays its own channel only. A thread is a
//! channel of its own. An event is marked as handled in the [cursor](crate::cursor) when it is
//! stored or passed over; the end of the run drops the others, and Discord repeats them.

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::intake::{self, Next};
use nanobot_channel_kit::{Handling, Lanes};
use serenity::model::id::ChannelId;
use tokio::sync::mpsc;

use crate::catch_up::{CatchUp, Fetch, FetchReport};
use crate::channel::Discord;
use crate::socket::{EventContent, GatewayEvent, Received};
use crate::wire::RawMessage;

/// Events and fetches under way or waiting, after which no more are taken.
const MAX_JOBS: usize = 256;

/// One lane per channel, and one for events that name none.
type EventLanes<'a> = Lanes<'a, Option<ChannelId>, JobEnd>;

/// The end of an event or of a fetch.
#[derive(Debug)]
struct JobEnd {
    next: Next,
    /// `None` for an event.
    report: Option<FetchReport>,
}

impl Discord {
    /// Handles events, after the missed ones of their channels. Returns if the run ends.
    pub(crate) async fn handle_events<'a>(
        &'a self,
        mut received: mpsc::Receiver<Received>,
        context: &'a ChannelContext,
    ) {
        let mut lanes = EventLanes::new(MAX_JOBS);
        let mut catch_up = CatchUp::new(self);
        loop {
            let is_free = lanes.len() < MAX_JOBS;
            tokio::select! {
                JobEnd { next, report } = lanes.next() => {
                    if next == Next::Stop {
                        return;
                    }
                    if let Some(report) = report {
                        catch_up.record(report);
                    }
                }
                fetch = catch_up.next(), if is_free => {
                    self.add_fetch(fetch, &mut lanes, context);
                }
                received = received.recv(), if is_free => match received {
                    // Earlier events are in their lanes already, and later ones are not.
                    Some(Received::SessionStart) => catch_up.restart(),
                    Some(Received::Event(event)) => {
                        self.add_event(event, &mut catch_up, &mut lanes, context);
                    }
                    None => return,
                },
            }
        }
    }

    fn add_event<'a>(
        &'a self,
        event: GatewayEvent,
        catch_up: &mut CatchUp<'_>,
        lanes: &mut EventLanes<'a>,
        context: &'a ChannelContext,
    ) {
        let place = event.content.channel();
        if let Some(fetch) = place.and_then(|place| catch_up.take(place)) {
            self.add_fetch(fetch, lanes, context);
        }
        lanes.add(place, async move {
            // While it waits in its lane, it takes the room of the event alone.
            let next = Box::pin(self.handle_event(event, context)).await;
            JobEnd { next, report: None }
        });
    }

    fn add_fetch<'a>(
        &'a self,
        mut fetch: Fetch,
        lanes: &mut EventLanes<'a>,
        context: &'a ChannelContext,
    ) {
        let lane = Some(fetch.place);
        if lanes.contains(&lane) {
            fetch.yield_turn();
        }
        lanes.add(lane, async move {
            let (next, report) = self.catch_up(fetch, context).await;
            let report = Some(report);
            JobEnd { next, report }
        });
    }

    async fn handle_event(&self, event: GatewayEvent, context: &ChannelContext) -> Next {
        let GatewayEvent {
            epoch,
            number,
            content,
        } = event;
        let next = match content {
            EventContent::Message(message) => self.handle_message(&message, context).await,
            EventContent::Interaction(interaction) => {
                match self.interaction_candidate(&interaction).await {
                    Some(candidate) => intake::accept(self, &candidate, None, context).await,
                    None => Next::Confirm,
                }
            }
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
