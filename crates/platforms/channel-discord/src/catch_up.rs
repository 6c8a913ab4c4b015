//! Catch-up with messages that arrived while there was no session.
//!
//! Discord repeats events for a session that is resumed, and for no other. A fetched message does
//! not name its server, which the mark of its channel adds; apart from that it takes the same path
//! as a live one.
//!
//! Decision: channels are fetched one after the other, while events are handled. An event in a
//! channel that lags has it fetched first, so that it waits for the missed messages of its own
//! channel and for no other. Events are handled sequentially, though: while that one answer is
//! outstanding, all of them wait, for `requestTimeout` at most.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nanobot_channel::ChannelContext;
use nanobot_channel_kit::catch_up::{self, CatchUpMarks, MarkNote, NotedMark, read_pages};
use nanobot_channel_kit::intake::Next;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serenity::model::id::{ChannelId, GuildId, UserId};
use tokio::time::Instant;

use crate::api::Body;
use crate::channel::Discord;
use crate::error::{CallError, Refusal};
use crate::route::Route;
use crate::wire::RawMessage;

/// Maximum number of channels with a mark.
const MAX_MARKS: usize = 500;
/// Messages in a page.
const PAGE_SIZE: usize = 100;
/// Maximum number of pages of a channel; messages before them are left out.
const MAX_PAGES: usize = 3;
/// Age of the oldest message that is handled.
const MAX_AGE: Duration = Duration::from_hours(24);

/// The last handled message of each channel.
pub(crate) type DiscordMarks = CatchUpMarks<SeenNote>;

type ChannelLag = catch_up::Lag<SeenNote>;

/// The note with the marks.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct SeenNote {
    bot: Option<UserId>,
    channels: Vec<(ChannelId, Option<GuildId>, u64)>,
}

impl MarkNote for SeenNote {
    const NAME: &'static str = "seen";
    const LIMIT: usize = MAX_MARKS;
    type Account = Option<UserId>;
    type Place = ChannelId;
    /// The server of the channel.
    type Facts = Option<GuildId>;
    type Cursor = u64;

    fn new(bot: &Option<UserId>, marks: impl Iterator<Item = NotedMark<Self>>) -> Self {
        let (bot, channels) = (*bot, marks.collect());
        Self { bot, channels }
    }

    fn into_parts(self) -> (Option<UserId>, Vec<NotedMark<Self>>) {
        (self.bot, self.channels)
    }
}

/// The answer about the missed messages of a channel.
#[derive(Debug)]
pub(crate) struct FetchedChannel {
    lag: ChannelLag,
    outcome: Result<MissedInChannel, CallError>,
}

/// The missed messages of a channel.
#[derive(Debug)]
struct MissedInChannel {
    messages: catch_up::Missed<SeenNote, RawMessage>,
    /// `true` if some are left out.
    is_cut: bool,
}

/// Catches up with the channels that lag, one after the other in rounds, and with one that has an
/// event at once.
pub(crate) struct CatchUp<'a> {
    channel: &'a Discord,
    context: &'a ChannelContext,
    round: RoundState,
    /// Number of rounds in a row with a failed request.
    failures: u32,
    /// The request under way.
    request: Option<(
        ChannelLag,
        BoxFuture<'a, Result<MissedInChannel, CallError>>,
    )>,
    /// Channels still to be fetched in this round, the next one last.
    pending: Vec<ChannelId>,
    /// Channels whose request failed in this round.
    failed: BTreeSet<ChannelId>,
    /// The pause that Discord asked for in this round.
    pause: Duration,
    /// Number of messages fetched in this round, and of channels that had too many.
    fetched: usize,
    cut: usize,
}

/// State of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundState {
    /// No channel lags.
    Idle,
    /// The next round begins at this time.
    Due(Instant),
    Running,
}

impl<'a> CatchUp<'a> {
    /// Continues with the channels that lag since an earlier run.
    pub(crate) fn new(channel: &'a Discord, context: &'a ChannelContext) -> Self {
        Self {
            channel,
            context,
            round: if channel.marks.lags().is_empty() {
                RoundState::Idle
            } else {
                RoundState::Due(Instant::now())
            },
            failures: 0,
            request: None,
            pending: Vec::new(),
            failed: BTreeSet::new(),
            pause: Duration::ZERO,
            fetched: 0,
            cut: 0,
        }
    }

