//! Runs a channel between a harness and the stage, and restarts it as a supervisor would.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nanobot_channel::{
    Admission, CancellationToken, Channel, ChannelContext, ChannelError, InboundMessage,
    OutboundKey, OutboundKind, OutboundMessage, OutboundPart, Semaphore, TaskTracker,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::harness::ChannelHarness;
use super::people::People as _;
use super::stage::{AssistantStub, Ledger, Played};
use crate::log::Log;
use crate::notes::NoteBook;
use crate::sync::Watched;

/// Timeout after which a channel that does not stop counts as hanging. A channel should stop within
/// [`STOP_SOON`]; a busy machine gets more time. A harness whose platform is polled makes a poll
/// last longer than this.
const STOP_WITHIN: Duration = Duration::from_secs(40);
/// Maximum time that a channel may take to stop on an idle machine.
pub(super) const STOP_SOON: Duration = Duration::from_secs(2);
/// Pause before a run that ended is restarted.
const RESTART_PAUSE: Duration = Duration::from_millis(2);

/// A running channel with its harness and stage.
pub(super) struct RunningChannel<H> {
    pub(super) harness: H,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) stage: Watched<AssistantStub>,
    run: ChannelTask,
    positions: u32,
}

impl<H: ChannelHarness> RunningChannel<H> {
    /// Starts the harness's channel. Messages wait for [`RunningChannel::answer`].
    pub(super) fn start(harness: H) -> anyhow::Result<Self> {
        Self::start_on(&Handle::current(), harness)
    }

    /// Starts the harness's channel on a given runtime, which a case may kill.
    pub(super) fn start_on(runtime: &Handle, mut harness: H) -> anyhow::Result<Self> {
        let channel = harness.connect()?;
        let friend = Some(harness.friend());
        let stage = Watched::new(AssistantStub {
            friend,
            ..AssistantStub::default()
        });
        let run = ChannelTask::start_on(runtime, Arc::clone(&channel), &stage);
        Ok(Self {
            harness,
            channel,
            stage,
            run,
            positions: 0,
        })
    }

    /// Starts the harness's channel with a ledger, so that every message is answered at once.
    pub(super) fn with_ledger(harness: H) -> anyhow::Result<Self> {
        let running = Self::start(harness)?;
        running
            .stage
            .change(|stage| stage.ledger = Some(Ledger::default()));
        Ok(running)
    }

    /// Starts a channel on a stage that earlier runs may have used.
    pub(super) fn on(harness: H, channel: Arc<dyn Channel>, stage: Watched<AssistantStub>) -> Self {
        let run = ChannelTask::start(Arc::clone(&channel), &stage);
        Self {
            harness,
            channel,
            stage,
            run,
            positions: 0,
        }
    }

    /// Waits for the `count`th message that is handed over.
    pub(super) async fn arrival(&self, count: usize) -> anyhow::Result<InboundMessage> {
        let what = format!("message {count} to be handed over");
        let found = |stage: &AssistantStub| {
            stage
                .arrived
                .get(count - 1)
                .map(|(message, _)| message.clone())
        };
        Ok(self.stage.wait_for(&what, found).await?)
    }

    /// Waits until the ledger has a message with that text.
    pub(super) async fn recorded(&self, text: &str) -> anyhow::Result<InboundMessage> {
        let what = format!(
            "{:?} to be in the ledger",
            text.chars().take(80).collect::<String>()
        );
        let found = |stage: &AssistantStub| {
            let messages = &stage.ledger.as_ref()?.messages;
            messages
                .iter()
                .find(|message| message.content.contains(text))
                .cloned()
        };
        Ok(self.stage.wait_for(&what, found).await?)
    }

    /// Sends a text as the friend and waits until it is in the ledger.
    pub(super) async fn receive(&mut self, text: &str) -> anyhow::Result<InboundMessage> {
        self.harness.friend_says(text).await?;
        self.recorded(text).await
    }

    /// Answers the oldest waiting message.
    pub(super) fn answer(&self, admission: Admission) {
        self.stage
            .change(|stage| stage.answers.push_back(admission));
    }

    /// Begins a conversation with the friend's first message and waits for its acknowledgement.
    pub(super) async fn greeted(&mut self) -> anyhow::Result<InboundMessage> {
        self.harness.friend_says("hello").await?;
        let first = self.arrival(1).await?;
        if self.stage.read(|stage| stage.ledger.is_none()) {
            self.answer(Admission::Accepted);
        }
        self.harness.acknowledged().await?;
        Ok(first)
    }

    /// Returns a reply in one part.
    pub(super) fn reply(&mut self, inbound: &InboundMessage, text: &str) -> OutboundPart {
        self.parts(inbound, &[text.to_owned()]).remove(0)
    }

    /// Returns a reply in several parts.
    pub(super) fn parts(
        &mut self,
        inbound: &InboundMessage,
        texts: &[String],
    ) -> Vec<OutboundPart> {
        let message = Arc::new(self.message(inbound, OutboundKind::Final, texts.join("\n\n")));
        let count = u32::try_from(texts.len()).unwrap_or(u32::MAX);
        let part = |(index, text): (u32, &String)| OutboundPart {
            message: Arc::clone(&message),
            index,
            count,
            text: text.clone(),
            plain: text.clone(),
            blocks: Vec::new(),
            in_doubt: false,
        };
        (0..).zip(texts).map(part).collect()
    }

    /// Returns an outbound message with a key of its own.
    pub(super) fn message(
        &mut self,
        inbound: &InboundMessage,
        kind: OutboundKind,
        content: String,
    ) -> OutboundMessage {
        let key = OutboundKey {
            turn: "turn".into(),
            position: self.positions,
        };
        self.positions += 1;
        OutboundMessage::in_reply_to(inbound, key, kind, content)
    }

