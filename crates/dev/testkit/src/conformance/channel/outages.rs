//! Broken connections, outages, silent platforms and revoked credentials.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nanobot_channel::{ChannelError, SendRecovery, TaskTracker};

use super::Suite;
use super::harness::{Ability, ChannelHarness, PlatformEvent};
use super::people::People as _;
use super::running::{RunningChannel, hides_secrets};
use super::stage::AssistantStub;
use crate::conformance::same;

/// Number of rounds of cut connections.
const CUTS: usize = 3;
/// Number of cuts in the long run.
const MANY_CUTS: usize = 1000;
/// Number of cuts after which the channel has to have acknowledged every message.
const SETTLED_EVERY: usize = 50;
/// Time that the suite waits for events that must not happen. It is split into short sleeps, so
/// that a program delayed during one of them has finished everything else by the last.
const SILENCE: [Duration; 20] = [Duration::from_millis(20); 20];

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    if suite.has(Ability::Transport) {
        disconnects_lose_nothing(suite.open().await?)
            .await
            .context("cut connections lose and repeat nothing")?;
        disconnect_while_storing_repeats_nothing(suite.open().await?)
            .await
            .context("a cut while storing repeats nothing")?;
        thousand_disconnects_lose_nothing(suite.open().await?)
            .await
            .context("a thousand cuts lose and repeat nothing")?;
    }
    if suite.has(Ability::Transport) && suite.has(Ability::Outages) {
        outage_loses_nothing(suite.open().await?)
            .await
            .context("an outage loses and repeats nothing")?;
        sends_fail_during_an_outage(suite.open().await?)
            .await
            .context("sends fail during an outage and work after")?;
    }
    if suite.has(Ability::Pulse) {
        silent_connection_is_not_alive(suite.open().await?)
            .await
            .context("a platform that is silent is not alive")?;
    }
    if suite.has(Ability::Credentials) {
        revoked_credentials_are_final(suite.open().await?)
            .await
            .context("revoked credentials end the channel")?;
    }
    Ok(())
}

/// Returns the texts in the ledger, in order.
fn texts(stage: &AssistantStub) -> Vec<String> {
    let ledger = stage.ledger.as_ref();
    ledger
        .map(|ledger| ledger.texts().into_iter().map(str::to_owned).collect())
        .unwrap_or_default()
}

/// Checks that the ledger has exactly these messages in this order.
pub(super) fn has_exactly(
    running: &RunningChannel<impl ChannelHarness>,
    expected: &[String],
) -> anyhow::Result<()> {
    let found = running.stage.read(texts);
    let matches = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, text)| found.contains(text));
    ensure!(
        matches,
        "messages in the ledger\n   found: {found:#?}\nexpected: {expected:#?}"
    );
    Ok(())
}

async fn disconnects_lose_nothing(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    let mut texts = vec!["hello".to_owned()];
    for number in 1..=CUTS {
        for _ in 0..number {
            running.harness.trigger(PlatformEvent::Cut).await?;
        }
        let text = format!("after cut number {number}.");
        running.harness.friend_says(&text).await?;
        running.recorded(&text).await?;
        texts.push(text);
        // Cuts at once, so that the stored message may not be acknowledged yet.
        running.harness.trigger(PlatformEvent::Cut).await?;
        let text = format!("right behind cut number {number}.");
        running.harness.friend_says(&text).await?;
        running.recorded(&text).await?;
        running.harness.acknowledged().await?;
        texts.push(text);
    }
    has_exactly(&running, &texts)?;
    running.stop().await.map(drop)
}

async fn thousand_disconnects_lose_nothing(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    let mut texts = vec!["hello".to_owned()];
    for number in 1..=MANY_CUTS {
        running.harness.trigger(PlatformEvent::Cut).await?;
        let text = format!("message {number}.");
        running.harness.friend_says(&text).await?;
        running
            .recorded(&text)
            .await
            .with_context(|| format!("after cut number {number}"))?;
        texts.push(text);
        if number % SETTLED_EVERY == 0 {
            running
                .harness
                .acknowledged()
                .await
                .with_context(|| format!("after cut number {number}"))?;
        }
    }
    has_exactly(&running, &texts)?;
    running.stop().await.map(drop)
}

async fn disconnect_while_storing_repeats_nothing(
    harness: impl ChannelHarness,
) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    running.harness.friend_says("hold on").await?;
    running.arrival(1).await?;
    running.harness.trigger(PlatformEvent::Cut).await?;
    // The message is stored now, but the platform may not learn of it and offer it again.
    running.stage.change(|stage| {
        let mut ledger = super::stage::Ledger::default();
        stage.answers.extend(
            stage
                .arrived
                .iter()
                .map(|(message, _)| ledger.take(message)),
        );
        stage.ledger = Some(ledger);
    });
    running.harness.friend_says("go on").await?;
    running.recorded("go on").await?;
    running.harness.acknowledged().await?;
    has_exactly(&running, &["hold on", "go on"].map(str::to_owned))?;
    running.stop().await.map(drop)
}

