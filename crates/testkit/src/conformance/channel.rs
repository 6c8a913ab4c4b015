//! The suite of [`Channel`], driven from both ends: the platform's, through a harness that each
//! channel brings for its fake, and the assistant's, through a context that is played here.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nanobot_channel::{
    Access, AccessDecision, Admission, Arrival, CancellationToken, Channel, ChannelContext, ChannelError, ChatId,
    InboundMessage, Intake, MediaError, MediaRef, MediaStore, OutboundKey, OutboundKind, OutboundMessage, OutboundPart,
    Progress, SenderId, TaskTracker, async_trait,
};
use tokio::task::JoinHandle;

use super::same;
use crate::sync::Watched;

/// How long a channel may take to stop. It should be done within 2 s; a machine that is busy gets
/// more. A harness whose platform is polled lets a poll last longer than this.
const STOP_WITHIN: Duration = Duration::from_secs(15);

/// What a channel's own tests bring: a fresh fake platform and the channel connected to it. Every
/// method may wait, and fails when what it waits for does not come.
#[async_trait]
pub trait ChannelHarness: Send {
    /// The channel under test, not running yet.
    fn channel(&self) -> Arc<dyn Channel>;

    /// A person whom the suite lets in.
    fn friend(&self) -> SenderId;

    /// The friend writes to the assistant in a direct chat, always the same. Returns when the
    /// platform has the message, whatever the channel does about it.
    async fn friend_says(&mut self, text: &str) -> anyhow::Result<()>;

    /// Somebody whom the suite does not let in writes in a direct chat of their own.
    async fn stranger_says(&mut self, text: &str) -> anyhow::Result<()>;

    /// Everything that the channel did where the stranger can notice it: messages, typing,
    /// reactions, downloads. Telling a client of our own protocol that it may not talk is none.
    async fn stranger_noticed(&mut self) -> anyhow::Result<Vec<String>>;

    /// The channel could not hand the last message over. Offers it again, unless the platform
    /// does so by itself.
    async fn offer_again(&mut self) -> anyhow::Result<()>;

    /// Whether the platform was told that it may forget the friend's last message.
    async fn is_acknowledged(&mut self) -> anyhow::Result<bool>;

    /// Waits until the platform is told so.
    async fn acknowledged(&mut self) -> anyhow::Result<()>;

    /// Waits until the friend was shown `count` messages and returns their texts, in order.
    async fn friend_was_shown(&mut self, count: usize) -> anyhow::Result<Vec<String>>;

    /// What must never be seen: tokens and the like.
    fn secrets(&self) -> Vec<String>;
}

/// Runs the suite of [`Channel`]. `open` returns a new harness each time.
///
/// # Errors
/// The first promise that the channel does not keep.
pub async fn channel<H: ChannelHarness>(open: impl AsyncFn() -> anyhow::Result<H>) -> anyhow::Result<()> {
    a_stranger_changes_nothing(open().await?).await.context("a stranger changes nothing")?;
    a_message_is_delivered_once(open().await?).await.context("a message is delivered once")?;
    durable_before_acknowledged(open().await?).await.context("a message is durable before it is acknowledged")?;
    parts_arrive_in_order(open().await?).await.context("parts arrive in order")?;
    stopping_is_quick(open().await?).await.context("stopping is quick")?;
    secrets_stay_secret(open().await?).await.context("secrets stay secret")
}

async fn a_stranger_changes_nothing(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = Running::start(harness);
    running.harness.stranger_says("let me in").await?;
    let friend = running.harness.friend();
    let asked = running.stage.wait_for("a question about access", |stage| stage.denied.first().cloned()).await?;
    ensure!(asked != friend, "access was asked for the friend instead of the stranger");
    running.harness.friend_says("hello").await?;
    let message = running.arrival(1).await?;
    same("the stranger's message is not handed over", &message.content.contains("let me in"), &false)?;
    running.answer(Admission::Accepted);
    running.harness.acknowledged().await?;
    same("the stranger notices nothing", &running.harness.stranger_noticed().await?, &Vec::new())?;
    same("nothing is kept for the stranger", &running.stage.read(|stage| stage.kept), &0)?;
    running.stop().await
}

async fn a_message_is_delivered_once(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = Running::start(harness);
    let expected = (running.channel.name().clone(), running.harness.friend());
    for (number, text) in (1..).zip(["first", "second"]) {
        running.harness.friend_says(text).await?;
        let message = running.arrival(number).await?;
        same("channel and sender", &(message.channel, message.sender_id), &expected)?;
        ensure!(message.content.contains(text), "{text:?} is not in {:?}", message.content);
        running.answer(Admission::Accepted);
        running.harness.acknowledged().await?;
    }
    let (arrived, alive) = running.stage.read(|stage| (stage.arrived.clone(), stage.alive));
    let [first, second] = arrived.as_slice() else { bail!("messages were handed over more than once: {arrived:#?}") };
    same("the chat", &second.chat_id, &first.chat_id)?;
    ensure!(first.id != second.id || first.id.is_none(), "two messages have one id");
    ensure!(alive > 0, "the channel gave no sign of life");
    running.stop().await
}

async fn durable_before_acknowledged(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = Running::start(harness);
    running.harness.friend_says("keep this").await?;
    let first = running.arrival(1).await?;
    same("acknowledged before it was stored", &running.harness.is_acknowledged().await?, &false)?;
    running.answer(Admission::TryLater);
    running.harness.offer_again().await?;
    let second = running.arrival(2).await?;
    let identity = |message: &InboundMessage| (message.id.clone(), message.chat_id.clone(), message.content.clone());
    same("the same message again", &identity(&second), &identity(&first))?;
    same("acknowledged after TryLater", &running.harness.is_acknowledged().await?, &false)?;
    running.answer(Admission::Accepted);
    running.harness.acknowledged().await?;
    running.stop().await
}

