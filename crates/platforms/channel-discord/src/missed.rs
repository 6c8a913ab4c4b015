//! What was said while there was no session: fetched afterwards, oldest first.
//!
//! A fetched message differs from one of the gateway: it does not say in which server it was
//! written, which the channel's place among the [seen](crate::seen) ones adds. It passes through the
//! same judgement, so that nobody is heard who would not have been.
//!
//! Decision: Discord is asked about one channel after the other, and events are dealt with meanwhile. An
//! event in a channel that is behind lets it be asked about first, so that it waits for what was missed
//! in its own channel and for no other. Events are dealt with in one line, though: where that one answer
//! does not come, all of them wait, for `requestTimeout` at most.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use nanobot_channel::ChannelContext;
use nanobot_channel_kit::intake::Next;
use serde_json::value::RawValue;
use serenity::model::id::ChannelId;
use tokio::time::Instant;

use crate::api::Body;
use crate::channel::DiscordChannel;
use crate::error::{CallError, Refusal};
use crate::frame::RawMessage;
use crate::route::Route;
use crate::seen::Behind;

/// How many messages Discord gives at a time.
const PAGE: usize = 100;
/// How many times it is asked for more of a channel: beyond that the oldest are left out.
const PAGES: usize = 3;
/// What is older is left out.
const LONGEST_AGO: Duration = Duration::from_hours(24);

/// What was missed in a channel.
#[derive(Debug, Default)]
struct Missed {
    /// Oldest first.
    messages: Vec<RawMessage>,
    /// The newest message there, whether it is among them or not.
    newest: u64,
    /// Not everything is among them.
    is_cut: bool,
}

/// Catches up with the channels that are behind, one after the other in rounds, and with one in which
/// something is said right away.
pub(crate) struct CatchUp<'a> {
    channel: &'a DiscordChannel,
    context: &'a ChannelContext,
    round: Round,
    /// How many rounds in a row could not fetch everything.
    failures: u32,
    /// What Discord is asked for just now.
    asked: Option<(Behind, BoxFuture<'a, Result<Missed, CallError>>)>,
    /// Who is asked for after that; the next one comes last.
    line: Vec<ChannelId>,
    /// What cannot be fetched in this round.
    failed: BTreeSet<ChannelId>,
    /// How long Discord wants nobody to try that again.
    pause: Duration,
    /// How many messages were fetched in this round, and in how many channels there were too many.
    fetched: usize,
    cut: usize,
}

/// How far the rounds are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// Nothing is missing, as far as is known.
    Over,
    /// The next one begins then.
    Due(Instant),
    UnderWay,
}

impl<'a> CatchUp<'a> {
    /// With what an earlier run did not come to.
    pub(crate) fn new(channel: &'a DiscordChannel, context: &'a ChannelContext) -> Self {
        Self {
            channel,
            context,
            round: if channel.seen.is_behind() {
                Round::Due(Instant::now())
            } else {
                Round::Over
            },
            failures: 0,
            asked: None,
            line: Vec::new(),
            failed: BTreeSet::new(),
            pause: Duration::ZERO,
            fetched: 0,
            cut: 0,
        }
    }

    /// A session began that knows nothing of what was said before it.
    pub(crate) fn begin(&mut self) {
        *self = Self {
            round: Round::Due(Instant::now()),
            ..Self::new(self.channel, self.context)
        };
    }

    /// Waits for what was missed in the next channel, which is to be [taken in](Self::take_in). Cancel
    /// safe.
    pub(crate) async fn next(&mut self) -> Answer {
        loop {
            if let Some((behind, answer)) = &mut self.asked {
                let answer = Answer {
                    behind: *behind,
                    missed: answer.await,
                };
                self.asked = None;
                return answer;
            }
            match self.round {
                Round::Over => std::future::pending().await,
                Round::Due(time) => {
                    tokio::time::sleep_until(time).await;
                    self.begin_round();
                }
                Round::UnderWay => match self.line.pop() {
                    Some(id) => {
                        let channel = self.channel;
                        let behind = channel
                            .seen
                            .behind_in(id)
                            .filter(|_| !self.failed.contains(&id));
                        self.asked = behind.map(|behind| (behind, channel.missed(behind).boxed()));
                    }
                    None => self.end_round(),
                },
            }
        }
    }

