//! Failing sends: every error says how to recover, and the channel keeps working.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nanobot_channel::{ChannelError, DeliveryGuarantee, OutboundPart, SendRecovery};

use super::Suite;
use super::harness::{Ability, ChannelHarness, PlatformEvent, SendFault};
use super::people::People as _;
use super::running::{RunningChannel, hides_secrets};
use crate::conformance::same;

/// Maximum number of attempts to send a part while the channel asks for pauses.
const TRIES: usize = 5;

/// Runs one case per fault.
pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    if !suite.has(Ability::SendFaults) {
        return Ok(());
    }
    for fault in SendFault::ALL {
        if suite.has(Ability::SendFault(fault)) {
            let outcome = send_errors_have_the_right_recovery(suite.open().await?, fault).await;
            outcome.with_context(|| format!("a send that fails: {fault:?}"))?;
        }
    }
    Ok(())
}

/// Returns the pause that a rate-limiting platform asks for.
fn pause() -> Duration {
    Duration::from_secs(SendFault::PAUSE_SECONDS.into())
}

async fn send_errors_have_the_right_recovery(
    harness: impl ChannelHarness,
    fault: SendFault,
) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let inbound = running.greeted().await?;
    running
        .harness
        .trigger(PlatformEvent::FailedSend(fault))
        .await?;
    let part = running.reply(&inbound, "take this");
    let outcome = running.channel.send(&part).await.map(drop);
    if let Err(error) = &outcome {
        hides_secrets(&running.harness, "an error", &format!("{error} {error:?}"))?;
    }
    let mut expected = Vec::new();
    if fault == SendFault::CutAfterEffect {
        settle_cut(&running, &part, outcome).await?;
        expected.push("take this".to_owned());
    } else {
        let Err(error) = outcome else {
            bail!("the part is taken")
        };
        judge(fault, &error)?;
        if matches!(error.recovery(), SendRecovery::Retry { .. }) {
            send_again(&running, &part).await?;
            expected.push("take this".to_owned());
        }
    }
    if fault != SendFault::Unauthorized {
        let next = running.reply(&inbound, "and this");
        send_again(&running, &next).await?;
        expected.push("and this".to_owned());
        let shown = running.harness.friend_was_shown(expected.len()).await?;
        same("what the friend was shown", &shown, &expected)?;
        running.stop().await?;
    }
    Ok(())
}

/// Checks that an error matches the fault.
fn judge(fault: SendFault, error: &ChannelError) -> anyhow::Result<()> {
    let is_right = match fault {
        SendFault::RateLimited => {
            let pause = pause();
            matches!(error, ChannelError::RateLimited { retry_after } if (pause..=pause * 2).contains(retry_after))
        }
        SendFault::Broken => matches!(error, ChannelError::Unavailable(_)),
        SendFault::Refused => matches!(error, ChannelError::Refused(_)),
        SendFault::ChatGone => matches!(error, ChannelError::NotFound(_)),
        SendFault::TooLarge => matches!(error, ChannelError::TooLarge(_)),
        SendFault::Unauthorized => matches!(error, ChannelError::Auth(_)),
        SendFault::CutAfterEffect => false,
    };
    ensure!(is_right, "the wrong error: {error:?}");
    Ok(())
}

/// Checks a part that arrived although its answer was lost. Depending on its guarantee, the channel
/// finds out, reports that the outcome is uncertain, or ensures that a retry does not send a second
/// message.
async fn settle_cut(
    running: &RunningChannel<impl ChannelHarness>,
    part: &OutboundPart,
    outcome: Result<(), ChannelError>,
) -> anyhow::Result<()> {
    let guarantee = running.channel.guarantee();
    match (outcome, guarantee) {
        (Ok(()), DeliveryGuarantee::Detectable) => Ok(()),
        (Ok(()), _) => bail!("the part is taken, though the channel cannot know"),
        (Err(error), DeliveryGuarantee::Idempotent { .. } | DeliveryGuarantee::Detectable) => {
            let recovery = error.recovery();
            ensure!(recovery != SendRecovery::GiveUp, "given up: {error:?}");
            let in_doubt =
                guarantee == DeliveryGuarantee::Detectable && recovery == SendRecovery::Uncertain;
            send_again(
                running,
                &OutboundPart {
                    in_doubt,
                    ..part.clone()
                },
            )
            .await
        }
        (Err(error), DeliveryGuarantee::PartlyDetectable | DeliveryGuarantee::BestEffort) => {
            ensure!(
                error.recovery() == SendRecovery::Uncertain,
                "not uncertain: {error:?}"
            );
            Ok(())
        }
    }
}

/// Sends a part that the platform has to accept, waiting as long as the channel asks.
async fn send_again(
    running: &RunningChannel<impl ChannelHarness>,
    part: &OutboundPart,
) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        match running
            .channel
            .send(part)
            .await
            .map_err(|error| (error.recovery(), error))
        {
            Ok(_) => return Ok(()),
            Err((SendRecovery::Retry { after }, _)) => {
                tokio::time::sleep(after.unwrap_or(pause())).await;
            }
            Err((_, error)) => return Err(error).context("another try is taken"),
        }
    }
    bail!("no try was taken")
}
