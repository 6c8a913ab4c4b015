//! The ledger: every message ends in a state that can be looked up, and a person can change some of
//! these states.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use nanobot_bus::{
    Bus, BusError, EntryState, Ledger, LedgerEntry, LedgerFilter, Queue, SettleOutcome,
};

use super::{DeliverySnapshot, channel, inbound_message, next, reply, seen};
use crate::conformance::same;

/// Returns each outcome with the states it leads to, inbound and outbound, and the recorded reason.
fn ends() -> Vec<(SettleOutcome, EntryState, EntryState, Option<String>)> {
    let why = "because".to_owned();
    vec![
        (
            SettleOutcome::Ack,
            EntryState::Answered,
            EntryState::Sent,
            None,
        ),
        (
            SettleOutcome::Uncertain(why.clone()),
            EntryState::Failed,
            EntryState::Uncertain,
            Some(why.clone()),
        ),
        (
            SettleOutcome::Fail(why.clone()),
            EntryState::Failed,
            EntryState::Failed,
            Some(why.clone()),
        ),
        (
            SettleOutcome::Discard(why.clone()),
            EntryState::Dropped,
            EntryState::Expired,
            Some(why),
        ),
    ]
}

pub(super) async fn outcomes(bus: &(impl Bus + Ledger)) -> anyhow::Result<()> {
    let mut inbound = bus.inbound().await?;
    let mut outbound = bus.outbound(&channel()).await?;
    for (position, (outcome, answered, sent, why)) in (0..).zip(ends()) {
        let (question, answer) = (inbound_message(&position.to_string()), reply(position));
        bus.publish_inbound(question.clone()).await?;
        bus.publish_outbound(answer.clone()).await?;
        let person = next(&mut inbound).await?;
        let to_person = next(&mut outbound).await?;
        same(
            "it is pending",
            &newest(bus, Queue::Outbound).await?.state,
            &EntryState::Pending,
        )?;
        to_person
            .settle(SettleOutcome::Extend(Duration::from_secs(1)))
            .await?;
        to_person.settle(SettleOutcome::Begin).await?;
        same(
            "it is being sent",
            &newest(bus, Queue::Outbound).await?.state,
            &EntryState::Sending,
        )?;
        person.settle(outcome.clone()).await?;
        to_person.settle(outcome.clone()).await?;

        let entry = newest(bus, Queue::Inbound).await?;
        let expected = LedgerEntry {
            state: answered,
            why: why.clone(),
            attempts: 1,
            inbound: Some(question),
            ..entry.clone()
        };
        same("an inbound end", &entry, &expected)?;
        let entry = newest(bus, Queue::Outbound).await?;
        let expected = LedgerEntry {
            state: sent,
            why,
            attempts: 1,
            outbound: Some(answer),
            ..entry.clone()
        };
        same("an outbound end", &entry, &expected)?;
        same(
            "the same entry by its id",
            &bus.show(&entry.id).await?,
            &entry,
        )?;
        for again in [
            SettleOutcome::Ack,
            SettleOutcome::RetryIn(Duration::ZERO),
            SettleOutcome::Begin,
        ] {
            let refused = to_person.settle(again.clone()).await;
            let conflict =
                matches!(&refused, Err(BusError::Conflict { state, .. }) if *state == sent);
            ensure!(
                conflict,
                "what is {sent} stays so after {again:?}: {refused:?}"
            );
        }
    }
    drop((inbound, outbound));
    let (question, answer) = (inbound_message("marker"), reply(99));
    bus.publish_inbound(question.clone()).await?;
    bus.publish_outbound(answer.clone()).await?;
    let person = next(&mut bus.inbound().await?).await?;
    same(
        "what is settled does not come back",
        &seen(&person),
        &DeliverySnapshot::first(question),
    )?;
    let to_person = next(&mut bus.outbound(&channel()).await?).await?;
    same(
        "in either direction",
        &seen(&to_person),
        &DeliverySnapshot::first(answer),
    )
}

