//! Access: who is admitted. Everyone else notices no reaction at all.

use anyhow::{Context as _, ensure};
use nanobot_channel::{ChatKind, SenderId};

use super::Suite;
use super::harness::{Ability, ChannelHarness, ObservedChat};
use super::people::People as _;
use super::running::RunningChannel;
use super::stage::{AssistantStub, RoomPolicy, Strangers};
use crate::conformance::same;

/// Text that strangers receive when pairing is on.
const PAIRING_TEXT: &str = "Pairing code: K7QX2M";

pub(super) async fn run<H: ChannelHarness>(
    suite: &Suite<impl AsyncFn() -> anyhow::Result<H>>,
) -> anyhow::Result<()> {
    stranger_leaves_no_trace(suite.open().await?)
        .await
        .context("a stranger changes nothing")?;
    open_access_admits_everyone(suite.open().await?)
        .await
        .context("everybody may be let in")?;
    if suite.has(Ability::Pairing) {
        stranger_gets_the_pairing_text(suite.open().await?)
            .await
            .context("a stranger reads how to be let in")?;
    }
    if suite.has(Ability::Rooms) {
        room_messages_report_addressing(suite.open().await?)
            .await
            .context("a message of a room is told truthfully")?;
        ignored_room_messages_leave_no_trace(suite.open().await?)
            .await
            .context("the others of a room notice nothing")?;
    }
    if suite.has(Ability::Rooms) && suite.has(Ability::Pairing) {
        no_pairing_text_in_a_room(suite.open().await?)
            .await
            .context("nobody is asked in a room")?;
    }
    Ok(())
}

/// Waits until access is checked for the stranger, and returns the sender and the kind of chat.
async fn stranger(
    running: &RunningChannel<impl ChannelHarness>,
) -> anyhow::Result<(SenderId, ChatKind)> {
    let friend = running.harness.friend();
    let found = |stage: &AssistantStub| {
        stage
            .asked
            .iter()
            .find(|(sender, ..)| *sender != friend)
            .cloned()
    };
    let (sender, _, arrival) = running
        .stage
        .wait_for("a question about the stranger", found)
        .await?;
    Ok((sender, arrival.kind))
}

async fn stranger_leaves_no_trace(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running.harness.stranger_says("let me in").await?;
    same(
        "a direct chat",
        &stranger(&running).await?.1,
        &ChatKind::Direct,
    )?;
    let message = running.greeted().await?;
    ensure!(
        message.content.contains("hello"),
        "the stranger's message was handed over: {message:#?}"
    );
    let asked = running.stage.read(|stage| stage.asked.clone());
    ensure!(
        asked
            .iter()
            .any(|(sender, ..)| *sender == message.sender_id),
        "nobody asked about the friend"
    );
    same(
        "the stranger notices nothing",
        &running.harness.visible_actions(ObservedChat::Stranger),
        &Vec::new(),
    )?;
    same(
        "nothing is kept for the stranger",
        &running.stage.read(|stage| stage.kept.len()),
        &0,
    )?;
    running.stop().await.map(drop)
}

async fn open_access_admits_everyone(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running
        .stage
        .change(|stage| stage.strangers = Strangers::Allowed);
    let friend = running.greeted().await?;
    running.harness.stranger_says("me too").await?;
    let message = running.recorded("me too").await?;
    ensure!(
        message.sender_id != friend.sender_id,
        "two people have one id"
    );
    ensure!(
        message.session_key() != friend.session_key(),
        "two direct chats have one session"
    );
    running.stop().await.map(drop)
}

async fn stranger_gets_the_pairing_text(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running
        .stage
        .change(|stage| stage.strangers = Strangers::Asked(PAIRING_TEXT.to_owned()));
    running.harness.stranger_says("let me in").await?;
    let told = running.harness.stranger_was_told().await?;
    same(
        "what the stranger reads",
        &told,
        &vec![PAIRING_TEXT.to_owned()],
    )?;
    running.greeted().await?;
    same(
        "messages that were handed over",
        &running.stage.read(|stage| stage.arrived.len()),
        &1,
    )?;
    running.stop().await.map(drop)
}

async fn room_messages_report_addressing(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    let direct = running.greeted().await?;
    for (text, addressed) in [("just between us", false), ("what do you say", true)] {
        running.harness.friend_says_in_room(text, addressed).await?;
        let message = running.recorded(text).await?;
        let arrivals = running.stage.read(|stage| {
            let of_text = stage
                .arrived
                .iter()
                .filter(|(message, _)| message.content.contains(text));
            of_text
                .map(|(_, arrival)| (arrival.kind, arrival.addressed))
                .collect::<Vec<_>>()
        });
        same(text, &arrivals, &vec![(ChatKind::Group, addressed)])?;
        ensure!(
            message.session_key() != direct.session_key(),
            "a room and a direct chat have one session"
        );
        let asked = running.stage.read(|stage| {
            stage
                .asked
                .last()
                .map(|(_, chat, arrival)| (chat.clone(), arrival.addressed))
        });
        same(
            "access is asked about the same",
            &asked,
            &Some((message.chat_id, addressed)),
        )?;
    }
    running.stop().await.map(drop)
}

async fn ignored_room_messages_leave_no_trace(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running
        .stage
        .change(|stage| stage.room = RoomPolicy::AddressedOnly);
    running
        .harness
        .friend_says_in_room("not for you", false)
        .await?;
    running.harness.stranger_says_in_room("let me in").await?;
    running.greeted().await?;
    same(
        "what the room notices",
        &running.harness.visible_actions(ObservedChat::Room),
        &Vec::new(),
    )?;
    running.harness.friend_says_in_room("for you", true).await?;
    running.recorded("for you").await?;
    let texts = running.stage.read(|stage| {
        stage.ledger.as_ref().map(|ledger| {
            (
                ledger.messages.len(),
                ledger.holds("not for you"),
                ledger.holds("let me"),
            )
        })
    });
    same(
        "messages, and whether the others' are among them",
        &texts,
        &Some((2, false, false)),
    )?;
    running.stop().await.map(drop)
}

async fn no_pairing_text_in_a_room(harness: impl ChannelHarness) -> anyhow::Result<()> {
    let mut running = RunningChannel::with_ledger(harness)?;
    running
        .stage
        .change(|stage| stage.strangers = Strangers::Asked(PAIRING_TEXT.to_owned()));
    running.harness.stranger_says_in_room("let me in").await?;
    same("a room", &stranger(&running).await?.1, &ChatKind::Group)?;
    running.greeted().await?;
    same(
        "what the room notices",
        &running.harness.visible_actions(ObservedChat::Room),
        &Vec::new(),
    )?;
    running.stop().await.map(drop)
}