async fn outage_loses_nothing(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    running.harness.trigger(PlatformEvent::Down).await?;
    let mut texts = vec!["hello".to_owned()];
    for number in 1..=3 {
        let text = format!("message {number} of the outage.");
        running.harness.friend_says(&text).await?;
        texts.push(text);
    }
    running.harness.trigger(PlatformEvent::Up).await?;
    running.harness.friend_says("back again").await?;
    texts.push("back again".to_owned());
    for text in &texts {
        running.recorded(text).await?;
    }
    running.harness.acknowledged().await?;
    has_exactly(&running, &texts)?;
    running.stop().await.map(drop)
}

async fn sends_fail_during_an_outage(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let inbound = running.greeted().await?;
    running.harness.trigger(PlatformEvent::Down).await?;
    let part = running.reply(&inbound, "wait for me");
    // The first send may use a connection that still looks open.
    for is_first in [true, false] {
        let Err(error) = running.channel.send(&part).await else {
            anyhow::bail!("a part went to nobody")
        };
        let is_right = matches!(error, ChannelError::Unavailable(_))
            || (is_first
                && matches!(
                    error.recovery(),
                    SendRecovery::Retry { .. } | SendRecovery::Uncertain
                ));
        ensure!(is_right, "without a platform: {error}");
        hides_secrets(&running.harness, "an error", &format!("{error} {error:?}"))?;
    }
    running.harness.trigger(PlatformEvent::Up).await?;
    running.harness.friend_says("are you there").await?;
    running.recorded("are you there").await?;
    running.sent(&part).await?;
    same(
        "what the friend was shown",
        &running.harness.friend_was_shown(1).await?,
        &vec!["wait for me".to_owned()],
    )?;
    running.stop().await.map(drop)
}

async fn listen() {
    for moment in SILENCE {
        tokio::time::sleep(moment).await;
    }
}

async fn silent_connection_is_not_alive(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let inbound = running.greeted().await?;
    let alive = running.stage.read(|stage| stage.alive);
    running.harness.trigger(PlatformEvent::Beat).await?;
    let more = |stage: &AssistantStub| (stage.alive > alive).then_some(());
    running
        .stage
        .wait_for("a sign of life for a beat", more)
        .await?;
    running.harness.trigger(PlatformEvent::Stalled).await?;
    // Lets everything in flight arrive.
    listen().await;
    let alive = running.stage.read(|stage| stage.alive);
    running.harness.friend_says("can you hear me").await?;
    // A send into a stalled connection is no sign of life either.
    let (channel, part) = (
        Arc::clone(&running.channel),
        running.reply(&inbound, "can you"),
    );
    let sending = TaskTracker::new().spawn(async move { channel.send(&part).await });
    listen().await;
    let (now, texts) = running.stage.read(|stage| (stage.alive, texts(stage)));
    same(
        "signs of life while the platform is silent",
        &(now - alive),
        &0,
    )?;
    ensure!(
        !texts.iter().any(|text| text.contains("can you hear me")),
        "the harness' stall lets messages through"
    );
    running.harness.trigger(PlatformEvent::Recovered).await?;
    running.recorded("can you hear me").await?;
    let more = |stage: &AssistantStub| (stage.alive > alive).then_some(());
    running
        .stage
        .wait_for("a sign of life after the silence", more)
        .await?;
    sending.abort();
    running.harness.acknowledged().await?;
    running.stop().await.map(drop)
}

async fn revoked_credentials_are_final(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let inbound = running.greeted().await?;
    if let Some(probe) = running.channel.probe() {
        let who = probe.probe().await.context("the probe works")?;
        hides_secrets(&running.harness, "the probe", &who)?;
    }
    let part = running.reply(&inbound, "anybody there");
    running.harness.trigger(PlatformEvent::Revoked).await?;
    let (channel, stage) = (running.channel.clone(), running.stage.clone());
    let (ended, mut harness) = running.end().await?;
    ensure!(
        matches!(ended, ChannelError::Auth(_)),
        "the channel ended because of {ended:?}"
    );
    let Err(unsent) = channel.send(&part).await else {
        bail!("a part is taken without credentials")
    };
    // A channel that sends over its receiving connection has no connection now.
    let is_right = matches!(unsent, ChannelError::Auth(_) | ChannelError::Unavailable(_));
    ensure!(is_right, "a part without credentials: {unsent:?}");
    let mut errors = vec![ended, unsent];
    if let Some(probe) = channel.probe() {
        let Err(error) = probe.probe().await else {
            bail!("the probe finds nothing wrong")
        };
        ensure!(
            matches!(error, ChannelError::Auth(_)),
            "the probe without credentials: {error:?}"
        );
        errors.push(error);
    }
    for error in errors {
        hides_secrets(&harness, "an error", &format!("{error} {error:?}"))?;
    }
    harness.trigger(PlatformEvent::Restored).await?;
    let mut running = RunningChannel::on(harness, channel, stage);
    running.harness.friend_says("welcome back").await?;
    running.recorded("welcome back").await?;
    running.stop().await.map(drop)
}
