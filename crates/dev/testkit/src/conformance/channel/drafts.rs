//! Drafts: text shown while it is being written, and the reply that replaces it.

use std::sync::Arc;

use anyhow::Context as _;
use nanobot_channel::{
    DeliveryGuarantee, InboundMessage, OutboundKind, OutboundPart, StreamId, TaskTracker,
};

use super::Suite;
use super::doomed::Doomed;
use super::harness::{Ability, ChannelHarness, PlatformEvent, SendFault};
use super::people::People as _;
use super::running::RunningChannel;
use super::stage::Ledger;
use crate::conformance::same;

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    if !suite.has(Ability::DraftView) {
        return Ok(());
    }
    draft_becomes_the_reply(suite.open().await?)
        .await
        .context("a draft grows and becomes the reply")?;
    missing_stream_end_is_tolerated(suite.open().await?)
        .await
        .context("a draft without an end becomes the reply")?;
    draft_without_reply_is_removed(suite.open().await?)
        .await
        .context("a draft that no reply completes is deleted or expires")?;
    if suite.has(Ability::Redelivery) {
        draft_does_not_outlive_a_kill(suite.open().await?)
            .await
            .context("a draft does not outlive a kill")?;
        reply_in_a_draft_is_not_repeated_after_a_kill(suite.open().await?)
            .await
            .context("a reply in a draft is not repeated after a kill")?;
    }
    let cut = Ability::SendFault(SendFault::CutAfterEffect);
    let needed = [Ability::Redelivery, Ability::SendFaults, cut];
    if suite.has(Ability::LostDrafts) && needed.into_iter().all(|ability| suite.has(ability)) {
        draft_without_an_answer_does_not_outlive_a_kill(suite.open().await?)
            .await
            .context("a draft whose name never became known does not outlive a kill")?;
    }
    Ok(())
}

/// Sends the next delta of a stream.
async fn grow(
    running: &mut RunningChannel<impl ChannelHarness>,
    inbound: &InboundMessage,
    stream: &StreamId,
    text: &str,
) -> anyhow::Result<()> {
    let delta = running.message(
        inbound,
        OutboundKind::Delta {
            stream: stream.clone(),
        },
        text.to_owned(),
    );
    let drafts = running
        .channel
        .drafts()
        .context("the channel shows no drafts any more")?;
    Ok(drafts.append(&delta).await?)
}

/// Returns the reply that completes a stream.
fn completing(
    running: &mut RunningChannel<impl ChannelHarness>,
    inbound: &InboundMessage,
    stream: &StreamId,
    text: &str,
) -> OutboundPart {
    let mut message = running.message(inbound, OutboundKind::Final, text.to_owned());
    message.completes = Some(stream.clone());
    let (text, plain) = (text.to_owned(), text.to_owned());
    OutboundPart {
        message: message.into(),
        index: 0,
        count: 1,
        text,
        plain,
        blocks: Vec::new(),
        in_doubt: false,
    }
}

async fn draft_becomes_the_reply(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let stream = StreamId::from("stream-1");
    grow(&mut running, &inbound, &stream, "Once").await?;
    running.harness.friend_sees("Once").await?;
    grow(&mut running, &inbound, &stream, " upon").await?;
    grow(&mut running, &inbound, &stream, " a 時").await?;
    running.harness.friend_sees("Once upon a 時").await?;
    let end = running.message(
        &inbound,
        OutboundKind::StreamEnd {
            stream: stream.clone(),
            resuming: false,
        },
        String::new(),
    );
    running
        .channel
        .drafts()
        .context("the channel shows no drafts any more")?
        .close(&end)
        .await?;
    let part = completing(
        &mut running,
        &inbound,
        &stream,
        "Once upon a 時, and no more",
    );
    running.sent(&part).await?;
    let mut expected = vec!["Once upon a 時, and no more".to_owned()];
    same(
        "what the friend was shown",
        &running.harness.friend_was_shown(1).await?,
        &expected,
    )?;
    // A delta that arrives after the reply must not begin another message.
    grow(&mut running, &inbound, &stream, " too late").await?;
    let part = running.reply(&inbound, "the next message");
    running.sent(&part).await?;
    expected.push("the next message".to_owned());
    same(
        "what the friend was shown",
        &running.harness.friend_was_shown(2).await?,
        &expected,
    )?;
    running.stop().await.map(drop)
}

async fn missing_stream_end_is_tolerated(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let stream = StreamId::from("stream-1");
    grow(&mut running, &inbound, &stream, "Once").await?;
    running.harness.friend_sees("Once").await?;
    let part = completing(&mut running, &inbound, &stream, "Once for all");
    running.sent(&part).await?;
    let other = completing(
        &mut running,
        &inbound,
        &StreamId::from("stream-2"),
        "never shown before",
    );
    running.sent(&other).await?;
    let expected = ["Once for all", "never shown before"]
        .map(str::to_owned)
        .to_vec();
    same(
        "what the friend was shown",
        &running.harness.friend_was_shown(2).await?,
        &expected,
    )?;
    running.stop().await.map(drop)
}

