//! The receive loop of platforms that push events over a connection.
//!
//! Decision: events are read as they come and handled in the [lane](crate::Lanes) of their chat.
//! Each is confirmed to the connection it came through, after it is stored. The work of a
//! connection that ended goes on with the next one; if the platform repeats an event, the channel
//! recognises it. The pace of connecting is that of [`Reconnect`], with pauses that also grow over
//! connections that open and are of no use.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use tokio::time::Instant;

use crate::intake::Next;
use crate::{Lanes, Platform, Reconnect, Rejection, jittered_backoff};

/// Failed connections in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// A connection that lasted this long counts as good, even without an event.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Events after which reading pauses.
const MAX_EVENTS: usize = 256;

/// Code of a platform that pushes.
pub trait PushPlatform: Platform {
    /// The name of the platform for people (`DingTalk`).
    const NAME: &'static str;
    /// A connection that brings events.
    type Connection: PushConnection;

    /// Opens a connection.
    ///
    /// # Errors
    /// As [`Channel::run`](nanobot_channel::Channel::run): [`ChannelError::Unavailable`] and short
    /// rate limits are followed by another attempt.
    fn connect(
        self: &Arc<Self>,
        context: &ChannelContext,
    ) -> impl Future<Output = Result<Self::Connection, ChannelError>> + Send;

    /// Drops idle connections for calls. Called before each [`Self::connect`] but the first: what
    /// ended a connection may have ended them, too, and a call over such a one fails.
    fn renew(&self) {}

    /// Prepares what needs a working connection. Called after each [`Self::connect`], before the
    /// first event is read.
    fn connected(
        self: &Arc<Self>,
        _connection: &mut Self::Connection,
        _is_first: bool,
        _context: &ChannelContext,
    ) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Returns the lane of an event. Events of one lane are handled in order.
    fn lane(&self, event: &PushedEvent<Self>) -> String;

    /// Handles an event until it is stored or passed over.
    fn handle(
        &self,
        event: PushedEvent<Self>,
        context: &ChannelContext,
    ) -> impl Future<Output = (PushReceipt<Self>, Next)> + Send;

    /// Returns the state of the credentials.
    fn rejection(&self) -> &Rejection;
}

/// An event of the platform `P`.
pub type PushedEvent<P> = <<P as PushPlatform>::Connection as PushConnection>::Event;
/// The name of an event of the platform `P`, to confirm it.
pub type PushReceipt<P> = <<P as PushPlatform>::Connection as PushConnection>::Receipt;

/// A connection of a platform that pushes. Dropping it closes it.
pub trait PushConnection: Send {
    /// An event that has to be handled.
    type Event: Send;
    /// What the connection needs to confirm an event.
    type Receipt: Send;

    /// Waits for what comes next, and answers what is about the connection. Cancel safe, except for
    /// an answer that is under way.
    ///
    /// # Errors
    /// The end of the connection.
    fn next(&mut self) -> impl Future<Output = Result<Pushed<Self::Event>, PushEnd>> + Send;

    /// Confirms events of this connection, which are stored now.
    ///
    /// # Errors
    /// The end of the connection.
    fn confirm(
        &mut self,
        receipts: Vec<Self::Receipt>,
    ) -> impl Future<Output = Result<(), PushEnd>> + Send;
}

/// The next news of a connection.
#[derive(Debug)]
pub enum Pushed<E> {
    /// An event that has to be handled.
    Event(E),
    /// A sign of life.
    Activity,
    /// Nothing that counts.
    Nothing,
}

/// The end of a connection.
#[derive(Debug)]
pub enum PushEnd {
    /// It is over, for this reason. Another one is opened.
    Lost(String),
    /// Another connection would not help.
    Final(ChannelError),
}

impl From<String> for PushEnd {
    fn from(why: String) -> Self {
        Self::Lost(why)
    }
}

/// The outcome of an event.
struct HandledEvent<P: PushPlatform> {
    /// The connection it came through, and the only one that takes its confirmation.
    connection: u64,
    receipt: PushReceipt<P>,
    next: Next,
}

type Work<'a, P> = Lanes<'a, String, HandledEvent<P>>;

