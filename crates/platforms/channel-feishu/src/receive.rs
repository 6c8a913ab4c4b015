//! Receives: keeps a connection, and acknowledges events after they are stored.
//!
//! Feishu expects an acknowledgement within three seconds, and sends an event without one again,
//! after seconds at first and after hours at last. An event that is stored in time is acknowledged;
//! a later one comes again, and is recognised then. A message that cannot be stored now is kept and
//! offered again here, so that it does not depend on the number of Feishu's attempts.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, json};
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::{Lanes, Platform as _, Reconnect, jittered_backoff};
use reqwest::Method;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::{Body, Endpoint};
use crate::candidate::{CandidateMessage, Identity, message_candidate};
use crate::channel::Feishu;
use crate::error::{CallError, required_call_error};
use crate::frame::Frame;
use crate::socket::{ReceivedEvent, Socket, SocketEvent};
use crate::wire::{CARD_EVENT, Event, EventOrigin, MESSAGE_EVENT};

/// Time limit of an acknowledgement, before Feishu's timeout.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_millis(2500);
/// Failed connections in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A connection that lasted this long counts as good, even without an event.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Events after which reading pauses.
const MAX_JOBS: usize = 256;

type EventLanes<'a> = Lanes<'a, String, HandledEvent>;

/// The outcome of an event.
#[derive(Debug)]
struct HandledEvent {
    /// The connection it came through.
    connection: u64,
    /// The frame to acknowledge.
    frame: Frame,
    received: Instant,
    next: Next,
}

/// The end of a connection.
#[derive(Debug)]
enum ConnectionEnd {
    /// The run ends.
    Stop,
    /// It brought an event, or lasted.
    Used(String),
    /// It was of no use.
    Useless(String),
}

impl Feishu {
    /// Receives until the run ends.
    pub(crate) async fn receive_events(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let mut work = EventLanes::new(MAX_JOBS);
        let (mut connection, mut is_recovered) = (0, false);
        let mut reconnect = Reconnect::new("Feishu", FIRST_PAUSE, MAX_FAILURES);
        let mut useless = 0;
        loop {
            connection += 1;
            let end = match self.connect(&mut work).await {
                Ok((me, socket)) => {
                    reconnect.succeeded();
                    tracing::info!(channel = %self.base.name, bot = me.name, "receiving from Feishu");
                    if !std::mem::replace(&mut is_recovered, true) {
                        self.recover_drafts(&me.bot, context).await;
                    }
                    self.listen(&me, socket, connection, &mut work, context)
                        .await?
                }
                Err(error) => {
                    let pause =
                        reconnect.failed(required_call_error(error), context.progress.as_ref())?;
                    // Useless connections before it count, too.
                    let pause = pause.max(jittered_backoff(FIRST_PAUSE, useless));
                    useless += 1;
                    run_until(&mut work, tokio::time::sleep(pause)).await;
                    continue;
                }
            };
            match end {
                ConnectionEnd::Stop => return Ok(()),
                ConnectionEnd::Used(why) => {
                    useless = 0;
                    tracing::debug!(channel = %self.base.name, why, "a new connection is opened");
                }
                ConnectionEnd::Useless(why) => {
                    context.progress.degraded(&why);
                    let pause = jittered_backoff(FIRST_PAUSE, useless);
                    run_until(&mut work, tokio::time::sleep(pause)).await;
                    useless += 1;
                }
            }
        }
    }

    /// Asks for the bot's identity, each time because secrets can be reset, and opens a connection.
    async fn connect(&self, work: &mut EventLanes<'_>) -> Result<(Identity, Socket), CallError> {
        let opened = run_until(work, async {
            let me = self.identify().await?;
            Ok((me, Socket::open(&self.api).await?))
        });
        opened.await
    }

    /// Asks Feishu for the bot's identity.
    pub(crate) async fn identify(&self) -> Result<Identity, CallError> {
        #[derive(Deserialize)]
        struct Answer {
            bot: Bot,
        }
        #[derive(Deserialize)]
        struct Bot {
            open_id: String,
            #[serde(default)]
            app_name: String,
        }
        let endpoint = Endpoint::new(Method::GET, ["bot", "v3", "info"]);
        let Answer { bot } = self.api.whole(&endpoint, Body::Empty).await?;
        Ok(Identity {
            bot: bot.open_id,
            name: bot.app_name,
        })
    }