    /// Something is said in a channel: what was missed there comes before it, unless that could not be
    /// fetched a moment ago.
    pub(crate) async fn before(&mut self, id: ChannelId) -> Next {
        if matches!(self.round, Round::Due(time) if time <= Instant::now()) {
            self.begin_round();
        }
        let is_to_be_tried = self.round == Round::UnderWay && !self.failed.contains(&id);
        let Some(behind) = self.channel.seen.behind_in(id).filter(|_| is_to_be_tried) else {
            return Next::Confirm;
        };
        let answer = match self.asked.take_if(|(asked, _)| asked.channel == id) {
            Some((behind, answer)) => Answer {
                behind,
                missed: answer.await,
            },
            None => Answer {
                behind,
                missed: self.channel.missed(behind).await,
            },
        };
        self.take_in(answer).await
    }

    /// Deals with what was missed in a channel.
    pub(crate) async fn take_in(&mut self, answer: Answer) -> Next {
        let Answer { behind, missed } = answer;
        let DiscordChannel { name, seen, .. } = self.channel;
        match missed {
            Ok(missed) => {
                self.fetched += missed.messages.len();
                self.cut += usize::from(missed.is_cut);
                for message in &missed.messages {
                    if self.channel.hear(message, self.context).await == Next::Stop {
                        return Next::Stop;
                    }
                    seen.reach(behind.channel, message.id.get());
                }
                seen.reach(behind.channel, missed.newest);
                seen.catch_up(behind);
            }
            Err(
                error @ CallError::Refused(Refusal {
                    status: 400 | 403 | 404,
                    ..
                }),
            ) => {
                tracing::info!(channel = %name, chat = %behind.channel, %error, "a channel is not to be read any more");
                seen.forget(behind.channel);
            }
            Err(error) => {
                tracing::warn!(
                    channel = %name, chat = %behind.channel, %error, "what was said meanwhile cannot be fetched now"
                );
                self.failed.insert(behind.channel);
                self.pause = self.pause.max(error.retry_after().unwrap_or_default());
                // Whatever is wrong is not with this channel alone.
                if !matches!(error, CallError::Refused(_)) {
                    self.end_round();
                }
            }
        }
        Next::Confirm
    }

    fn begin_round(&mut self) {
        self.round = Round::UnderWay;
        self.line = self
            .channel
            .seen
            .behind()
            .into_iter()
            .rev()
            .map(|behind| behind.channel)
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
            tracing::info!(channel = %channel.name, messages = fetched, "what was said meanwhile was fetched");
        }
        if cut > 0 {
            tracing::warn!(
                channel = %channel.name, chats = cut,
                "of what was said meanwhile the oldest was not fetched: more than a day ago, or more than 300 messages"
            );
        }
        self.asked = None;
        self.line.clear();
        self.round = if self.failed.is_empty() {
            Round::Over
        } else {
            self.failures += 1;
            Round::Due(Instant::now() + channel.pause(self.failures).max(self.pause))
        };
    }
}

/// What became of asking for what was missed in a channel.
#[derive(Debug)]
pub(crate) struct Answer {
    behind: Behind,
    missed: Result<Missed, CallError>,
}

impl DiscordChannel {
    async fn missed(&self, behind: Behind) -> Result<Missed, CallError> {
        let Behind {
            channel,
            guild,
            last,
            ..
        } = behind;
        let page = async |which: &str| -> Result<Vec<RawMessage>, CallError> {
            let page: Vec<Box<RawValue>> = self
                .api
                .call(
                    &Route::messages(channel, &format!("{which}limit={PAGE}")),
                    Body::Empty,
                )
                .await?;
            Ok(page
                .iter()
                .filter_map(|raw| RawMessage::find(raw.get(), guild).ok())
                .collect())
        };
        let mut fetched = page(&format!("after={last}&")).await?;
        let mut is_cut = fetched.len() >= PAGE;
        if is_cut {
            // More than a page: the newest count, and these are the oldest.
            fetched.clear();
            let mut before = String::new();
            for _ in 0..PAGES {
                let page = page(&before).await?;
                let oldest = page
                    .iter()
                    .map(|fetched| fetched.id.get())
                    .min()
                    .unwrap_or_default();
                let is_last = page.len() < PAGE || oldest <= last;
                fetched.extend(page);
                if is_last {
                    is_cut = false;
                    break;
                }
                before = format!("before={oldest}&");
            }
        }
        let mut messages = fetched;
        messages.retain(|message| message.id.get() > last);
        messages.sort_by_key(|message| message.id);
        let newest = messages.last().map_or(last, |message| message.id.get());
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let horizon = now.saturating_sub(LONGEST_AGO).as_secs();
        let count = messages.len();
        messages.retain(|message| message.written.is_none_or(|written| written >= horizon));
        is_cut |= messages.len() < count;
        Ok(Missed {
            messages,
            newest,
            is_cut,
        })
    }
}