    /// Starts over for a session without earlier events.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            round: RoundState::Due(Instant::now()),
            ..Self::new(self.channel, self.context)
        };
    }

    /// Waits for the missed messages of the next channel, for [`Self::handle_fetched`]. Cancel safe.
    pub(crate) async fn next(&mut self) -> FetchedChannel {
        loop {
            if let Some((lag, answer)) = &mut self.request {
                let fetched = FetchedChannel {
                    lag: lag.clone(),
                    outcome: answer.await,
                };
                self.request = None;
                return fetched;
            }
            match self.round {
                RoundState::Idle => std::future::pending().await,
                RoundState::Due(time) => {
                    tokio::time::sleep_until(time).await;
                    self.begin_round();
                }
                RoundState::Running => match self.pending.pop() {
                    Some(id) => {
                        let channel = self.channel;
                        let lag = channel.marks.lag(&id);
                        let lag = lag.filter(|_| !self.failed.contains(&id));
                        self.request =
                            lag.map(|lag| (lag.clone(), channel.fetch_missed(lag).boxed()));
                    }
                    None => self.end_round(),
                },
            }
        }
    }

    /// Fetches and handles the missed messages of a channel before a live event there, unless
    /// fetching them failed in this round.
    pub(crate) async fn ensure_caught_up(&mut self, id: ChannelId) -> Next {
        if matches!(self.round, RoundState::Due(time) if time <= Instant::now()) {
            self.begin_round();
        }
        let should_try = self.round == RoundState::Running && !self.failed.contains(&id);
        let Some(lag) = self.channel.marks.lag(&id).filter(|_| should_try) else {
            return Next::Confirm;
        };
        let fetched = match self.request.take_if(|(lag, _)| lag.place == id) {
            Some((lag, answer)) => FetchedChannel {
                lag,
                outcome: answer.await,
            },
            None => FetchedChannel {
                lag: lag.clone(),
                outcome: self.channel.fetch_missed(lag).await,
            },
        };
        self.handle_fetched(fetched).await
    }

    /// Handles the missed messages of a channel.
    pub(crate) async fn handle_fetched(&mut self, fetched: FetchedChannel) -> Next {
        let FetchedChannel { lag, outcome } = fetched;
        let (channel, id) = (self.channel, lag.place);
        match outcome {
            Ok(MissedInChannel { messages, is_cut }) => {
                self.fetched += messages.messages.len();
                self.cut += usize::from(is_cut);
                let context = self.context;
                let take = async |_, _, message: RawMessage| {
                    channel.handle_message(&message, context).await
                };
                return channel.marks.deliver(messages, take).await;
            }
            Err(
                error @ CallError::Refused(Refusal {
                    status: 400 | 403 | 404,
                    ..
                }),
            ) => {
                tracing::info!(channel = %channel.base.name, chat = %id, %error, "a channel is gone or cannot be read any more");
                channel.marks.remove(|other| *other == id);
            }
            Err(error) => {
                tracing::warn!(channel = %channel.base.name, chat = %id, %error, "missed messages cannot be fetched now");
                self.failed.insert(id);
                self.pause = self.pause.max(error.retry_after().unwrap_or_default());
                // The fault is not with this channel alone.
                if !matches!(error, CallError::Refused(_)) {
                    self.end_round();
                }
            }
        }
        Next::Confirm
    }

    fn begin_round(&mut self) {
        self.round = RoundState::Running;
        self.pending = self
            .channel
            .marks
            .lags()
            .into_iter()
            .rev()
            .map(|lag| lag.place)
            .collect();
        self.failed.clear();
        (self.pause, self.fetched, self.cut) = (Duration::ZERO, 0, 0);
    }

    fn end_round(&mut self) {
        let Self {
            channel,
            fetched,
            cut,
            ..
        } = *self;
        if fetched > 0 {
            tracing::info!(channel = %channel.base.name, messages = fetched, "missed messages were fetched");
        }
        if cut > 0 {
            tracing::warn!(
                channel = %channel.base.name, chats = cut,
                "the oldest missed messages were left out: more than a day old, or more than 300 in a channel"
            );
        }
        self.request = None;
        self.pending.clear();
        self.round = if self.failed.is_empty() {
            RoundState::Idle
        } else {
            self.failures += 1;
            RoundState::Due(Instant::now() + channel.pause(self.failures).max(self.pause))
        };
    }
}

