//! Durability: messages, outcomes and claims survive the end of the process.

use std::time::Duration;

use anyhow::Context as _;
use nanobot_bus::{Accepted, EntryState, LedgerFilter, Queue, SettleOutcome};

use super::{DeliverySnapshot, WholeBus, all_seen, channel, hold, inbound_message, next, reply};
use crate::conformance::same;

pub(super) async fn inbound_survives<B: WholeBus>(
    bus: B,
    reopen: &impl AsyncFn(B) -> anyhow::Result<B>,
) -> anyhow::Result<()> {
    let messages: Vec<_> = ["1", "2", "3", "4", "5"].map(inbound_message).into();
    for message in &messages {
        bus.publish_inbound(message.clone()).await?;
    }
    let mut subscription = bus.inbound().await?;
    let mut held = hold(&mut subscription, 4).await?.into_iter();
    let (first, second, third) = (held.next(), held.next(), held.next());
    first.context("a first")?.ack().await?;
    second
        .context("a second")?
        .settle(SettleOutcome::RetryIn(Duration::ZERO))
        .await?;
    third
        .context("a third")?
        .settle(SettleOutcome::Fail("no".to_owned()))
        .await?;
    let fourth = held.next().context("a fourth")?;
    fourth.settle(SettleOutcome::Begin).await?;
    let before = bus.list(Queue::Inbound, LedgerFilter::All, 10).await?;
    let settled = |entries: Vec<nanobot_bus::LedgerEntry>| -> Vec<_> {
        entries
            .into_iter()
            .filter(|entry| !entry.state.is_open())
            .collect()
    };
    drop((fourth, held, subscription));

    let bus = reopen(bus).await?;
    for message in &messages {
        same(
            "what was accepted is known",
            &bus.publish_inbound(message.clone()).await?,
            &Accepted::Duplicate,
        )?;
    }
    let after = bus.list(Queue::Inbound, LedgerFilter::All, 10).await?;
    same(
        "what was settled stays so",
        &settled(after),
        &settled(before),
    )?;
    let mut subscription = bus.inbound().await?;
    let mut found = Vec::new();
    for _ in 0..3 {
        let delivery = next(&mut subscription).await?;
        found.push((
            delivery.message.clone(),
            delivery.attempt,
            delivery.in_doubt,
        ));
        delivery.ack().await?;
    }
    let attempts = [(1, 2), (3, 2), (4, 1)];
    let open: Vec<_> = attempts
        .into_iter()
        .filter_map(|(n, attempt)| Some((messages.get(n)?.clone(), attempt, false)))
        .collect();
    same(
        "what was not settled comes back, in order, with what was tried counted",
        &found,
        &open,
    )?;
    let marker = inbound_message("marker");
    bus.publish_inbound(marker.clone()).await?;
    let held = hold(&mut subscription, 1).await?;
    same(
        "and nothing else",
        &all_seen(&held),
        &vec![DeliverySnapshot::first(marker)],
    )
}

pub(super) async fn outbound_survives<B: WholeBus>(
    bus: B,
    reopen: &impl AsyncFn(B) -> anyhow::Result<B>,
) -> anyhow::Result<()> {
    let messages: Vec<_> = (0..5).map(reply).collect();
    for message in &messages {
        bus.publish_outbound(message.clone()).await?;
    }
    let mut subscription = bus.outbound(&channel()).await?;
    let held = hold(&mut subscription, 5).await?;
    for (position, delivery) in held.iter().enumerate() {
        match position {
            0 => delivery.settle(SettleOutcome::Ack).await?,
            1 => delivery.settle(SettleOutcome::Begin).await?,
            2 => {
                delivery.settle(SettleOutcome::Begin).await?;
                delivery.settle(SettleOutcome::PartSent(0)).await?;
            }
            3 => {
                delivery
                    .settle(SettleOutcome::Uncertain("?".to_owned()))
                    .await?;
            }
            _ => {}
        }
    }
    drop((held, subscription));

    let bus = reopen(bus).await?;
    for message in &messages {
        same(
            "what was accepted is known",
            &bus.publish_outbound(message.clone()).await?,
            &Accepted::Duplicate,
        )?;
    }
    let mut subscription = bus.outbound(&channel()).await?;
    let held = hold(&mut subscription, 3).await?;
    let mut open = [1, 2, 4]
        .into_iter()
        .filter_map(|n| messages.get(n).cloned())
        .map(DeliverySnapshot::first);
    let begun = open.next().map(|seen| DeliverySnapshot {
        attempt: 2,
        in_doubt: true,
        ..seen
    });
    let partly = open.next().map(|seen| DeliverySnapshot {
        attempt: 2,
        in_doubt: true,
        parts_sent: 1,
        ..seen
    });
    let expected: Vec<_> = begun.into_iter().chain(partly).chain(open).collect();
    same(
        "what was begun is in doubt, what was not is not",
        &all_seen(&held),
        &expected,
    )?;
    let mut states: Vec<_> = bus.list(Queue::Outbound, LedgerFilter::All, 10).await?;
    states.reverse();
    let states: Vec<_> = states.into_iter().map(|entry| entry.state).collect();
    let open = EntryState::Pending;
    same(
        "every state",
        &states,
        &vec![EntryState::Sent, open, open, EntryState::Uncertain, open],
    )
}

pub(super) async fn claims_survive<B: WholeBus>(
    bus: B,
    reopen: &impl AsyncFn(B) -> anyhow::Result<B>,
) -> anyhow::Result<()> {
    const LONG: Duration = Duration::from_secs(3600);
    bus.claim_once("slot").await?;
    let lease = bus.lease("poller", "a", LONG).await?;
    let bus = reopen(bus).await?;
    same("a slot stays taken", &bus.claim_once("slot").await?, &false)?;
    same(
        "a lease is still held",
        &bus.lease("poller", "b", LONG).await?,
        &None,
    )?;
    same(
        "by its owner",
        &bus.lease("poller", "a", LONG).await?,
        &lease,
    )
}
