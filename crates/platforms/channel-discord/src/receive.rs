//! Receives: keeps a connection to the gateway, and deals with what comes in its order.
//!
//! Reading and dealing are two, with a bounded queue between them: heartbeats go on while a file is
//! fetched or a message waits to be stored. A full queue stops the reading.

use std::time::Duration;

use nanobot_channel::{
    AccessDecision, Admission, ChannelContext, ChannelError, ChatKind, InboundMessage,
};
use nanobot_channel_kit::{Handling, backoff, chance, jittered_backoff};
use serenity::builder::CreateMessage;
use tokio::sync::mpsc;

use crate::channel::DiscordChannel;
use crate::frame::RawMessage;
use crate::gateway::{Connection, End, Job, Work};
use crate::inbound::Candidate;
use crate::interaction::channel_of;
use crate::missed::CatchUp;
use crate::place::Place;

/// How many events may wait.
const QUEUE: usize = 256;
/// How many connections in a row may come to nothing before the channel counts as down.
const PATIENCE: u32 = 5;
/// The pause before a message that could not be stored is offered again; each is longer than the last.
const STORE_PAUSE: Duration = Duration::from_millis(500);

/// What follows an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is dealt with.
    Confirm,
    /// The assistant is going down: it stays.
    Stop,
}

impl DiscordChannel {
    /// Receives until the assistant goes down.
    pub(crate) async fn receive(&self, context: &ChannelContext) -> Result<(), ChannelError> {
        self.with_cursor(|cursor| cursor.rewind());
        self.seen.read(context.notes.as_ref()).await;
        let (queue, jobs) = mpsc::channel(QUEUE);
        tokio::select! {
            error = self.keep_connected(context, &queue) => Err(error),
            () = self.deal(jobs, context) => Ok(()),
            () = self.seen.keep_written(context.notes.as_ref()) => Ok(()),
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
                Some(candidate) => self.take(&candidate, &mut None, context).await,
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
        if self.seen.is_dealt_with(raw.id) {
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
            self.seen.deal_with(channel, raw.id);
        }
        next
    }

    async fn hear_message(
        &self,
        raw: &RawMessage,
        handling: Handling<'_>,
        context: &ChannelContext,
    ) -> Next {
        let mut handling = Some(handling);
        let next = match raw.read() {
            Ok(message) => match self.candidate(&message).await {
                Some(candidate) => self.take(&candidate, &mut handling, context).await,
                None => Next::Confirm,
            },
            Err(error) => {
                tracing::warn!(channel = %self.name, %error, "a message could not be read and was skipped");
                Next::Confirm
            }
        };
        end(&mut handling).await;
        next
    }

    async fn take(
        &self,
        candidate: &Candidate<'_>,
        handling: &mut Option<Handling<'_>>,
        context: &ChannelContext,
    ) -> Next {
        if !self.may_talk(candidate, context).await {
            return Next::Confirm;
        }
        if self
            .seen
            .hear(candidate.channel(), candidate.guild(), candidate.number)
        {
            self.seen.write(context.notes.as_ref()).await;
        }
        let message = self.compose(candidate, context).await;
        // It was read, so whatever happens next is not its fault.
        end(handling).await;
        let mut tries = 0;
        loop {
            match context
                .intake
                .deliver(message.clone(), &candidate.arrival)
                .await
            {
                Admission::TryLater => {
                    context
                        .progress
                        .degraded("messages cannot be stored now; they wait");
                    tokio::time::sleep(backoff(STORE_PAUSE, tries)).await;
                    tries += 1;
                }
                Admission::ShuttingDown => return Next::Stop,
                Admission::Accepted => {
                    self.mark(candidate, &message);
                    return Next::Confirm;
                }
                Admission::Duplicate | Admission::NotAllowed => return Next::Confirm,
            }
        }
    }

    /// Shows that a message was read. Commands have their own answer.
    fn mark(&self, candidate: &Candidate<'_>, message: &InboundMessage) {
        if let (Some(original), Ok(place)) = (
            candidate.message,
            Place::new(&message.chat_id, &message.delivery),
        ) {
            self.react(place.channel(), original.id);
        }
    }

    /// Asks who decides, and passes on what a stranger in a direct chat shall read.
    async fn may_talk(&self, candidate: &Candidate<'_>, context: &ChannelContext) -> bool {
        match context
            .access
            .check(&candidate.sender, &candidate.chat, &candidate.arrival)
            .await
        {
            AccessDecision::Allowed => true,
            AccessDecision::Denied => false,
            AccessDecision::Ask(text) => {
                // Whoever used a command has read it as the answer to that.
                if candidate.arrival.kind == ChatKind::Direct && candidate.message.is_some() {
                    self.tell(candidate, text).await;
                }
                false
            }
        }
    }

    /// Says something on the channel's own behalf.
    async fn tell(&self, candidate: &Candidate<'_>, text: String) {
        let Ok(place) = Place::new(
            &candidate.chat,
            &nanobot_channel::DeliveryContext::default(),
        ) else {
            return;
        };
        if let Err(error) = self
            .create_message(&place, CreateMessage::new().content(text))
            .await
        {
            tracing::warn!(channel = %self.name, %error, "a notice could not be sent");
        }
    }
}

/// Ends the try of what was read, if that was not done.
async fn end(handling: &mut Option<Handling<'_>>) {
    if let Some(handling) = handling.take() {
        handling.end().await;
    }
}