async fn draft_without_reply_is_removed(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::start(harness)?;
    let inbound = running.greeted().await?;
    let part = running.reply(&inbound, "said by a tool");
    running.sent(&part).await?;
    let stream = StreamId::from("stream-1");
    grow(&mut running, &inbound, &stream, "Told you.").await?;
    running.harness.friend_sees("Told you.").await?;
    let end = OutboundKind::StreamEnd {
        stream: stream.clone(),
        resuming: false,
    };
    let end = running.message(&inbound, end, String::new());
    let channel = Arc::clone(&running.channel);
    let drafts = channel
        .drafts()
        .context("the channel shows no drafts any more")?;
    drafts.close(&end).await?;
    let withdrawn = running.message(
        &inbound,
        OutboundKind::Withdrawn {
            stream: stream.clone(),
        },
        String::new(),
    );
    drafts.withdraw(&stream, &withdrawn).await?;
    running.harness.drafts_expire();
    running
        .harness
        .friend_sees_only(&["said by a tool"])
        .await?;
    running.stop().await.map(drop)
}

/// Shows two deltas of a stream in a program that is to be killed. Once the second is visible, the
/// channel has stored its note about the first.
async fn shown_by(
    killed: &mut RunningChannel<impl ChannelHarness>,
    program: &Doomed,
    inbound: &InboundMessage,
    stream: &StreamId,
) -> anyhow::Result<()> {
    for (more, shown) in [("Once", "Once"), (" upon", "Once upon")] {
        show(killed, program, inbound, stream, more).await?;
        killed.harness.friend_sees(shown).await?;
    }
    Ok(())
}

/// Gives a delta to the channel in a program that is to be killed.
async fn show(
    killed: &mut RunningChannel<impl ChannelHarness>,
    program: &Doomed,
    inbound: &InboundMessage,
    stream: &StreamId,
    text: &str,
) -> anyhow::Result<()> {
    let kind = OutboundKind::Delta {
        stream: stream.clone(),
    };
    let delta = killed.message(inbound, kind, text.to_owned());
    let channel = Arc::clone(&killed.channel);
    let append = async move {
        let drafts = channel
            .drafts()
            .context("the channel shows no drafts any more")?;
        anyhow::Ok(drafts.append(&delta).await?)
    };
    TaskTracker::new()
        .spawn_on(append, program.handle()?)
        .await?
}

/// Starts the channel again after its program was killed.
fn restarted<H: ChannelHarness>(killed: RunningChannel<H>) -> anyhow::Result<RunningChannel<H>> {
    let RunningChannel {
        mut harness, stage, ..
    } = killed;
    let channel = harness.connect()?;
    stage.change(|stage| stage.ledger = Some(Ledger::default()));
    Ok(RunningChannel::on(harness, channel, stage))
}

async fn draft_does_not_outlive_a_kill(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let program = Doomed::new()?;
    let mut killed = RunningChannel::start_on(program.handle()?, harness)?;
    let inbound = killed.greeted().await?;
    let stream = StreamId::from("stream-1");
    shown_by(&mut killed, &program, &inbound, &stream).await?;
    program.kill().await?;
    let mut running = restarted(killed)?;
    let next = running.receive("are you there").await?;
    let part = completing(&mut running, &inbound, &stream, "Once upon a time");
    running.sent(&part).await?;
    running
        .harness
        .friend_sees_only(&["Once upon a time"])
        .await?;
    let part = running.reply(&next, "Here I am");
    running.sent(&part).await?;
    running.receive("thank you").await?;
    running
        .harness
        .friend_sees_only(&["Once upon a time", "Here I am"])
        .await?;
    running.stop().await.map(drop)
}

/// The program is killed before it learns the name of the draft.
async fn draft_without_an_answer_does_not_outlive_a_kill(
    harness: impl ChannelHarness,
) -> anyhow::Result<()> {
    let program = Doomed::new()?;
    let mut killed = RunningChannel::start_on(program.handle()?, harness)?;
    let inbound = killed.greeted().await?;
    let stream = StreamId::from("stream-1");
    let cut = PlatformEvent::FailedSend(SendFault::CutAfterEffect);
    killed.harness.trigger(cut).await?;
    show(&mut killed, &program, &inbound, &stream, "Once").await?;
    killed.harness.friend_sees("Once").await?;
    program.kill().await?;
    let mut running = restarted(killed)?;
    let next = running.receive("are you there").await?;
    let part = running.reply(&next, "Here I am");
    running.sent(&part).await?;
    running.receive("thank you").await?;
    running.harness.friend_sees_only(&["Here I am"]).await?;
    running.stop().await.map(drop)
}

/// The program is killed after a draft became the reply, and before that is recorded.
async fn reply_in_a_draft_is_not_repeated_after_a_kill(
    harness: impl ChannelHarness,
) -> anyhow::Result<()> {
    if !harness.drafts_are_messages() {
        return Ok(());
    }
    let program = Doomed::new()?;
    let mut killed = RunningChannel::start_on(program.handle()?, harness)?;
    let inbound = killed.greeted().await?;
    let stream = StreamId::from("stream-1");
    shown_by(&mut killed, &program, &inbound, &stream).await?;
    let mut part = completing(&mut killed, &inbound, &stream, "Once upon a time");
    let (channel, sent) = (Arc::clone(&killed.channel), part.clone());
    let send = async move { channel.send(&sent).await };
    TaskTracker::new()
        .spawn_on(send, program.handle()?)
        .await??;
    program.kill().await?;
    let mut running = restarted(killed)?;
    running.receive("are you there").await?;
    part.in_doubt = matches!(
        running.channel.guarantee(),
        DeliveryGuarantee::Detectable | DeliveryGuarantee::PartlyDetectable
    );
    running.sent(&part).await?;
    running.receive("thank you").await?;
    running
        .harness
        .friend_sees_only(&["Once upon a time"])
        .await?;
    running.stop().await.map(drop)
}