async fn parts_arrive_in_order(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = Running::start(harness);
    running.harness.friend_says("hello").await?;
    let inbound = running.arrival(1).await?;
    running.answer(Admission::Accepted);
    running.harness.acknowledged().await?;
    let texts = ["one", "two", "three"];
    let key = OutboundKey { turn: "turn".into(), position: 0 };
    let content = texts.join("\n\n");
    let message = Arc::new(OutboundMessage::in_reply_to(&inbound, key, OutboundKind::Final, content));
    for (index, text) in (0..).zip(texts) {
        let (text, plain) = (text.to_owned(), text.to_owned());
        let part = OutboundPart { message: Arc::clone(&message), index, count: 3, text, plain };
        running.channel.send(&part).await.with_context(|| format!("part {index} is taken"))?;
    }
    same("what the friend was shown", &running.harness.friend_was_shown(3).await?, &texts.map(str::to_owned).to_vec())?;
    running.stop().await
}

async fn stopping_is_quick(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = Running::start(harness);
    running.harness.friend_says("hello").await?;
    running.arrival(1).await?;
    running.answer(Admission::Accepted);
    running.stop().await
}

async fn secrets_stay_secret(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let running = Running::start(harness);
    let shown = format!("{:?} {:#?}", running.channel, running.channel);
    for secret in running.harness.secrets() {
        ensure!(!secret.is_empty(), "the harness names an empty secret");
        ensure!(!shown.contains(&secret), "Debug shows a secret");
    }
    running.stop().await
}

/// A channel that runs between the harness and the assistant that is played here.
struct Running<H> {
    harness: H,
    channel: Arc<dyn Channel>,
    stage: Watched<Stage>,
    cancel: CancellationToken,
    run: JoinHandle<Result<(), ChannelError>>,
}

impl<H: ChannelHarness> Running<H> {
    fn start(harness: H) -> Self {
        let channel = harness.channel();
        let stage = Watched::new(Stage { friend: Some(harness.friend()), ..Stage::default() });
        let played = Arc::new(Played { stage: stage.clone() });
        let tasks = TaskTracker::new();
        let cancel = CancellationToken::new();
        let context = ChannelContext {
            access: Arc::<Played>::clone(&played),
            intake: Arc::<Played>::clone(&played),
            progress: Arc::<Played>::clone(&played),
            media: played,
            transcriber: None,
            commands: Arc::default(),
            tasks: tasks.clone(),
            cancel: cancel.clone(),
        };
        let running = Arc::clone(&channel);
        let run = tasks.spawn(async move { running.run(context).await });
        Self { harness, channel, stage, cancel, run }
    }

    /// Waits for the message that is handed over as number `count`.
    async fn arrival(&self, count: usize) -> anyhow::Result<InboundMessage> {
        let what = format!("message {count} to be handed over");
        Ok(self.stage.wait_for(&what, |stage| stage.arrived.get(count - 1).cloned()).await?)
    }

    /// Says what became of the oldest message that waits.
    fn answer(&self, admission: Admission) {
        self.stage.change(|stage| stage.answers.push_back(admission));
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.cancel.cancel();
        let ended = tokio::time::timeout(STOP_WITHIN, self.run).await.context("the channel did not stop in time")?;
        ended.context("the channel panicked")?.context("a channel that is told to stop returns Ok")
    }
}

/// What happened on the assistant's side.
#[derive(Debug, Default)]
struct Stage {
    friend: Option<SenderId>,
    denied: Vec<SenderId>,
    arrived: Vec<InboundMessage>,
    answers: VecDeque<Admission>,
    alive: usize,
    kept: usize,
}

impl Stage {
    fn is_friend(&self, sender: &SenderId) -> bool {
        self.friend.as_ref() == Some(sender)
    }
}

/// The assistant's side of the contract.
struct Played {
    stage: Watched<Stage>,
}

#[async_trait]
impl Access for Played {
    async fn check(&self, sender: &SenderId, _chat: &ChatId, _arrival: &Arrival) -> AccessDecision {
        if self.stage.read(|stage| stage.is_friend(sender)) {
            return AccessDecision::Allowed;
        }
        self.stage.change(|stage| stage.denied.push(sender.clone()));
        AccessDecision::Denied
    }
}

#[async_trait]
impl Intake for Played {
    async fn deliver(&self, message: InboundMessage, _arrival: &Arrival) -> Admission {
        if !self.stage.read(|stage| stage.is_friend(&message.sender_id)) {
            return Admission::NotAllowed;
        }
        self.stage.change(|stage| stage.arrived.push(message));
        let what = "the suite's answer";
        if self.stage.wait_for(what, |stage| (!stage.answers.is_empty()).then_some(())).await.is_err() {
            return Admission::ShuttingDown;
        }
        self.stage.change(|stage| stage.answers.pop_front()).unwrap_or(Admission::ShuttingDown)
    }
}

impl Progress for Played {
    fn alive(&self) {
        self.stage.change(|stage| stage.alive += 1);
    }

    fn degraded(&self, _why: &str) {}
}

#[async_trait]
impl MediaStore for Played {
    fn limit(&self) -> u64 {
        1 << 20
    }

    async fn keep(&self, id: &str, _name: &str, mime: Option<&str>, _bytes: &[u8]) -> Result<MediaRef, MediaError> {
        self.stage.change(|stage| stage.kept += 1);
        Ok(MediaRef { location: format!("/media/{id}"), mime: mime.map(str::to_owned) })
    }
}