impl Discord {
    /// Fetches the missed messages of a channel.
    async fn fetch_missed(&self, lag: ChannelLag) -> Result<MissedInChannel, CallError> {
        let last = lag.after;
        let mut fetched = self.fetch_page(&lag, &format!("after={last}&")).await?;
        let mut is_whole = fetched.len() < PAGE_SIZE;
        if !is_whole {
            // A full page after the mark is the oldest one. The newest count, so they are read
            // backwards.
            let lag = &lag;
            let page = async |before: Option<u64>| {
                let range = before.map(|id| format!("before={id}&")).unwrap_or_default();
                let page = self.fetch_page(lag, &range).await?;
                let ids = page.iter().map(|message| message.id.get());
                let oldest = ids.min().unwrap_or_default();
                let is_last = page.len() < PAGE_SIZE || oldest <= last;
                Ok((page, Some(oldest).filter(|_| !is_last)))
            };
            (fetched, is_whole) = read_pages(MAX_PAGES, page).await?;
        }
        fetched.retain(|message| message.id.get() > last);
        let newest = fetched.iter().map(|message| message.id.get()).max();
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let horizon = now.saturating_sub(MAX_AGE).as_secs();
        let count = fetched.len();
        fetched.retain(|message| message.written.is_none_or(|written| written >= horizon));
        let is_cut = !is_whole || fetched.len() < count;
        let place = lag.place;
        let messages = fetched.into_iter();
        let messages = messages.map(|message| (message.id.get(), (place, message)));
        Ok(MissedInChannel {
            messages: catch_up::Missed {
                messages: messages.collect(),
                caught_up: vec![(lag, newest.unwrap_or(last))],
            },
            is_cut,
        })
    }

    /// Fetches a page of messages; `range` is the beginning of the query.
    async fn fetch_page(
        &self,
        lag: &ChannelLag,
        range: &str,
    ) -> Result<Vec<RawMessage>, CallError> {
        let route = Route::messages(lag.place, &format!("{range}limit={PAGE_SIZE}"));
        let page: Vec<Box<RawValue>> = self.api.call(&route, Body::Empty).await?;
        let messages = page.iter();
        Ok(messages
            .filter_map(|raw| RawMessage::peek(raw.get(), lag.facts).ok())
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{MAX_NOTE_BYTES, Notes as _};
    use nanobot_testkit::NoteBook;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn note_round_trips_over_a_restart() {
        let (notes, marks) = (NoteBook::default(), DiscordMarks::default());
        let note = json!({"bot": "1", "channels": [["5", "7", 55], ["6", null, 59]]});
        notes
            .write(SeenNote::NAME, &note.to_string())
            .await
            .unwrap();
        marks.open(&notes).await;
        marks.open_gap(&Some(UserId::new(1)));
        let lags = marks.lags();
        let lags: Vec<_> = lags
            .iter()
            .map(|lag| (lag.place.get(), lag.facts, lag.after))
            .collect();
        assert_eq!(lags, [(6, None, 59), (5, Some(GuildId::new(7)), 55)]);
        marks.add(&ChannelId::new(8), None, 80);
        marks.write(&notes).await;
        let noted: serde_json::Value = serde_json::from_str(&notes.all()[SeenNote::NAME]).unwrap();
        assert_eq!(
            noted,
            json!({"bot": "1", "channels": [["5", "7", 55], ["6", null, 59], ["8", null, 80]]})
        );
    }

    #[tokio::test]
    async fn note_is_bounded() {
        let (notes, marks) = (NoteBook::default(), DiscordMarks::default());
        marks.open_gap(&Some(UserId::new(u64::MAX)));
        let newest = u64::MAX - 1;
        for number in 0..=MAX_MARKS as u64 {
            let (channel, guild) = (ChannelId::new(newest - number), GuildId::new(newest));
            marks.add(&channel, Some(guild), newest - number);
        }
        marks.write(&notes).await;
        assert!(notes.all()[SeenNote::NAME].len() < MAX_NOTE_BYTES);
    }
}
