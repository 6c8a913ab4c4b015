//! Lanes of updates: in order within a chat, several chats at a time.
//!
//! A slow download or transcription delays its own chat only.

use std::pin::pin;
use std::time::Duration;

use nanobot_channel::ChannelContext;
use nanobot_channel_kit::intake::Next;

use crate::address::BotIdentity;
use crate::album::UpdateJob;
use crate::channel::Telegram;

/// Most chats that are served at a time: those of one poll.
const MAX_CONCURRENT: usize = crate::poll::MAX_BATCH;

/// A record of handled updates.
pub(crate) trait Settle {
    /// Records these updates, all at once.
    fn settle(&mut self, updates: &[u32]);
}

/// Jobs that run or wait.
pub(crate) struct UpdateLanes<'a> {
    channel: &'a Telegram,
    bot: &'a BotIdentity,
    context: &'a ChannelContext,
    jobs: nanobot_channel_kit::Lanes<'a, i64, FinishedJob>,
}

/// A finished job.
struct FinishedJob {
    updates: Vec<u32>,
    next: Next,
}

impl<'a> UpdateLanes<'a> {
    /// No jobs.
    pub(crate) fn new(
        channel: &'a Telegram,
        bot: &'a BotIdentity,
        context: &'a ChannelContext,
    ) -> Self {
        Self {
            channel,
            bot,
            context,
            jobs: nanobot_channel_kit::Lanes::new(MAX_CONCURRENT),
        }
    }

    /// Starts a job as soon as the earlier ones of its chat are finished and there is capacity.
    pub(crate) fn add(&mut self, job: UpdateJob) {
        let (channel, bot, context) = (self.channel, self.bot, self.context);
        self.jobs.add(job.first.lane(), async move {
            FinishedJob {
                // While it waits in its lane, it takes the room of the job alone.
                next: Box::pin(channel.handle_job(bot, &job, context)).await,
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

    /// Waits for `other` while jobs run. `None` if the run ends.
    pub(crate) async fn run_until<T>(
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

    /// Runs jobs until there are none, for at most `limit`. `None` if the run ends.
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

fn finish(done: &FinishedJob, settle: &mut impl Settle) -> Option<()> {
    if done.next == Next::Stop {
        return None;
    }
    settle.settle(&done.updates);
    Some(())
}
