//! Redelivery: unsettled messages come back and report how far they had got.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use nanobot_bus::{Bus, BusError, EntryState, REDELIVERY_DELAY, SettleOutcome};
use tokio::time::Instant;

use super::{DeliverySnapshot, all_seen, channel, hold, inbound_message, next, reply, seen};
use crate::conformance::same;

pub(super) async fn one_live_consumer(bus: &impl Bus) -> anyhow::Result<()> {
    let messages = [
        inbound_message("1"),
        inbound_message("2"),
        inbound_message("3"),
    ];
    for message in &messages {
        bus.publish_inbound(message.clone()).await?;
    }
    let mut subscription = bus.inbound().await?;
    let second = bus.inbound().await;
    ensure!(
        matches!(second, Err(BusError::Consumed { .. })),
        "a second consumer is refused: {second:?}"
    );
    let first = next(&mut subscription).await?;
    let held = next(&mut subscription).await?;
    first.ack().await?;
    drop(subscription);

    let mut subscription = bus.inbound().await?;
    let [_, second, third] = messages;
    let again = hold(&mut subscription, 2).await?;
    let expected = vec![
        DeliverySnapshot::first(second),
        DeliverySnapshot::first(third),
    ];
    same(
        "what was held comes back, before what nobody has seen",
        &all_seen(&again),
        &expected,
    )?;
    drop(held);
    let marker = inbound_message("marker");
    bus.publish_inbound(marker.clone()).await?;
    same(
        "a holder of old changes nothing",
        &seen(&next(&mut subscription).await?),
        &DeliverySnapshot::first(marker),
    )?;

    let outbound = bus.outbound(&channel()).await?;
    let second = bus.outbound(&channel()).await;
    ensure!(
        matches!(second, Err(BusError::Consumed { .. })),
        "so it is with a channel: {second:?}"
    );
    drop(outbound);
    bus.outbound(&channel()).await?;
    Ok(())
}

pub(super) async fn dropped_deliveries_return(bus: &impl Bus) -> anyhow::Result<()> {
    let messages = [inbound_message("1"), inbound_message("2")];
    for message in &messages {
        bus.publish_inbound(message.clone()).await?;
    }
    let mut subscription = bus.inbound().await?;
    let dropped_at = Instant::now();
    drop(next(&mut subscription).await?);
    let [first, second] = messages.map(DeliverySnapshot::first);
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(seen(&next(&mut subscription).await?));
        let (is_back, elapsed) = (found.last() == Some(&first), dropped_at.elapsed());
        ensure!(
            !is_back || elapsed >= REDELIVERY_DELAY,
            "it comes back too soon: after {elapsed:?}"
        );
    }
    let next_first = [&second, &first, &second];
    // If the redelivery delay is already over, the first message may come back before the second.
    let in_place = [&first, &second, &second];
    ensure!(
        found.iter().eq(next_first) || found.iter().eq(in_place),
        "both come back: {found:#?}"
    );
    Ok(())
}

pub(super) async fn retries_wait(bus: &impl Bus) -> anyhow::Result<()> {
    const DELAY: Duration = Duration::from_millis(150);
    let messages = [inbound_message("1"), inbound_message("2")];
    for message in &messages {
        bus.publish_inbound(message.clone()).await?;
    }
    let [_, second] = messages;
    let mut subscription = bus.inbound().await?;
    next(&mut subscription)
        .await?
        .settle(SettleOutcome::RetryIn(Duration::MAX))
        .await?;
    let other = next(&mut subscription).await?;
    same(
        "later messages overtake it",
        &seen(&other),
        &DeliverySnapshot::first(second.clone()),
    )?;
    let asked_at = Instant::now();
    other.settle(SettleOutcome::RetryIn(DELAY)).await?;
    let again = next(&mut subscription).await?;
    same(
        "it comes back, and a long wait holds up nobody",
        &seen(&again),
        &DeliverySnapshot::again(second, 2),
    )?;
    ensure!(
        asked_at.elapsed() >= DELAY,
        "not before it is due: after {:?}",
        asked_at.elapsed()
    );
    again.ack().await?;
    drop(subscription);
    bus.publish_inbound(inbound_message("marker")).await?;
    let mut subscription = bus.inbound().await?;
    let marker = next(&mut subscription).await?;
    same(
        "a new consumer waits as well",
        &marker.message.content,
        &"marker".to_owned(),
    )?;
    marker.settle(SettleOutcome::PutOff(Duration::ZERO)).await?;
    let marker = next(&mut subscription).await?;
    same("what was put off was not tried", &marker.attempt, &1)?;
    marker.settle(SettleOutcome::PutOff(Duration::MAX)).await?;
    let last = inbound_message("last");
    bus.publish_inbound(last.clone()).await?;
    same(
        "what was put off is overtaken",
        &seen(&next(&mut subscription).await?),
        &DeliverySnapshot::first(last.clone()),
    )?;
    drop(subscription);
    let mut subscription = bus.inbound().await?;
    let again = hold(&mut subscription, 2).await?;
    let expected = vec![
        DeliverySnapshot::first(marker.message.clone()),
        DeliverySnapshot::first(last),
    ];
    same(
        "and due at once to the next consumer, in its place",
        &all_seen(&again),
        &expected,
    )
}