    /// Handles the frames of one connection.
    async fn listen<'a>(
        &'a self,
        me: &Identity,
        mut socket: Socket,
        connection: u64,
        work: &mut EventLanes<'a>,
        context: &'a ChannelContext,
    ) -> Result<ConnectionEnd, ChannelError> {
        let began = Instant::now();
        let mut refused = self.refused.subscribe();
        let mut has_event = false;
        let why = loop {
            let is_free = work.len() < MAX_JOBS;
            tokio::select! {
                ended = work.next() => {
                    if ended.next == Next::Stop {
                        return Ok(ConnectionEnd::Stop);
                    }
                    let took = ended.received.elapsed();
                    if ended.connection != connection || took >= ACKNOWLEDGE_TIMEOUT {
                        tracing::debug!(channel = %self.base.name, "it is too late to acknowledge an event");
                    } else if let Err(why) = socket.acknowledge(ended.frame, took).await {
                        break why;
                    }
                },
                why = refusal(&mut refused) => return Err(ChannelError::Auth(why)),
                event = socket.next(), if is_free => match event {
                    Err(why) => break why,
                    Ok(SocketEvent::Nothing) => {}
                    Ok(SocketEvent::Activity) => context.progress.alive(),
                    Ok(SocketEvent::Event(event)) => {
                        context.progress.alive();
                        has_event = true;
                        self.schedule(me, event, connection, work, context);
                    }
                },
            }
        };
        let why = format!("the connection to Feishu ended: {why}");
        Ok(if has_event || began.elapsed() >= STABLE_AFTER {
            ConnectionEnd::Used(why)
        } else {
            ConnectionEnd::Useless(why)
        })
    }

    /// Adds an event to the lane of its chat.
    fn schedule<'a>(
        &'a self,
        me: &Identity,
        event: ReceivedEvent,
        connection: u64,
        work: &mut EventLanes<'a>,
        context: &'a ChannelContext,
    ) {
        let ReceivedEvent { frame, payload } = event;
        let origin = EventOrigin::peek(&payload);
        let (me, received) = (me.clone(), Instant::now());
        work.add(origin.chat.clone(), async move {
            let next = self.handle_event(&me, origin, &payload, context).await;
            HandledEvent {
                connection,
                frame,
                received,
                next,
            }
        });
    }

    /// Handles an event, which is parsed after its attempt was noted.
    async fn handle_event(
        &self,
        me: &Identity,
        origin: EventOrigin,
        payload: &[u8],
        context: &ChannelContext,
    ) -> Next {
        if ![MESSAGE_EVENT, CARD_EVENT].contains(&origin.kind.as_str()) {
            tracing::debug!(channel = %self.base.name, kind = origin.kind, "an event was passed over");
            return Next::Confirm;
        }
        let progress = context.progress.as_ref();
        let quarantine = &self.base.quarantine;
        let Some(handling) = quarantine.admit(&origin.key, payload, progress).await else {
            return Next::Confirm;
        };
        match self.parse_event(me, &origin.kind, payload) {
            Ok(Some(candidate)) => self.handle_candidate(candidate, handling, context).await,
            Ok(None) => {
                handling.end().await;
                Next::Confirm
            }
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, kind = origin.kind, "an event could not be read and was passed over");
                handling.end().await;
                Next::Confirm
            }
        }
    }

    /// Returns the candidate of an event. `None` if there is nothing to do.
    fn parse_event(
        &self,
        me: &Identity,
        kind: &str,
        payload: &[u8],
    ) -> Result<Option<CandidateMessage>, serde_json::Error> {
        let name = self.base.name.as_str();
        if kind == CARD_EVENT {
            let Event { header, event } = json::from_slice(payload)?;
            return Ok(crate::interaction::press_candidate(
                name,
                &self.config,
                header.event_id,
                event,
            ));
        }
        let Event { event, .. } = json::from_slice(payload)?;
        Ok(message_candidate(name, &self.config, me, event))
    }
}

/// Waits for `other` while work continues.
async fn run_until<R>(work: &mut EventLanes<'_>, other: impl Future<Output = R>) -> R {
    let mut other = std::pin::pin!(other);
    loop {
        tokio::select! {
            result = &mut other => return result,
            // Its connection is closed: Feishu repeats it, and it is recognised then.
            _ = work.next() => {}
        }
    }
}

/// Waits until Feishu rejects the credentials of a send. Returns the reason.
async fn refusal(refused: &mut watch::Receiver<Option<String>>) -> String {
    let why = refused
        .wait_for(Option::is_some)
        .await
        .map(|why| why.clone().unwrap_or_default());
    match why {
        Ok(why) => why,
        Err(_) => std::future::pending().await,
    }
}