pub(super) async fn listing(bus: &(impl Bus + Ledger)) -> anyhow::Result<()> {
    for position in 0..4 {
        bus.publish_outbound(reply(position)).await?;
    }
    bus.publish_inbound(inbound_message("1")).await?;
    let mut subscription = bus.outbound(&channel()).await?;
    let outcomes = [
        SettleOutcome::Ack,
        SettleOutcome::Fail("no".to_owned()),
        SettleOutcome::Uncertain("?".to_owned()),
    ];
    for outcome in outcomes {
        next(&mut subscription).await?.settle(outcome).await?;
    }
    let table = [
        (Queue::Outbound, LedgerFilter::All, 10, vec![3, 2, 1, 0]),
        (Queue::Outbound, LedgerFilter::All, 2, vec![3, 2]),
        (Queue::Outbound, LedgerFilter::Open, 10, vec![3]),
        (Queue::Outbound, LedgerFilter::Failed, 10, vec![1]),
        (Queue::Outbound, LedgerFilter::Uncertain, 10, vec![2]),
        (Queue::Outbound, LedgerFilter::All, 0, vec![]),
    ];
    for (queue, filter, limit, expected) in table {
        let found = bus.list(queue, filter, limit).await?;
        let positions: Vec<u32> = found
            .iter()
            .filter_map(|e| e.outbound.as_ref())
            .map(|m| m.key.position)
            .collect();
        same(
            &format!("{limit} of {filter:?}, newest first"),
            &positions,
            &expected,
        )?;
    }
    let inbound = bus
        .list(Queue::Inbound, LedgerFilter::Open, usize::MAX)
        .await?;
    let contents: Vec<_> = inbound
        .into_iter()
        .filter_map(|entry| entry.inbound)
        .map(|m| m.content)
        .collect();
    same("the other queue", &contents, &vec!["1".to_owned()])?;
    for id in ["999999", "0", "-1", "no number", ""] {
        let found = [
            bus.show(id).await.map(drop),
            bus.retry(id).await,
            bus.discard(id).await,
        ];
        let unknown = found
            .iter()
            .all(|found| matches!(found, Err(BusError::Unknown { id: named }) if named == id));
        ensure!(unknown, "there is no entry {id:?}: {found:?}");
    }
    Ok(())
}

pub(super) async fn a_person_decides(bus: &(impl Bus + Ledger)) -> anyhow::Result<()> {
    let question = inbound_message("1");
    bus.publish_inbound(question.clone()).await?;
    let mut subscription = bus.inbound().await?;
    next(&mut subscription)
        .await?
        .settle(SettleOutcome::Fail("no".to_owned()))
        .await?;
    let id = newest(bus, Queue::Inbound).await?.id;
    bus.retry(&id).await?;
    let delivery = next(&mut subscription).await?;
    same(
        "what failed is handed out anew",
        &seen(&delivery),
        &DeliverySnapshot::first(question),
    )?;
    let refused = bus.retry(&id).await;
    ensure!(
        matches!(refused, Err(BusError::Conflict { .. })),
        "what is open cannot be retried: {refused:?}"
    );
    bus.discard(&id).await?;
    let entry = bus.show(&id).await?;
    same(
        "what is open can be dropped",
        &entry.state,
        &EntryState::Dropped,
    )?;
    ensure!(entry.why.is_some(), "and says why");
    let refused = delivery.ack().await;
    ensure!(
        matches!(refused, Err(BusError::Conflict { .. })),
        "then it is settled: {refused:?}"
    );
    let refused = bus.discard(&id).await;
    ensure!(
        matches!(refused, Err(BusError::Conflict { .. })),
        "once: {refused:?}"
    );
    bus.retry(&id).await?;
    next(&mut subscription)
        .await?
        .settle(SettleOutcome::Fail("no".to_owned()))
        .await?;
    bus.discard(&id).await?;
    same(
        "what failed can be dropped",
        &bus.show(&id).await?.state,
        &EntryState::Dropped,
    )?;

    let answer = reply(1);
    bus.publish_outbound(answer.clone()).await?;
    bus.publish_outbound(reply(2)).await?;
    let id = newest(bus, Queue::Outbound).await?.id;
    bus.discard(&id).await?;
    same(
        "a message to a person expires",
        &bus.show(&id).await?.state,
        &EntryState::Expired,
    )?;
    let mut subscription = bus.outbound(&channel()).await?;
    let delivery = next(&mut subscription).await?;
    delivery.settle(SettleOutcome::Begin).await?;
    delivery.settle(SettleOutcome::PartSent(0)).await?;
    delivery
        .settle(SettleOutcome::Uncertain("?".to_owned()))
        .await?;
    let marker = reply(3);
    bus.publish_outbound(marker.clone()).await?;
    same(
        "what expired is not delivered",
        &next(&mut subscription).await?.message,
        &marker,
    )?;
    let uncertain = bus
        .list(Queue::Outbound, LedgerFilter::Uncertain, 1)
        .await?;
    let id = &uncertain
        .first()
        .context("an uncertain entry is listed")?
        .id;
    bus.retry(id).await?;
    let expected = DeliverySnapshot {
        parts_sent: 1,
        ..DeliverySnapshot::first(answer)
    };
    same(
        "what is retried has no doubt",
        &seen(&next(&mut subscription).await?),
        &expected,
    )
}

async fn newest(bus: &impl Ledger, queue: Queue) -> anyhow::Result<LedgerEntry> {
    bus.list(queue, LedgerFilter::All, 1)
        .await?
        .pop()
        .context("the ledger is empty")
}