    /// Sends a part that the platform has to accept.
    pub(super) async fn sent(&self, part: &OutboundPart) -> anyhow::Result<()> {
        let sent = self.channel.send(part).await;
        sent.map(drop)
            .with_context(|| format!("part {} of {:?} is taken", part.index, part.message.key))
    }

    /// Stops the channel and checks that no secret was shown. Returns the harness and the stage.
    pub(super) async fn stop(self) -> anyhow::Result<(H, Watched<AssistantStub>)> {
        self.timed_stop()
            .await
            .map(|(_, harness, stage)| (harness, stage))
    }

    /// Stops the channel like [`RunningChannel::stop`] and also returns the time it took.
    pub(super) async fn timed_stop(self) -> anyhow::Result<(Duration, H, Watched<AssistantStub>)> {
        let took = self.run.stop().await?;
        logs_no_secret(&self.harness, &self.stage)?;
        Ok((took, self.harness, self.stage))
    }

    /// Waits for a run that ends permanently by itself, and returns its error.
    pub(super) async fn end(self) -> anyhow::Result<(ChannelError, H)> {
        let error = self.run.end().await?;
        logs_no_secret(&self.harness, &self.stage)?;
        Ok((error, self.harness))
    }
}

/// The task that runs a channel.
pub(super) struct ChannelTask {
    cancel: CancellationToken,
    tasks: TaskTracker,
    run: JoinHandle<Result<(), ChannelError>>,
}

impl ChannelTask {
    pub(super) fn start(channel: Arc<dyn Channel>, stage: &Watched<AssistantStub>) -> Self {
        Self::start_on(&Handle::current(), channel, stage)
    }

    fn start_on(
        runtime: &Handle,
        channel: Arc<dyn Channel>,
        stage: &Watched<AssistantStub>,
    ) -> Self {
        let played = Arc::new(Played {
            stage: stage.clone(),
        });
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let context = ChannelContext {
            access: Arc::<Played>::clone(&played),
            intake: Arc::<Played>::clone(&played),
            progress: Arc::<Played>::clone(&played),
            media: played,
            notes: stage.read(|stage| Arc::<NoteBook>::clone(&stage.notes)),
            transcriber: None,
            commands: Arc::default(),
            suspects: Arc::new(Semaphore::new(1)),
            tasks: tasks.clone(),
            cancel: cancel.clone(),
        };
        let run = TaskTracker::new().spawn_on(supervise(channel, context, stage.clone()), runtime);
        Self { cancel, tasks, run }
    }

    /// Stops the channel and returns the time it took.
    pub(super) async fn stop(self) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        self.cancel.cancel();
        let ended = tokio::time::timeout(STOP_WITHIN, self.run)
            .await
            .context("the channel did not stop in time")?;
        let took = begun.elapsed();
        ended
            .context("the channel panicked")?
            .context("a channel that is told to stop returns Ok")?;
        self.tasks.close();
        let left = tokio::time::timeout(STOP_WITHIN, self.tasks.wait()).await;
        left.context("a task of the channel went on after it was told to stop")?;
        Ok(took)
    }

    async fn end(self) -> anyhow::Result<ChannelError> {
        let ended = tokio::time::timeout(crate::WAIT_LIMIT, self.run).await;
        let ended = ended
            .context("the channel went on")?
            .context("the channel panicked")?;
        let Err(error) = ended else {
            anyhow::bail!("the channel ended as if it had been told to")
        };
        Ok(error)
    }
}

/// Restarts a channel until it is stopped or fails permanently.
async fn supervise(
    channel: Arc<dyn Channel>,
    context: ChannelContext,
    stage: Watched<AssistantStub>,
) -> Result<(), ChannelError> {
    loop {
        let outcome = channel.run(context.clone()).await;
        if context.cancel.is_cancelled() {
            let is_excused = stage.read(|stage| stage.is_away);
            return outcome.or_else(|error| {
                if is_excused && !error.is_permanent() {
                    Ok(())
                } else {
                    Err(error)
                }
            });
        }
        let why = match &outcome {
            Ok(()) => "it returned Ok".to_owned(),
            Err(error) => format!("{error} {error:?}"),
        };
        let is_contested = matches!(outcome, Err(ChannelError::Conflict(_)));
        stage.change(|stage| {
            stage.ends.push(why);
            stage.conflicts += usize::from(is_contested);
        });
        match outcome {
            Err(error) if error.is_permanent() => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let pause = async {
            tokio::time::sleep(RESTART_PAUSE).await;
            if is_contested {
                stage.reached(|stage| !stage.is_contested).await;
            }
        };
        if context.cancel.run_until_cancelled(pause).await.is_none() {
            return Ok(());
        }
    }
}

/// Checks that no state report and no log line shows a secret.
fn logs_no_secret(
    harness: &impl ChannelHarness,
    stage: &Watched<AssistantStub>,
) -> anyhow::Result<()> {
    let reasons = stage.read(|stage| [stage.degraded.join("\n"), stage.ends.join("\n")].join("\n"));
    hides_secrets(harness, "state reports of the channel", &reasons)?;
    hides_secrets(harness, "the log", &Log::capture()?.text())
}

/// Checks that a text contains none of the harness's secrets.
pub(super) fn hides_secrets(
    harness: &impl ChannelHarness,
    what: &str,
    text: &str,
) -> anyhow::Result<()> {
    for secret in harness.secrets() {
        ensure!(!secret.is_empty(), "the harness names an empty secret");
        ensure!(!text.contains(&secret), "{what} shows a secret");
    }
    Ok(())
}