/// Why [`listen`] returned.
enum ListenEnd {
    /// The run ends.
    Stop,
    /// The connection brought an event, or lasted.
    Used(String),
    /// It was of no use.
    Useless(String),
}

/// Receives until the run ends.
///
/// # Errors
/// The reason why the channel cannot receive.
pub async fn receive_pushed<P: PushPlatform>(
    platform: &Arc<P>,
    context: &ChannelContext,
) -> Result<(), ChannelError> {
    let name = &platform.base().name;
    let mut work = Work::<P>::new(MAX_EVENTS);
    let mut reconnect = Reconnect::new(P::NAME, FIRST_PAUSE, MAX_FAILURES);
    let mut useless = 0;
    let mut is_first = true;
    for number in 0.. {
        if number > 0 {
            platform.renew();
        }
        let end = match run_until(&mut work, platform.connect(context)).await {
            Ok(mut connection) => {
                reconnect.succeeded();
                tracing::info!(channel = %name, "receiving from {}", P::NAME);
                let prepared = platform.connected(&mut connection, is_first, context);
                run_until(&mut work, prepared).await;
                is_first = false;
                listen(platform, connection, number, &mut work, context).await?
            }
            Err(error) => {
                let pause = reconnect.failed(error, context.progress.as_ref())?;
                // Useless connections before it count, too.
                let pause = pause.max(jittered_backoff(FIRST_PAUSE, useless));
                useless += 1;
                run_until(&mut work, tokio::time::sleep(pause)).await;
                continue;
            }
        };
        match end {
            ListenEnd::Stop => break,
            ListenEnd::Used(why) => {
                useless = 0;
                tracing::debug!(channel = %name, why, "a new connection is opened");
            }
            ListenEnd::Useless(why) => {
                context.progress.degraded(&why);
                let pause = jittered_backoff(FIRST_PAUSE, useless);
                run_until(&mut work, tokio::time::sleep(pause)).await;
                useless += 1;
            }
        }
    }
    Ok(())
}

/// Handles the events of one connection.
async fn listen<'a, P: PushPlatform>(
    platform: &'a Arc<P>,
    mut connection: P::Connection,
    number: u64,
    work: &mut Work<'a, P>,
    context: &'a ChannelContext,
) -> Result<ListenEnd, ChannelError> {
    let began = Instant::now();
    let mut has_event = false;
    let end = loop {
        let is_free = work.len() < MAX_EVENTS;
        tokio::select! {
            handled = work.next_all() => {
                let is_last = handled.iter().any(|event| event.next == Next::Stop);
                let stored = handled.into_iter().filter(|event| event.next == Next::Confirm);
                let here = stored.filter(|event| event.connection == number);
                let receipts: Vec<_> = here.map(|event| event.receipt).collect();
                if !receipts.is_empty()
                    && let Err(end) = connection.confirm(receipts).await
                {
                    break end;
                }
                if is_last {
                    return Ok(ListenEnd::Stop);
                }
            },
            rejected = platform.rejection().wait() => return Err(rejected),
            pushed = connection.next(), if is_free => match pushed {
                Err(end) => break end,
                Ok(Pushed::Nothing) => {}
                Ok(Pushed::Activity) => context.progress.alive(),
                Ok(Pushed::Event(event)) => {
                    context.progress.alive();
                    has_event = true;
                    work.add(platform.lane(&event), async move {
                        // While it waits in its lane, it takes the room of the event alone.
                        let (receipt, next) = Box::pin(platform.handle(event, context)).await;
                        HandledEvent { connection: number, receipt, next }
                    });
                }
            },
        }
    };
    let why = match end {
        PushEnd::Lost(why) => format!("the connection to {} ended: {why}", P::NAME),
        PushEnd::Final(error) => return Err(error),
    };
    Ok(if has_event || began.elapsed() >= STABLE_AFTER {
        ListenEnd::Used(why)
    } else {
        ListenEnd::Useless(why)
    })
}

/// Waits for `other` while work continues. Its connections are closed: nothing is confirmed.
async fn run_until<P: PushPlatform, R>(
    work: &mut Work<'_, P>,
    other: impl Future<Output = R>,
) -> R {
    let mut other = std::pin::pin!(other);
    loop {
        tokio::select! {
            result = &mut other => return result,
            _ = work.next() => {}
        }
    }
}
