//! Stopping within two seconds, whatever the channel is doing.
//!
//! A busy machine may be slow, a channel may not: a case that took too long is repeated on a fresh
//! platform, and fails if every attempt was slow.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use nanobot_channel::TaskTracker;

use super::Suite;
use super::harness::{Ability, ChannelHarness, PlatformEvent};
use super::people::People as _;
use super::running::{RunningChannel, STOP_SOON};
use crate::conformance::same;

/// Maximum number of attempts per case.
const TRIES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Busy {
    Starting,
    Idle,
    HandingOver,
    Sending,
    /// The platform was made unreachable by this event.
    WithoutPlatform(PlatformEvent),
}

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    let away = if suite.has(Ability::Outages) {
        PlatformEvent::Down
    } else {
        PlatformEvent::Cut
    };
    for busy in [
        Busy::Starting,
        Busy::Idle,
        Busy::HandingOver,
        Busy::Sending,
        Busy::WithoutPlatform(away),
    ] {
        let can = match busy {
            Busy::Starting | Busy::Idle | Busy::HandingOver => true,
            Busy::Sending => suite.has(Ability::Pulse),
            Busy::WithoutPlatform(_) => suite.has(Ability::Transport),
        };
        if can {
            quick(suite, busy)
                .await
                .with_context(|| format!("stopping is quick: {busy:?}"))?;
        }
    }
    Ok(())
}

async fn quick<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
    busy: Busy,
) -> anyhow::Result<()> {
    let mut took = Duration::ZERO;
    for _ in 0..TRIES {
        took = stop_while(busy, suite.open().await?).await?;
        if took <= STOP_SOON {
            return Ok(());
        }
    }
    bail!("it took {took:?}, and no try took less than {STOP_SOON:?}")
}

async fn stop_while(busy: Busy, harness: impl ChannelHarness) -> anyhow::Result<Duration> {
    let mut running = RunningChannel::start(harness)?;
    match busy {
        Busy::Starting => return Ok(running.timed_stop().await?.0),
        Busy::Idle => drop(running.greeted().await?),
        Busy::HandingOver => {
            running.harness.friend_says("hold the line").await?;
            running.arrival(1).await?;
            let (took, harness, _) = running.timed_stop().await?;
            same(
                "acknowledged without an answer",
                &harness.is_acknowledged(),
                &false,
            )?;
            return Ok(took);
        }
        Busy::Sending => return stop_while_sending(running).await,
        Busy::WithoutPlatform(away) => {
            running.greeted().await?;
            running.stage.change(|stage| stage.is_away = true);
            running.harness.trigger(away).await?;
        }
    }
    Ok(running.timed_stop().await?.0)
}

async fn stop_while_sending(
    mut running: RunningChannel<impl ChannelHarness>,
) -> anyhow::Result<Duration> {
    let inbound = running.greeted().await?;
    running.harness.trigger(PlatformEvent::Stalled).await?;
    let (channel, part) = (
        Arc::clone(&running.channel),
        running.reply(&inbound, "into the silence"),
    );
    let sending = TaskTracker::new().spawn(async move { channel.send(&part).await });
    // Lets the send begin; nothing else depends on it.
    tokio::task::yield_now().await;
    let (took, ..) = running.timed_stop().await?;
    sending.abort();
    Ok(took)
}
