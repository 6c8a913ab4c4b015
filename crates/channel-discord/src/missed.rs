//! What was said while there was no session: fetched afterwards, oldest first.
//!
//! A fetched message differs from one of the gateway: it does not say in which server it was
//! written, which the channel's place among the [seen](crate::seen) ones adds. It passes through the
//! same judgement, so that nobody is heard who would not have been.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nanobot_channel::ChannelContext;
use serde::Deserialize;
use serde_json::value::RawValue;
use serenity::model::channel::Message;
use serenity::model::id::{ChannelId, MessageId};

use crate::api::Body;
use crate::channel::DiscordChannel;
use crate::error::CallError;
use crate::frame::read_message;
use crate::receive::Next;
use crate::route::Route;
use crate::seen::Behind;

/// How many messages Discord gives at a time.
const PAGE: usize = 100;
/// How many times it is asked for more of a channel: beyond that the oldest are left out.
const PAGES: usize = 3;
/// What is older is left out.
const LONGEST_AGO: Duration = Duration::from_hours(24);

/// How far fetching got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Nothing is missing any more.
    Complete,
    /// Something could not be fetched; Discord may want so long a pause before it is tried again.
    Again(Option<Duration>),
    /// The assistant is going down.
    Stopped,
}

/// What was missed in a channel.
#[derive(Debug, Default)]
struct Missed {
    /// Oldest first.
    messages: Vec<Message>,
    /// The newest message there, whether it is among them or not.
    newest: u64,
    /// Not everything is among them.
    is_cut: bool,
}

/// A message whose id is known, be the rest what it may.
#[derive(Clone, Debug)]
struct Fetched {
    id: u64,
    message: Option<Message>,
}

impl DiscordChannel {
    /// Fetches what is missing in the channels that are behind, and deals with it.
    pub(crate) async fn catch_up(&self, context: &ChannelContext) -> Round {
        let (mut fetched, mut cut) = (0, 0);
        let mut round = Round::Complete;
        for behind in self.seen.behind() {
            match self.missed(behind).await {
                Ok(missed) => {
                    fetched += missed.messages.len();
                    cut += usize::from(missed.is_cut);
                    for message in &missed.messages {
                        if self.hear(message, context).await == Next::Stop {
                            return Round::Stopped;
                        }
                        self.seen.reach(behind.channel, message.id.get());
                    }
                    self.seen.reach(behind.channel, missed.newest);
                    self.seen.catch_up(behind);
                }
                Err(error @ CallError::Refused { status: 400 | 403 | 404, .. }) => {
                    tracing::info!(channel = %self.name, chat = %behind.channel, %error, "a channel is not to be read any more");
                    self.seen.forget(behind.channel);
                }
                Err(error) => {
                    tracing::warn!(
                        channel = %self.name, chat = %behind.channel, %error,
                        "what was said meanwhile cannot be fetched now"
                    );
                    round = Round::Again(error.retry_after());
                    // Whatever is wrong is not with this channel alone.
                    if !matches!(error, CallError::Refused { .. }) {
                        break;
                    }
                }
            }
        }
        if fetched > 0 {
            tracing::info!(channel = %self.name, messages = fetched, "what was said meanwhile was fetched");
        }
        if cut > 0 {
            tracing::warn!(
                channel = %self.name, chats = cut,
                "of what was said meanwhile the oldest was not fetched: more than a day ago, or more than 300 messages"
            );
        }
        round
    }

    async fn missed(&self, behind: Behind) -> Result<Missed, CallError> {
        let Behind { channel, guild, last, .. } = behind;
        let mut fetched = self.page(channel, &format!("after={last}&")).await?;
        let mut is_cut = fetched.len() >= PAGE;
        if is_cut {
            // More than a page: the newest count, and these are the oldest.
            fetched.clear();
            let mut before = String::new();
            for _ in 0..PAGES {
                let page = self.page(channel, &before).await?;
                let oldest = page.iter().map(|fetched| fetched.id).min().unwrap_or_default();
                let is_last = page.len() < PAGE || oldest <= last;
                fetched.extend(page);
                if is_last {
                    is_cut = false;
                    break;
                }
                before = format!("before={oldest}&");
            }
        }
        fetched.retain(|fetched| fetched.id > last);
        fetched.sort_by_key(|fetched| fetched.id);
        let newest = fetched.last().map_or(last, |fetched| fetched.id);
        let horizon = SystemTime::now() - LONGEST_AGO;
        let mut messages: Vec<Message> = fetched.into_iter().filter_map(|fetched| fetched.message).collect();
        let count = messages.len();
        messages.retain(|message| said_at(message).is_none_or(|at| at >= horizon));
        is_cut |= messages.len() < count;
        for message in &mut messages {
            message.guild_id = guild;
        }
        Ok(Missed { messages, newest, is_cut })
    }

    /// Some messages of a channel, in no order that counts.
    async fn page(&self, channel: ChannelId, which: &str) -> Result<Vec<Fetched>, CallError> {
        #[derive(Deserialize)]
        struct Named {
            id: MessageId,
        }
        let route = Route::messages(channel, &format!("{which}limit={PAGE}"));
        let page: Vec<Box<RawValue>> = self.api.call(&route, Body::Empty).await?;
        let fetched = page.iter().filter_map(|raw| {
            let named: Named = serde_json::from_str(raw.get()).ok()?;
            let message = read_message(raw.get()).inspect_err(|error| {
                tracing::warn!(channel = %self.name, %error, "a message could not be read and was skipped");
            });
            Some(Fetched { id: named.id.get(), message: message.ok() })
        });
        Ok(fetched.collect())
    }
}

/// When a message was written, if that was after 1970.
fn said_at(message: &Message) -> Option<SystemTime> {
    let seconds = u64::try_from(message.timestamp.unix_timestamp()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}
