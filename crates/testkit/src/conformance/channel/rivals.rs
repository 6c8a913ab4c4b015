//! Two programs with the same credentials: said where the platform says it, and harmless where both hand
//! over to one ledger.

use anyhow::Context as _;

use super::harness::{Arranged, ChannelHarness};
use super::outages::has_exactly;
use super::running::{Run, Running};
use super::stage::Stage;
use super::{Gap, RIVALS, Suite};

/// What a platform that tells nothing leaves out.
const TOLD: &str = "rivals: told";

/// Runs the case, and returns that the platform tells nothing, if so.
pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<Option<Gap>> {
    if !suite.has(RIVALS) {
        return Ok(None);
    }
    let tells = two_receivers(suite.open().await?).await.context("two programs with one account")?;
    Ok(match tells {
        Arranged::Done => None,
        Arranged::Impossible(reason) => Some(Gap { ability: TOLD, reason }),
    })
}

async fn two_receivers(harness: impl ChannelHarness) -> anyhow::Result<Arranged> {
    let mut running = Running::with_ledger(harness);
    running.greeted().await?;
    let mut said = vec!["hello".to_owned()];
    let complaints = |stage: &Stage| stage.conflicts + stage.degraded.len();
    let before = running.stage.change(|stage| {
        stage.is_contested = true;
        complaints(stage)
    });
    let rivals = running.harness.rivals().take()?;
    let tells = rivals.tells();
    let rival = Run::start(rivals.rival().await?, &running.stage);
    if tells == Arranged::Done {
        let told = |stage: &Stage| (complaints(stage) > before).then_some(());
        running.stage.wait_for("a word about the other program", told).await?;
    }
    for text in ["one for the two of you", "and another one"] {
        running.harness.friend_says(text).await?;
        running.recorded(text).await?;
        said.push(text.to_owned());
    }
    rival.stop().await.context("the other program")?;
    running.stage.change(|stage| stage.is_contested = false);
    let text = "for the one that is left";
    running.harness.friend_says(text).await?;
    running.recorded(text).await?;
    said.push(text.to_owned());
    has_exactly(&running, &said)?;
    running.stop().await?;
    Ok(tells)
}
