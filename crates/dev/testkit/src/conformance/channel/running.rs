//! A channel that runs between a harness and the stage, kept running as a supervisor would.

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
use super::stage::{Ledger, Played, Stage};
use crate::log::Log;
use crate::notes::NoteBook;
use crate::sync::Watched;

/// After how long a channel that does not stop counts as hanging. It should be done within
/// [`STOP_SOON`]; a machine that is busy gets more. A harness whose platform is polled lets a poll
/// last longer than this.
const STOP_WITHIN: Duration = Duration::from_secs(40);
/// How long a channel may take to stop on a machine that has nothing else to do.
pub(super) const STOP_SOON: Duration = Duration::from_secs(2);
/// The pause before a run that ended is started again.
const RESTART_PAUSE: Duration = Duration::from_millis(2);

/// A channel that runs.
pub(super) struct Running<H> {
    pub(super) harness: H,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) stage: Watched<Stage>,
    run: Run,
    positions: u32,
}

impl<H: ChannelHarness> Running<H> {
    /// Runs the harness' channel. Messages wait for [`Running::answer`].
    pub(super) fn start(harness: H) -> anyhow::Result<Self> {
        Self::start_on(&Handle::current(), harness)
    }

    /// The same on a runtime that will not live long.
    pub(super) fn start_on(runtime: &Handle, mut harness: H) -> anyhow::Result<Self> {
        let channel = harness.connect()?;
        let friend = Some(harness.friend());
        let stage = Watched::new(Stage {
            friend,
            ..Stage::default()
        });
        let run = Run::start_on(runtime, Arc::clone(&channel), &stage);
        Ok(Self {
            harness,
            channel,
            stage,
            run,
            positions: 0,
        })
    }

    /// The same with a ledger, so that every message is answered at once.
    pub(super) fn with_ledger(harness: H) -> anyhow::Result<Self> {
        let running = Self::start(harness)?;
        running
            .stage
            .change(|stage| stage.ledger = Some(Ledger::default()));
        Ok(running)
    }

    /// Runs a channel on a stage that may have seen others.
    pub(super) fn on(harness: H, channel: Arc<dyn Channel>, stage: Watched<Stage>) -> Self {
        let run = Run::start(Arc::clone(&channel), &stage);
        Self {
            harness,
            channel,
            stage,
            run,
            positions: 0,
        }
    }

    /// Waits for the message that is handed over as number `count`.
    pub(super) async fn arrival(&self, count: usize) -> anyhow::Result<InboundMessage> {
        let what = format!("message {count} to be handed over");
        let found = |stage: &Stage| {
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
        let found = |stage: &Stage| {
            let messages = &stage.ledger.as_ref()?.messages;
            messages
                .iter()
                .find(|message| message.content.contains(text))
                .cloned()
        };
        Ok(self.stage.wait_for(&what, found).await?)
    }

    /// The friend says something, and it is in the ledger.
    pub(super) async fn said(&mut self, text: &str) -> anyhow::Result<InboundMessage> {
        self.harness.friend_says(text).await?;
        self.recorded(text).await
    }

    /// Says what became of the oldest message that waits.
    pub(super) fn answer(&self, admission: Admission) {
        self.stage
            .change(|stage| stage.answers.push_back(admission));
    }

    /// Begins a conversation: the friend's first message, acknowledged.
    pub(super) async fn greeted(&mut self) -> anyhow::Result<InboundMessage> {
        self.harness.friend_says("hello").await?;
        let first = self.arrival(1).await?;
        if self.stage.read(|stage| stage.ledger.is_none()) {
            self.answer(Admission::Accepted);
        }
        self.harness.acknowledged().await?;
        Ok(first)
    }

    /// A reply to a message in one part.
    pub(super) fn reply(&mut self, inbound: &InboundMessage, text: &str) -> OutboundPart {
        self.parts(inbound, &[text.to_owned()]).remove(0)
    }

    /// A reply in several parts.
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

    /// A message with a key of its own.
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

    /// Sends a part that the platform has to take.
    pub(super) async fn sent(&self, part: &OutboundPart) -> anyhow::Result<()> {
        let sent = self.channel.send(part).await;
        sent.map(drop)
            .with_context(|| format!("part {} of {:?} is taken", part.index, part.message.key))
    }

    /// Stops the channel, and looks whether anything showed a secret. Returns what can go on.
    pub(super) async fn stop(self) -> anyhow::Result<(H, Watched<Stage>)> {
        self.timed_stop()
            .await
            .map(|(_, harness, stage)| (harness, stage))
    }

    /// The same, and says how long it took.
    pub(super) async fn timed_stop(self) -> anyhow::Result<(Duration, H, Watched<Stage>)> {
        let took = self.run.stop().await?;
        discreet(&self.harness, &self.stage)?;
        Ok((took, self.harness, self.stage))
    }

    /// Waits for a run that ends by itself for good, and returns why.
    pub(super) async fn end(self) -> anyhow::Result<(ChannelError, H)> {
        let error = self.run.end().await?;
        discreet(&self.harness, &self.stage)?;
        Ok((error, self.harness))
    }
}

/// The run itself.
pub(super) struct Run {
    cancel: CancellationToken,
    tasks: TaskTracker,
    run: JoinHandle<Result<(), ChannelError>>,
}

impl Run {
    pub(super) fn start(channel: Arc<dyn Channel>, stage: &Watched<Stage>) -> Self {
        Self::start_on(&Handle::current(), channel, stage)
    }

    fn start_on(runtime: &Handle, channel: Arc<dyn Channel>, stage: &Watched<Stage>) -> Self {
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

    /// Stops the channel, and says how long it took.
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

/// Runs a channel again and again until it is told to stop or will never work.
async fn supervise(
    channel: Arc<dyn Channel>,
    context: ChannelContext,
    stage: Watched<Stage>,
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

/// Whether anything that operators read shows a secret.
fn discreet(harness: &impl ChannelHarness, stage: &Watched<Stage>) -> anyhow::Result<()> {
    let said = stage.read(|stage| [stage.degraded.join("\n"), stage.ends.join("\n")].join("\n"));
    hides_secrets(harness, "what the channel said of its state", &said)?;
    hides_secrets(harness, "the log", &Log::capture()?.text())
}

/// Whether a text is free of the harness' secrets.
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
