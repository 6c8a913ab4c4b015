//! Deals with updates: in order within a chat, for several chats at a time.
//!
//! A file that is slow to come, or a recording that is slow to be transcribed, delays its own chat and
//! no other.

use std::pin::pin;
use std::time::Duration;

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::intake::Next;

use crate::address::BotIdentity;
use crate::album::Job;
use crate::channel::TelegramChannel;

/// Number of chats that are served at a time.
const AT_A_TIME: usize = 8;

/// Notes which updates were dealt with.
pub(crate) trait Settle {
    /// Notes these updates, all at once.
    fn settle(&mut self, updates: &[u32]);
}

/// Jobs that are under way or wait.
pub(crate) struct Lanes<'a> {
    channel: &'a TelegramChannel,
    bot: &'a BotIdentity,
    context: &'a ChannelContext,
    jobs: nanobot_channel_kit::Lanes<'a, i64, Done>,
}

/// A job that is done.
struct Done {
    updates: Vec<u32>,
    next: Next,
}

impl<'a> Lanes<'a> {
    /// No jobs.
    pub(crate) fn new(
        channel: &'a TelegramChannel,
        bot: &'a BotIdentity,
        context: &'a ChannelContext,
    ) -> Self {
        Self {
            channel,
            bot,
            context,
            jobs: nanobot_channel_kit::Lanes::new(AT_A_TIME),
        }
    }

    /// Begins with a job as soon as those before it in its chat are done and there is a place.
    pub(crate) fn add(&mut self, job: Job) {
        let (channel, bot, context) = (self.channel, self.bot, self.context);
        self.jobs.add(job.first.lane(), async move {
            Done {
                next: channel.take(bot, &job, context).await,
                updates: job.updates().map(|update| update.id).collect(),
            }
        });
    }

    /// Returns the number of jobs that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.jobs.waiting()
    }

    /// `true` if there is no job.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Waits for something else and goes on meanwhile. `None` when the assistant goes down.
    pub(crate) async fn during<T>(
        &mut self,
        other: impl Future<Output = T> + Send,
        settle: &mut (impl Settle + Send),
    ) -> Option<T> {
        let mut other = pin!(other);
        loop {
            tokio::select! {
                done = self.jobs.next() => finish(&done, settle)?,
                outcome = &mut other => return Some(outcome),
            }
        }
    }

    /// Goes on until there is no job, but not for longer than `limit`. `None` when the assistant goes
    /// down.
    pub(crate) async fn until_idle(
        &mut self,
        limit: Duration,
        settle: &mut (impl Settle + Send),
    ) -> Option<()> {
        let mut end = pin!(tokio::time::sleep(limit));
        while !self.is_idle() {
            tokio::select! {
                done = self.jobs.next() => finish(&done, settle)?,
                () = &mut end => break,
            }
        }
        Some(())
    }
}

fn finish(done: &Done, settle: &mut impl Settle) -> Option<()> {
    if done.next == Next::Stop {
        return None;
    }
    settle.settle(&done.updates);
    Some(())
}
