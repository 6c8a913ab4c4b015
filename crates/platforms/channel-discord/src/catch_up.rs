//! Catch-up with messages that arrived while there was no session.
//!
//! Discord repeats events for a session that is resumed, and for no other. A fetched message does
//! not name its server, which the mark of its channel adds; apart from that it takes the same path
//! as a live one.
//!
//! Decision: a channel is fetched in its [lane](crate::lanes), after earlier events there and
//! before later ones, so that an event waits for the missed messages of its own channel and for no
//! other. Rounds fetch the channels that lag one after the other. A channel with an event is
//! fetched before its turn, at most eight of these at a time, because requests beyond Discord's
//! limits hold up replies, too. After a failed request, the channel is left to the next round, and
//! its events do not wait for that; the same applies to all waiting channels if the failure does
//! not concern the channel alone.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::intake::Next;
use serenity::model::id::ChannelId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::channel::Discord;
use crate::error::{CallError, Refusal};
use crate::history::MissedInChannel;
use crate::wire::RawMessage;

/// Number of channels that are fetched before their turn at a time.
const MAX_URGENT: usize = 8;

/// A channel to fetch in its lane.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) place: ChannelId,
    round: u64,
    /// Held until the answer is there. `None` before the turn of the channel.
    turn: Option<OwnedSemaphorePermit>,
    /// Closed when the round has failed for all channels.
    urgent: Arc<Semaphore>,
}

impl Fetch {
    /// Lets another channel have the turn, because earlier work of this one is under way.
    pub(crate) fn yield_turn(&mut self) {
        self.turn = None;
    }
}

/// The outcome of a fetch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FetchReport {
    round: u64,
    /// Number of fetched messages.
    messages: usize,
    /// `true` if the channel had too many.
    is_cut: bool,
    failure: Option<FetchFailure>,
}

#[derive(Clone, Copy, Debug)]
struct FetchFailure {
    /// The pause that Discord asked for.
    pause: Duration,
    /// `true` if other channels would fail, too.
    is_general: bool,
}

/// The rounds in which channels that lag are fetched.
#[derive(Debug)]
pub(crate) struct CatchUp<'a> {
    channel: &'a Discord,
    /// The number of the round. Reports about earlier rounds do not count.
    number: u64,
    round: Round,
    /// The time of the next round, if one is due.
    next_round: Option<Instant>,
    /// Number of rounds in a row with a failed request.
    failures: u32,
}

/// A round.
#[derive(Debug)]
struct Round {
    /// Channels still to be fetched, the next one last.
    pending: Vec<ChannelId>,
    /// Number of fetches without a report.
    under_way: usize,
    has_failed: bool,
    /// The longest pause that Discord asked for.
    pause: Duration,
    /// Number of fetched messages, and of channels that had too many.
    messages: usize,
    cut: usize,
    /// The turn of a channel, one at a time.
    turn: Arc<Semaphore>,
    /// Fetches before the turn.
    urgent: Arc<Semaphore>,
}

impl<'a> CatchUp<'a> {
    /// Begins with the channels that lag since an earlier run.
    pub(crate) fn new(channel: &'a Discord) -> Self {
        Self::begin(channel, 0)
    }

    /// Starts over for a session without earlier events.
    pub(crate) fn restart(&mut self) {
        *self = Self::begin(self.channel, self.number + 1);
    }

    fn begin(channel: &'a Discord, number: u64) -> Self {
        Self {
            channel,
            number,
            round: Round::of(channel),
            next_round: None,
            failures: 0,
        }
    }

    /// Waits for the turn of the next channel. Cancel safe.
    pub(crate) async fn next(&mut self) -> Fetch {
        loop {
            if let Some(time) = self.next_round {
                tokio::time::sleep_until(time).await;
                self.next_round = None;
                self.number += 1;
                self.round = Round::of(self.channel);
            }
            if self.round.pending.is_empty() {
                return std::future::pending().await;
            }
            let turn = Arc::clone(&self.round.turn).acquire_owned().await.ok();
            if let Some(place) = self.round.pending.pop() {
                return self.fetch(place, turn);
            }
        }
    }

