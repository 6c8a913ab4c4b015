//! Receives: keeps a connection, and acknowledges messages after they are stored.
//!
//! DingTalk sends a message again that is not acknowledged, over the same connection or another
//! one. It is recognised by its id. A message that cannot be stored at the moment is kept and
//! offered again here, so that it does not depend on the number of DingTalk's attempts.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, json};
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::{Lanes, Reconnect, jittered_backoff};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::candidate::message_candidate;
use crate::channel::DingTalk;
use crate::error::required_call_error;
use crate::socket::{ReceivedMessage, Socket, SocketEvent};
use crate::wire::{BotMessage, MessageOrigin};

/// Failed connections in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A connection that lasted this long counts as good, even without a message.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Messages after which reading pauses.
const MAX_JOBS: usize = 256;

type MessageLanes<'a> = Lanes<'a, String, HandledMessage>;

/// The outcome of a message.
#[derive(Debug)]
struct HandledMessage {
    /// The connection it came through, and the only one that takes its acknowledgement.
    connection: u64,
    id: String,
    next: Next,
}

/// The end of a connection.
#[derive(Debug)]
enum ConnectionEnd {
    /// The run ends.
    Stop,
    /// It brought a message, or lasted.
    Used(String),
    /// It was of no use.
    Useless(String),
}

impl DingTalk {
    /// Receives until the run ends.
    pub(crate) async fn receive_messages(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let mut work = MessageLanes::new(MAX_JOBS);
        let mut reconnect = Reconnect::new("DingTalk", FIRST_PAUSE, MAX_FAILURES);
        let mut useless = 0;
        for connection in 0.. {
            let end = match run_until(&mut work, Socket::open(&self.api)).await {
                Ok(socket) => {
                    reconnect.succeeded();
                    tracing::info!(channel = %self.base.name, "receiving from DingTalk");
                    self.listen(socket, connection, &mut work, context).await?
                }
                Err(error) => {
                    let error = required_call_error(error);
                    let pause = reconnect.failed(error, context.progress.as_ref())?;
                    // Useless connections before it count, too.
                    let pause = pause.max(jittered_backoff(FIRST_PAUSE, useless));
                    useless += 1;
                    run_until(&mut work, tokio::time::sleep(pause)).await;
                    continue;
                }
            };
            match end {
                ConnectionEnd::Stop => break,
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
        Ok(())
    }

    /// Handles the messages of one connection.
    async fn listen<'a>(
        &'a self,
        mut socket: Socket,
        connection: u64,
        work: &mut MessageLanes<'a>,
        context: &'a ChannelContext,
    ) -> Result<ConnectionEnd, ChannelError> {
        let began = Instant::now();
        let mut refused = self.refused.subscribe();
        let mut has_message = false;
        let why = loop {
            let is_free = work.len() < MAX_JOBS;
            tokio::select! {
                handled = work.next() => {
                    if handled.next == Next::Stop {
                        return Ok(ConnectionEnd::Stop);
                    }
                    if handled.connection == connection
                        && let Err(why) = socket.acknowledge(&handled.id).await
                    {
                        break why;
                    }
                },
                why = refusal(&mut refused) => return Err(ChannelError::Auth(why)),
                event = socket.next(), if is_free => match event {
                    Err(why) => break why,
                    Ok(SocketEvent::Nothing) => {}
                    Ok(SocketEvent::Activity) => context.progress.alive(),
                    Ok(SocketEvent::Message(message)) => {
                        context.progress.alive();
                        has_message = true;
                        self.schedule(message, connection, work, context);
                    }
                },
            }
        };
        let why = format!("the connection to DingTalk ended: {why}");
        Ok(if has_message || began.elapsed() >= STABLE_AFTER {
            ConnectionEnd::Used(why)
        } else {
            ConnectionEnd::Useless(why)
        })
    }

    /// Adds a message to the lane of its chat.
    fn schedule<'a>(
        &'a self,
        message: ReceivedMessage,
        connection: u64,
        work: &mut MessageLanes<'a>,
        context: &'a ChannelContext,
    ) {
        let ReceivedMessage { id, payload } = message;
        let origin = MessageOrigin::peek(&payload);
        work.add(origin.chat, async move {
            let next = self.handle_message(&origin.key, &payload, context).await;
            HandledMessage {
                connection,
                id,
                next,
            }
        });
    }

    /// Handles a message, which is parsed after its attempt was noted.
    async fn handle_message(&self, key: &str, payload: &str, context: &ChannelContext) -> Next {
        let quarantine = &self.base.quarantine;
        let progress = context.progress.as_ref();
        let admitted = quarantine.admit(key, payload.as_bytes(), progress).await;
        let Some(handling) = admitted else {
            return Next::Confirm;
        };
        let message: Result<BotMessage, _> = json::from_str(payload);
        let candidate = match &message {
            Ok(message) => message_candidate(self.base.name.as_str(), &self.config, message),
            Err(error) => {
                tracing::warn!(channel = %self.base.name, %error, "a message could not be read and was passed over");
                None
            }
        };
        match candidate {
            Some(candidate) => self.handle_candidate(candidate, handling, context).await,
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }
}

/// Waits for `other` while work continues.
async fn run_until<R>(work: &mut MessageLanes<'_>, other: impl Future<Output = R>) -> R {
    let mut other = std::pin::pin!(other);
    loop {
        tokio::select! {
            result = &mut other => return result,
            // Its connection is closed: DingTalk repeats it, and it is recognised then.
            _ = work.next() => {}
        }
    }
}

/// Waits until DingTalk rejects the credentials of a send. Returns the reason.
async fn refusal(refused: &mut watch::Receiver<Option<String>>) -> String {
    let why = refused.wait_for(Option::is_some).await;
    let why = why.map(|why| why.clone().unwrap_or_default());
    match why {
        Ok(why) => why,
        Err(_) => std::future::pending().await,
    }
}
