//! Basics of every channel: hand over messages once and durably, send parts in order, keep secrets.

use std::collections::BTreeSet;

use anyhow::{Context as _, bail, ensure};
use nanobot_channel::{Admission, InboundMessage};

use super::Suite;
use super::harness::{Ability, ChannelHarness, PlatformEvent};
use super::people::People as _;
use super::running::{RunningChannel, hides_secrets};
use crate::conformance::same;

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    message_is_delivered_once(suite.open().await?)
        .await
        .context("a message is delivered once")?;
    durable_before_acknowledged(suite.open().await?)
        .await
        .context("a message is durable before it is acknowledged")?;
    parts_arrive_in_order(suite.open().await?)
        .await
        .context("parts arrive in order")?;
    secrets_are_not_logged(suite.open().await?)
        .await
        .context("secrets stay secret")?;
    if suite.has(Ability::Oddities) {
        odd_events_are_skipped(suite.open().await?)
            .await
            .context("what is odd is passed over")?;
    }
    Ok(())
}

async fn message_is_delivered_once(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let expected = (running.channel.name().clone(), running.harness.friend());
    // Equal texts are still separate messages.
    for (number, text) in (1..).zip(["first", "second", "second"]) {
        running.harness.friend_says(text).await?;
        let message = running.arrival(number).await?;
        same(
            "channel and sender",
            &(message.channel, message.sender_id),
            &expected,
        )?;
        ensure!(
            message.content.contains(text),
            "{text:?} is not in {:?}",
            message.content
        );
        running.answer(Admission::Accepted);
        running.harness.acknowledged().await?;
    }
    let (arrived, alive) = running
        .stage
        .read(|stage| (stage.arrived.clone(), stage.alive));
    let [(first, _), (second, _), (third, _)] = arrived.as_slice() else {
        bail!("messages were handed over more than once: {arrived:#?}")
    };
    same(
        "the chats",
        &[&second.chat_id, &third.chat_id],
        &[&first.chat_id; 2],
    )?;
    let ids: BTreeSet<_> = [first, second, third]
        .into_iter()
        .filter_map(|message| message.id.as_ref())
        .collect();
    ensure!(
        ids.is_empty() || ids.len() == arrived.len(),
        "two messages have one id: {ids:?}"
    );
    ensure!(alive > 0, "the channel gave no sign of life");
    running.stop().await.map(drop)
}

async fn durable_before_acknowledged(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    running.harness.friend_says("keep this").await?;
    let first = running.arrival(1).await?;
    same(
        "acknowledged before it was stored",
        &running.harness.is_acknowledged(),
        &false,
    )?;
    running.answer(Admission::TryLater);
    running.harness.trigger(PlatformEvent::OfferedAgain).await?;
    let second = running.arrival(2).await?;
    let identity = |message: &InboundMessage| {
        (
            message.id.clone(),
            message.chat_id.clone(),
            message.content.clone(),
        )
    };
    same(
        "the same message again",
        &identity(&second),
        &identity(&first),
    )?;
    same(
        "acknowledged after TryLater",
        &running.harness.is_acknowledged(),
        &false,
    )?;
    running.answer(Admission::Accepted);
    running.harness.acknowledged().await?;
    running.stop().await.map(drop)
}

async fn parts_arrive_in_order(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let texts = ["one", "two", "three"].map(str::to_owned);
    for part in running.parts(&inbound, &texts) {
        running.sent(&part).await?;
    }
    same(
        "what the friend was shown",
        &running.harness.friend_was_shown(3).await?,
        &texts.to_vec(),
    )?;
    running.stop().await.map(drop)
}

async fn secrets_are_not_logged(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let part = running.reply(&inbound, "psst");
    running.sent(&part).await?;
    let shown = format!("{:?} {:#?}", running.channel, running.channel);
    hides_secrets(&running.harness, "Debug", &shown)?;
    running.stop().await.map(drop)
}

async fn odd_events_are_skipped(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    let count = running.harness.send_oddities().await?;
    ensure!(count > 0, "the harness sent nothing odd");
    running.harness.friend_says("after all that").await?;
    running.recorded("after all that").await?;
    running.harness.acknowledged().await?;
    let (messages, ends) = running.stage.read(|stage| {
        let texts = stage
            .ledger
            .as_ref()
            .map(|ledger| ledger.texts().into_iter().map(str::to_owned).collect());
        (texts, stage.ends.clone())
    });
    same("the channel went on", &ends, &Vec::new())?;
    let messages: Vec<String> = messages.unwrap_or_default();
    let [first, last] = messages.as_slice() else {
        bail!("something odd became a message: {messages:#?}")
    };
    ensure!(
        first.contains("hello") && last.contains("after all that"),
        "{messages:#?}"
    );
    running.stop().await.map(drop)
}
