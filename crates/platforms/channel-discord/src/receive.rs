//! Receives: keeps a connection to the gateway, and deals with what comes in its order.
//!
//! Reading and dealing are two, with a bounded queue between them: heartbeats go on while a file is
//! fetched or a message waits to be stored. A full queue stops the reading.

use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::intake::Next;
use nanobot_channel_kit::{Handling, chance, jittered_backoff};
use tokio::sync::mpsc;

use crate::catch_up::CatchUp;
use crate::channel::DiscordChannel;
use crate::frame::RawMessage;
use crate::gateway::{Connection, End, Job, Work};
use crate::interaction::channel_of;

/// How many events may wait.
const QUEUE: usize = 256;
/// How many connections in a row may come to nothing before the channel counts as down.
const PATIENCE: u32 = 5;

impl DiscordChannel {
    /// Receives until the assistant goes down.
    pub(crate) async fn receive(&self, context: &ChannelContext) -> Result<(), ChannelError> {
        self.with_cursor(|cursor| cursor.rewind());
        self.marks.open(context.notes.as_ref()).await;
        let (queue, jobs) = mpsc::channel(QUEUE);
        tokio::select! {
            error = self.keep_connected(context, &queue) => Err(error),
            () = self.deal(jobs, context) => Ok(()),
            () = self.marks.keep_written(context.notes.as_ref()) => Ok(()),
        }
    }

    /// Connects again and again. Returns when that does not help.
    async fn keep_connected(
        &self,
        context: &ChannelContext,
        queue: &mpsc::Sender<Job>,
    ) -> ChannelError {
        let mut failures = 0;
        loop {
            let (end, progress) = self.connect(context, queue).await;
            failures = if progress > 0 { 0 } else { failures + 1 };
            let (why, pause) = match end {
                End::Lost(why) => (why, self.pause(failures)),
                End::SessionOver(why) => {
                    tracing::info!(channel = %self.name, why, "what is said meanwhile is fetched in the next session");
                    self.with_cursor(|cursor| cursor.forget());
                    // Discord wants from one to five seconds before a new session.
                    let wanted = Duration::from_secs(1) + Duration::from_secs(4).mul_f64(chance());
                    (why, wanted.max(self.pause(failures)))
                }
                End::Down(error) => return error,
            };
            if failures >= PATIENCE {
                return ChannelError::Unavailable(why);
            }
            tracing::info!(channel = %self.name, why, pause_ms = pause.as_millis(), "connecting to Discord again");
            if failures > 0 {
                context.progress.degraded(&why);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// The pause after so many failures in a row; a short one after none. Up to a quarter longer by
    /// chance, so that many who failed together do not come back together.
    pub(crate) fn pause(&self, failures: u32) -> Duration {
        let first = self.config.reconnect_pause();
        match failures.checked_sub(1) {
            Some(doublings) => jittered_backoff(first, doublings),
            None => jittered_backoff(first / 5, 0),
        }
    }

    /// One connection. Also says how much came of it.
    async fn connect(&self, context: &ChannelContext, queue: &mpsc::Sender<Job>) -> (End, u64) {
        let mut connection = match Connection::open(self, context).await {
            Ok(connection) => connection,
            Err(end) => return (end, 0),
        };
        let end = connection.read(queue).await;
        let progress = connection.progress;
        connection.leave().await;
        (end, progress)
    }

    /// Deals with events in order, and with what was missed before them. Returns when the assistant goes
    /// down.
    async fn deal(&self, mut jobs: mpsc::Receiver<Job>, context: &ChannelContext) {
        let mut catch_up = CatchUp::new(self, context);
        loop {
            let next = tokio::select! {
                biased;
                answer = catch_up.next() => catch_up.take_in(answer).await,
                job = jobs.recv() => match job {
                    Some(job) => self.deal_with(job, &mut catch_up, context).await,
                    None => return,
                },
            };
            if next == Next::Stop {
                return;
            }
        }
    }

    async fn deal_with(
        &self,
        job: Job,
        catch_up: &mut CatchUp<'_>,
        context: &ChannelContext,
    ) -> Next {
        let Job {
            epoch,
            number,
            work,
        } = job;
        let place = match &work {
            Some(Work::Message(message)) => message.channel,
            Some(Work::Interaction(interaction)) => channel_of(interaction),
            Some(Work::Beginning) | None => None,
        };
        if let Some(place) = place
            && catch_up.before(place).await == Next::Stop
        {
            return Next::Stop;
        }
        let next = match work {
            Some(Work::Message(message)) => self.hear(&message, context).await,
            Some(Work::Interaction(interaction)) => match self.command(&interaction).await {
                Some(candidate) => self.take(&candidate, None, context).await,
                None => Next::Confirm,
            },
            Some(Work::Beginning) => {
                catch_up.begin();
                Next::Confirm
            }
            None => Next::Confirm,
        };
        if next == Next::Confirm {
            self.with_cursor(|cursor| cursor.deal_with(epoch, number));
        }
        next
    }

    /// Deals with a message, unless it came on the other way already: fetched, or by the gateway. Its try
    /// is noted before it is read.
    pub(crate) async fn hear(&self, raw: &RawMessage, context: &ChannelContext) -> Next {
        if self.recent().contains(&raw.id) {
            return Next::Confirm;
        }
        let key = raw.id.to_string();
        let admitted = self
            .quarantine
            .admit(&key, raw.text.as_bytes(), context.progress.as_ref())
            .await;
        let next = match admitted {
            Some(handling) => self.hear_message(raw, handling, context).await,
            None => Next::Confirm,
        };
        if let (Next::Confirm, Some(channel)) = (next, raw.channel) {
            self.recent().insert(raw.id);
            self.marks.dealt_with(&channel, &raw.id.get());
        }
        next
    }

    async fn hear_message(
        &self,
        raw: &RawMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let candidate = match raw.read() {
            Ok(message) => self.candidate(&message, context).await,
            Err(error) => {
                tracing::warn!(channel = %self.name, %error, "a message could not be read and was skipped");
                None
            }
        };
        match candidate {
            Some(candidate) => self.take(&candidate, Some(handling), context).await,
            None => {
                handling.end().await;
                Next::Confirm
            }
        }
    }
}
