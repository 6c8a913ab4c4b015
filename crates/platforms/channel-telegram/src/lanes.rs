//! Deals with updates: in order within a chat, for several chats at a time.
//!
//! Decision: a file that is slow to come, or a recording that is slow to be understood, keeps its own
//! chat waiting and no other. All of it happens within the task that receives, so that it ends with
//! it: what was under way then was not confirmed, and comes again.

use std::collections::{BTreeSet, VecDeque};
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use nanobot_channel::ChannelContext;

use crate::address::BotIdentity;
use crate::album::Job;
use crate::channel::TelegramChannel;
use crate::receive::Next;

/// How many chats are served at a time.
const AT_A_TIME: usize = 8;

/// Whoever has to know which updates were dealt with.
pub(crate) trait Settle {
    /// These were, and all at once.
    fn settle(&mut self, updates: &[u32]);
}

/// What is under way, and what waits for it.
pub(crate) struct Lanes<'a> {
    channel: &'a TelegramChannel,
    bot: &'a BotIdentity,
    context: &'a ChannelContext,
    under_way: FuturesUnordered<Pin<Box<dyn Future<Output = Done> + Send + 'a>>>,
    busy: BTreeSet<i64>,
    waiting: VecDeque<Job>,
}

/// What became of a job.
struct Done {
    chat: i64,
    updates: Vec<u32>,
    next: Next,
}

impl<'a> Lanes<'a> {
    /// Nothing to do yet.
    pub(crate) fn new(
        channel: &'a TelegramChannel,
        bot: &'a BotIdentity,
        context: &'a ChannelContext,
    ) -> Self {
        let under_way = FuturesUnordered::new();
        Self {
            channel,
            bot,
            context,
            under_way,
            busy: BTreeSet::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Begins with a job as soon as those before it in its chat are done and there is a place.
    pub(crate) fn add(&mut self, job: Job) {
        self.waiting.push_back(job);
        self.begin();
    }

    /// How many jobs wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
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
                Some(done) = self.under_way.next() => self.finish(&done, settle)?,
                outcome = &mut other => return Some(outcome),
            }
        }
    }

    /// Goes on until there is nothing to do, but not for longer than `limit`. `None` when the assistant
    /// goes down.
    pub(crate) async fn until_idle(
        &mut self,
        limit: Duration,
        settle: &mut (impl Settle + Send),
    ) -> Option<()> {
        let mut end = pin!(tokio::time::sleep(limit));
        loop {
            tokio::select! {
                done = self.under_way.next() => match done {
                    Some(done) => self.finish(&done, settle)?,
                    None => return Some(()),
                },
                () = &mut end => return Some(()),
            }
        }
    }

    fn finish(&mut self, done: &Done, settle: &mut impl Settle) -> Option<()> {
        if done.next == Next::Stop {
            return None;
        }
        self.busy.remove(&done.chat);
        settle.settle(&done.updates);
        self.begin();
        Some(())
    }

    fn begin(&mut self) {
        let mut held = self.busy.clone();
        for job in std::mem::take(&mut self.waiting) {
            let chat = job.first.lane();
            if held.insert(chat) && self.under_way.len() < AT_A_TIME {
                self.busy.insert(chat);
                let (channel, bot, context) = (self.channel, self.bot, self.context);
                self.under_way.push(Box::pin(async move {
                    let next = channel.take(bot, &job, context).await;
                    Done {
                        chat,
                        updates: job.updates().map(|update| update.id).collect(),
                        next,
                    }
                }));
            } else {
                self.waiting.push_back(job);
            }
        }
    }
}