pub(super) async fn attempts(bus: &impl Bus) -> anyhow::Result<()> {
    let messages = [
        inbound_message("1"),
        inbound_message("2"),
        inbound_message("3"),
    ];
    for message in &messages {
        bus.publish_inbound(message.clone()).await?;
    }
    let mut subscription = bus.inbound().await?;
    let held = hold(&mut subscription, 3).await?;
    let begun = held.first().context("a first")?;
    begun.settle(SettleOutcome::Begin).await?;
    drop((held, subscription));
    let [first, second, third] = messages;
    let mut subscription = bus.inbound().await?;
    let mut held = hold(&mut subscription, 3).await?;
    let expected = vec![
        DeliverySnapshot::again(first.clone(), 2),
        DeliverySnapshot::first(second.clone()),
        DeliverySnapshot::first(third.clone()),
    ];
    same(
        "what waited behind one that was begun lost no attempt",
        &all_seen(&held),
        &expected,
    )?;
    let begun = held.remove(0);
    begun.settle(SettleOutcome::Begin).await?;
    begun.settle(SettleOutcome::Begin).await?;
    begun
        .settle(SettleOutcome::Extend(Duration::from_secs(1)))
        .await?;
    drop((begun, held, subscription));
    let mut subscription = bus.inbound().await?;
    let begun = next(&mut subscription).await?;
    same(
        "each begin is an attempt",
        &seen(&begun),
        &DeliverySnapshot::again(first.clone(), 4),
    )?;
    begun.settle(SettleOutcome::Begin).await?;
    begun.settle(SettleOutcome::PutOff(Duration::ZERO)).await?;
    drop(subscription);
    let mut subscription = bus.inbound().await?;
    let mut again = hold(&mut subscription, 3).await?;
    again.sort_by(|one, other| one.message.content.cmp(&other.message.content));
    let expected = vec![
        DeliverySnapshot::again(first, 4),
        DeliverySnapshot::first(second),
        DeliverySnapshot::first(third),
    ];
    same(
        "what was begun and put off was none",
        &all_seen(&again),
        &expected,
    )
}

pub(super) async fn doubt(bus: &impl Bus) -> anyhow::Result<()> {
    let message = reply(1);
    bus.publish_outbound(message.clone()).await?;
    let mut subscription = bus.outbound(&channel()).await?;
    let delivery = next(&mut subscription).await?;
    delivery.settle(SettleOutcome::Begin).await?;
    delivery
        .settle(SettleOutcome::RetryIn(Duration::ZERO))
        .await?;
    let delivery = next(&mut subscription).await?;
    same(
        "a refused send is no doubt",
        &seen(&delivery),
        &DeliverySnapshot::again(message.clone(), 2),
    )?;
    delivery.settle(SettleOutcome::Begin).await?;
    delivery.settle(SettleOutcome::PartSent(0)).await?;
    drop(delivery);
    let delivery = next(&mut subscription).await?;
    let doubtful = |attempt| DeliverySnapshot {
        parts_sent: 1,
        in_doubt: true,
        ..DeliverySnapshot::again(message.clone(), attempt)
    };
    same(
        "a send without an end is in doubt",
        &seen(&delivery),
        &doubtful(3),
    )?;
    delivery.settle(SettleOutcome::Begin).await?;
    delivery
        .settle(SettleOutcome::RetryIn(Duration::ZERO))
        .await?;
    let delivery = next(&mut subscription).await?;
    same(
        "a refusal does not lift an older doubt",
        &seen(&delivery),
        &doubtful(4),
    )?;
    delivery.settle(SettleOutcome::PartSent(1)).await?;
    delivery
        .settle(SettleOutcome::RetryIn(Duration::ZERO))
        .await?;
    let delivery = next(&mut subscription).await?;
    let sure = DeliverySnapshot {
        parts_sent: 2,
        ..DeliverySnapshot::again(message, 5)
    };
    same("a part that was sent lifts it", &seen(&delivery), &sure)?;

    let question = inbound_message("1");
    bus.publish_inbound(question.clone()).await?;
    let mut subscription = bus.inbound().await?;
    let delivery = next(&mut subscription).await?;
    delivery.settle(SettleOutcome::Begin).await?;
    drop(subscription);
    let mut subscription = bus.inbound().await?;
    same(
        "a person's message is never in doubt",
        &seen(&next(&mut subscription).await?),
        &DeliverySnapshot::again(question, 2),
    )
}

pub(super) async fn earlier_holders(bus: &impl Bus) -> anyhow::Result<()> {
    bus.publish_outbound(reply(1)).await?;
    let mut subscription = bus.outbound(&channel()).await?;
    let old = next(&mut subscription).await?;
    drop(subscription);
    let mut subscription = bus.outbound(&channel()).await?;
    let new = next(&mut subscription).await?;
    for outcome in [
        SettleOutcome::Begin,
        SettleOutcome::PartSent(0),
        SettleOutcome::RetryIn(Duration::ZERO),
    ] {
        let refused = old.settle(outcome.clone()).await;
        let pending = matches!(
            refused,
            Err(BusError::Conflict {
                state: EntryState::Pending,
                ..
            })
        );
        ensure!(
            pending,
            "an earlier holder may not say {outcome:?}: {refused:?}"
        );
    }
    old.ack().await?;
    let refused = new.settle(SettleOutcome::Begin).await;
    let sent = matches!(
        refused,
        Err(BusError::Conflict {
            state: EntryState::Sent,
            ..
        })
    );
    ensure!(
        sent,
        "what an earlier holder finished is not begun again: {refused:?}"
    );
    Ok(())
}
