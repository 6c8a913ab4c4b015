//! The receive loop of platforms that push events over a connection.
//!
//! Decision: events are read as they come and handled in the [lane](crate::Lanes) of their chat.
//! Each is confirmed to the connection it came through, after it is stored. The work of a
//! connection that ended goes on with the next one; if the platform repeats an event, the channel
//! recognises it. The pace of connecting is that of [`Reconnect`], with pauses that also grow over
//! connections that open and are of no use.
//!
//! An error ends the run. If the platform repeats unconfirmed events, the work under way is dropped
//! then; if not, it is finished first, for a limited time.

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError, Liveness};
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
/// Time limit of the work under way after an error, if the platform does not repeat events. Enough
/// for a download, or for a short failure of the storage; the channel receives nothing until then,
/// and without a sign of life for much longer, its supervisor drops the work anyway.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);

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

    /// `true` if the platform repeats events that were not confirmed. If it does not, an error ends
    /// [`receive_pushed`] only after the received events are handled, or after 30 s.
    fn repeats_unconfirmed(&self) -> bool {
        true
    }
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

/// An open connection and its number.
struct OpenConnection<P: PushPlatform> {
    number: u64,
    connection: P::Connection,
}

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
    let progress = Arc::new(EndingLiveness::new(&context.progress));
    let context = &ChannelContext {
        progress: Arc::<EndingLiveness>::clone(&progress),
        ..context.clone()
    };
    let mut work = Work::<P>::new(MAX_EVENTS);
    let mut open = None;
    let outcome = receive(platform, &mut open, &mut work, context).await;
    if let Err(error) = &outcome
        && !platform.repeats_unconfirmed()
    {
        progress.end(error);
        finish(platform, open, &mut work, context).await;
    }
    outcome
}

/// Receives until the run ends. After an error, `open` is the connection that is still open.
async fn receive<'a, P: PushPlatform>(
    platform: &'a Arc<P>,
    open: &mut Option<OpenConnection<P>>,
    work: &mut Work<'a, P>,
    context: &'a ChannelContext,
) -> Result<(), ChannelError> {
    let name = &platform.base().name;
    let mut reconnect = Reconnect::new(P::NAME, FIRST_PAUSE, MAX_FAILURES);
    let mut useless = 0;
    let mut is_first = true;
    for number in 0.. {
        if number > 0 {
            platform.renew();
        }
        let end = match run_until(work, platform.connect(context)).await {
            Ok(mut connection) => {
                reconnect.succeeded();
                tracing::info!(channel = %name, "receiving from {}", P::NAME);
                let prepared = platform.connected(&mut connection, is_first, context);
                run_until(work, prepared).await;
                is_first = false;
                let current = open.insert(OpenConnection { number, connection });
                let end = listen(platform, current, work, context).await?;
                *open = None;
                end
            }
            Err(error) => {
                let pause = reconnect.failed(error, context.progress.as_ref())?;
                // Useless connections before it count, too.
                let pause = pause.max(jittered_backoff(FIRST_PAUSE, useless));
                useless += 1;
                run_until(work, tokio::time::sleep(pause)).await;
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
                run_until(work, tokio::time::sleep(pause)).await;
                useless += 1;
            }
        }
    }
    Ok(())
}

/// Handles the events of one connection.
async fn listen<'a, P: PushPlatform>(
    platform: &'a Arc<P>,
    open: &mut OpenConnection<P>,
    work: &mut Work<'a, P>,
    context: &'a ChannelContext,
) -> Result<ListenEnd, ChannelError> {
    let OpenConnection { number, connection } = open;
    let number = *number;
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
                    add(work, platform, event, number, context);
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

/// Adds the work of an event, after all other work of its lane.
fn add<'a, P: PushPlatform>(
    work: &mut Work<'a, P>,
    platform: &'a Arc<P>,
    event: PushedEvent<P>,
    connection: u64,
    context: &'a ChannelContext,
) {
    work.add(platform.lane(&event), async move {
        // While it waits in its lane, it takes the room of the event alone.
        let (receipt, next) = Box::pin(platform.handle(event, context)).await;
        HandledEvent {
            connection,
            receipt,
            next,
        }
    });
}

/// Finishes the work under way, with the events that `open` has already brought, for at most
/// [`FINISH_TIMEOUT`]. Nothing is confirmed.
async fn finish<'a, P: PushPlatform>(
    platform: &'a Arc<P>,
    mut open: Option<OpenConnection<P>>,
    work: &mut Work<'a, P>,
    context: &'a ChannelContext,
) {
    let finished = tokio::time::timeout(FINISH_TIMEOUT, async {
        loop {
            let may_read = open.is_some() && work.len() < MAX_EVENTS;
            tokio::select! {
                // The connection comes first: what it has at hand is received already.
                biased;
                (number, pushed) = next_of(&mut open), if may_read => match pushed {
                    Ok(Pushed::Event(event)) => add(work, platform, event, number, context),
                    Ok(Pushed::Activity | Pushed::Nothing) => {}
                    Err(_) => open = None,
                },
                _ = work.next(), if !work.is_empty() => {}
                () = std::future::ready(()), if work.is_empty() => return,
            }
        }
    });
    if finished.await.is_err() {
        let (channel, events) = (&platform.base().name, work.len());
        tracing::warn!(%channel, events, "received events were not stored in time and are lost");
    }
}

/// Waits for what an open connection brings next; for ever without one.
async fn next_of<P: PushPlatform>(
    open: &mut Option<OpenConnection<P>>,
) -> (u64, Result<Pushed<PushedEvent<P>>, PushEnd>) {
    match open {
        Some(open) => (open.number, open.connection.next().await),
        None => std::future::pending().await,
    }
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

/// The supervisor's [`Liveness`]. After an error, that error stays the reason shown.
struct EndingLiveness {
    supervisor: Arc<dyn Liveness>,
    error: OnceLock<String>,
}

impl EndingLiveness {
    fn new(supervisor: &Arc<dyn Liveness>) -> Self {
        Self {
            supervisor: Arc::clone(supervisor),
            error: OnceLock::new(),
        }
    }

    /// Shows the channel as degraded with the error that ends the run.
    fn end(&self, error: &ChannelError) {
        let error = self.error.get_or_init(|| error.to_string());
        self.supervisor.degraded(error);
    }

    /// Returns the reason to show instead of `why`.
    fn reason<'a>(&'a self, why: &'a str) -> &'a str {
        self.error.get().map_or(why, String::as_str)
    }
}

impl Liveness for EndingLiveness {
    fn alive(&self) {
        match self.error.get() {
            Some(error) => self.supervisor.impaired(error),
            None => self.supervisor.alive(),
        }
    }

    fn degraded(&self, why: &str) {
        self.supervisor.degraded(self.reason(why));
    }

    fn impaired(&self, why: &str) {
        self.supervisor.impaired(self.reason(why));
    }
}
