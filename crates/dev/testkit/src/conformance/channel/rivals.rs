//! Two programs with the same credentials: reported if the platform reveals it, and harmless if
//! both hand over to one ledger.

use anyhow::Context as _;

use super::Suite;
use super::harness::{Ability, ChannelHarness};
use super::outages::has_exactly;
use super::people::People as _;
use super::running::{ChannelTask, RunningChannel};
use super::stage::AssistantStub;

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    if !suite.has(Ability::Rivals) {
        return Ok(());
    }
    let is_told = suite.has(Ability::NewsOfRivals);
    two_receivers(suite.open().await?, is_told)
        .await
        .context("two programs with one account")
}

/// `is_told` is `true` if the platform tells the two programs about each other.
async fn two_receivers(harness: impl ChannelHarness, is_told: bool) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.greeted().await?;
    let mut texts = vec!["hello".to_owned()];
    let complaints = |stage: &AssistantStub| stage.conflicts + stage.degraded.len();
    let before = running.stage.change(|stage| {
        stage.is_contested = true;
        complaints(stage)
    });
    let rival = ChannelTask::start(running.harness.connect()?, &running.stage);
    if is_told {
        let told = |stage: &AssistantStub| (complaints(stage) > before).then_some(());
        running
            .stage
            .wait_for("a word about the other program", told)
            .await?;
    }
    for text in ["one for the two of you", "and another one"] {
        running.harness.friend_says(text).await?;
        running.recorded(text).await?;
        texts.push(text.to_owned());
    }
    rival.stop().await.context("the other program")?;
    running.stage.change(|stage| stage.is_contested = false);
    let text = "for the one that is left";
    running.harness.friend_says(text).await?;
    running.recorded(text).await?;
    texts.push(text.to_owned());
    has_exactly(&running, &texts)?;
    running.stop().await.map(drop)
}
