//! Redelivery: a message that arrives twice, late or after a restart stays one message with one id.

use anyhow::{Context as _, ensure};

use super::Suite;
use super::harness::{Ability, ChannelHarness, PlatformEvent};
use super::people::People as _;
use super::running::RunningChannel;
use super::stage::AssistantStub;
use crate::conformance::same;

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    if !suite.has(Ability::Redelivery) {
        return Ok(());
    }
    repeated_message_is_a_duplicate(suite.open().await?)
        .await
        .context("a repeated message is the same message")?;
    restart_repeats_nothing(suite.open().await?)
        .await
        .context("a restart repeats nothing")?;
    unstored_message_is_redelivered(suite.open().await?)
        .await
        .context("what was not stored comes after a restart")?;
    order_does_not_matter(suite.open().await?)
        .await
        .context("messages in the wrong order are both delivered")
}

/// Returns the number of messages in the ledger.
fn count(stage: &AssistantStub) -> usize {
    stage
        .ledger
        .as_ref()
        .map_or(0, |ledger| ledger.messages.len())
}

async fn repeated_message_is_a_duplicate(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let first = running.greeted().await?;
    ensure!(
        first.id.is_some(),
        "a message without an id is never known again"
    );
    running.harness.trigger(PlatformEvent::Repeated).await?;
    running.harness.acknowledged().await?;
    running.harness.friend_says("next").await?;
    running.recorded("next").await?;
    running.harness.acknowledged().await?;
    same("messages in the ledger", &running.stage.read(count), &2)?;
    running.stop().await.map(drop)
}

async fn restart_repeats_nothing(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    let (mut harness, stage) = running.stop().await?;
    let channel = harness.connect()?;
    let mut running = RunningChannel::on(harness, channel, stage);
    running.harness.trigger(PlatformEvent::Repeated).await?;
    running.harness.friend_says("after the restart").await?;
    running.recorded("after the restart").await?;
    running.harness.acknowledged().await?;
    same("messages in the ledger", &running.stage.read(count), &2)?;
    running.stop().await.map(drop)
}

async fn unstored_message_is_redelivered(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    running.harness.friend_says("do not lose this").await?;
    let before = running.arrival(1).await?;
    // The message gets no answer: the program ends before it is durable.
    let (mut harness, stage) = running.stop().await?;
    let channel = harness.connect()?;
    stage.change(|stage| stage.ledger = Some(super::stage::Ledger::default()));
    let mut running = RunningChannel::on(harness, channel, stage);
    running.harness.trigger(PlatformEvent::OfferedAgain).await?;
    let after = running.recorded("do not lose this").await?;
    same(
        "the same message",
        &(after.journal_id(), after.content),
        &(before.journal_id(), before.content),
    )?;
    running.harness.acknowledged().await?;
    same("messages in the ledger", &running.stage.read(count), &1)?;
    running.stop().await.map(drop)
}

async fn order_does_not_matter(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    running
        .harness
        .post_reversed("the earlier", "the later")
        .await?;
    let later = running.recorded("the later").await?;
    let earlier = running.recorded("the earlier").await?;
    ensure!(
        later.journal_id() != earlier.journal_id(),
        "two messages have one id"
    );
    running.harness.acknowledged().await?;
    same("messages in the ledger", &running.stage.read(count), &3)?;
    running.stop().await.map(drop)
}