    /// Returns the fetch of a channel that has an event before its turn. `None` if it does not
    /// lag, is fetched already, or has failed.
    pub(crate) fn take(&mut self, place: ChannelId) -> Option<Fetch> {
        let pending = &mut self.round.pending;
        let index = pending.iter().position(|pending| *pending == place)?;
        pending.remove(index);
        Some(self.fetch(place, None))
    }

    fn fetch(&mut self, place: ChannelId, turn: Option<OwnedSemaphorePermit>) -> Fetch {
        self.round.under_way += 1;
        Fetch {
            place,
            round: self.number,
            turn,
            urgent: Arc::clone(&self.round.urgent),
        }
    }

    /// Records the outcome of a fetch, and ends the round with the last one.
    pub(crate) fn record(&mut self, report: FetchReport) {
        if report.round != self.number {
            return;
        }
        let round = &mut self.round;
        round.under_way = round.under_way.saturating_sub(1);
        round.messages += report.messages;
        round.cut += usize::from(report.is_cut);
        if let Some(FetchFailure { pause, is_general }) = report.failure {
            round.has_failed = true;
            round.pause = round.pause.max(pause);
            if is_general {
                round.pending.clear();
            }
        }
        if round.pending.is_empty() && round.under_way == 0 {
            self.end_round();
        }
    }

    fn end_round(&mut self) {
        let Self { channel, round, .. } = self;
        let name = &channel.base.name;
        if round.messages > 0 {
            tracing::info!(channel = %name, messages = round.messages, "missed messages were fetched");
        }
        if round.cut > 0 {
            tracing::warn!(
                channel = %name, chats = round.cut,
                "the oldest missed messages were left out: more than a day old, or more than 300 in a channel"
            );
        }
        if round.has_failed {
            self.failures += 1;
            let pause = channel.pause(self.failures).max(round.pause);
            self.next_round = Some(Instant::now() + pause);
        }
    }
}

impl Round {
    /// A round over all channels that lag.
    fn of(channel: &Discord) -> Self {
        let lags = channel.marks.lags().into_iter().rev();
        Self {
            pending: lags.map(|lag| lag.place).collect(),
            under_way: 0,
            has_failed: false,
            pause: Duration::ZERO,
            messages: 0,
            cut: 0,
            turn: Arc::new(Semaphore::new(1)),
            urgent: Arc::new(Semaphore::new(MAX_URGENT)),
        }
    }
}

impl Discord {
    /// Fetches the missed messages of a channel, and handles them. [`Next::Stop`] if the run ends.
    pub(crate) async fn catch_up(
        &self,
        fetch: Fetch,
        context: &ChannelContext,
    ) -> (Next, FetchReport) {
        let Fetch {
            place,
            round,
            turn,
            urgent,
        } = fetch;
        let mut report = FetchReport {
            round,
            ..FetchReport::default()
        };
        let turn = match turn {
            Some(turn) => Ok(turn),
            None => Arc::clone(&urgent).acquire_owned().await,
        };
        let (Ok(turn), Some(lag)) = (turn, self.marks.lag(&place)) else {
            return (Next::Confirm, report);
        };
        let MissedInChannel { messages, is_cut } = match self.fetch_missed(lag).await {
            Ok(missed) => missed,
            Err(error) => {
                report.failure = self.handle_failed_fetch(place, &error);
                if report.failure.is_some_and(|failure| failure.is_general) {
                    urgent.close();
                }
                return (Next::Confirm, report);
            }
        };
        drop(turn);
        (report.messages, report.is_cut) = (messages.messages.len(), is_cut);
        let take = async |_, _, message: RawMessage| self.handle_message(&message, context).await;
        (self.marks.deliver(messages, take).await, report)
    }

    /// Removes the mark of a channel that is gone. Returns the failure of other ones.
    fn handle_failed_fetch(&self, place: ChannelId, error: &CallError) -> Option<FetchFailure> {
        if let CallError::Refused(Refusal {
            status: 400 | 403 | 404,
            ..
        }) = error
        {
            tracing::info!(channel = %self.base.name, chat = %place, %error, "a channel is gone or cannot be read any more");
            self.marks.remove(|other| *other == place);
            return None;
        }
        tracing::warn!(channel = %self.base.name, chat = %place, %error, "missed messages cannot be fetched now");
        Some(FetchFailure {
            pause: error.retry_after().unwrap_or_default(),
            is_general: !matches!(error, CallError::Refused(_)),
        })
    }
}
