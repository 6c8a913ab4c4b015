//! Lossy messages (deltas, progress, hints): they keep their order and never displace a durable
//! message.

use anyhow::ensure;
use nanobot_bus::{Bus, Ledger, LedgerFilter, Queue};
use nanobot_types::{OutboundKind, OutboundMessage};

use super::{DeliverySnapshot, channel, hold, next, reply, reply_of, seen};
use crate::conformance::same;

fn progress(text: &str) -> OutboundMessage {
    reply_of(0, OutboundKind::Progress, text)
}

pub(super) async fn offers_keep_their_place(bus: &(impl Bus + Ledger)) -> anyhow::Result<()> {
    bus.offer(progress("nobody listens"));
    bus.publish_outbound(reply(1)).await?;
    let mut subscription = bus.outbound(&channel()).await?;
    let (before, between, after) = (progress("before"), progress("between"), progress("after"));
    let (second, third) = (reply(2), reply(3));
    bus.offer(before.clone());
    bus.publish_outbound(second.clone()).await?;
    bus.offer(between.clone());
    bus.publish_outbound(third.clone()).await?;
    bus.offer(after.clone());
    let mut elsewhere = progress("elsewhere");
    elsewhere.channel = "discord".into();
    bus.offer(elsewhere);
    next(&mut subscription).await?.ack().await?;
    let mut found = Vec::new();
    for _ in 0..5 {
        let delivery = next(&mut subscription).await?;
        found.push(seen(&delivery));
        delivery.ack().await?;
    }
    let expected = vec![
        DeliverySnapshot::lossy(before),
        DeliverySnapshot::first(second),
        DeliverySnapshot::lossy(between),
        DeliverySnapshot::first(third),
        DeliverySnapshot::lossy(after),
    ];
    same(
        "lossy and durable messages keep their order",
        &found,
        &expected,
    )?;
    let mut kept: Vec<_> = bus.list(Queue::Outbound, LedgerFilter::All, 10).await?;
    kept.reverse();
    let keys: Vec<_> = kept
        .into_iter()
        .filter_map(|entry| entry.outbound)
        .map(|message| message.key)
        .collect();
    same(
        "the ledger knows the durable ones",
        &keys,
        &vec![reply(1).key, reply(2).key, reply(3).key],
    )
}

pub(super) async fn offers_are_bounded(bus: &impl Bus) -> anyhow::Result<()> {
    const MANY: usize = 20_000;
    let mut subscription = bus.outbound(&channel()).await?;
    for n in 0..MANY {
        bus.offer(progress(&n.to_string()));
    }
    let answer = reply(1);
    bus.publish_outbound(answer.clone()).await?;
    let mut lossy: usize = 0;
    let durable = loop {
        let delivery = next(&mut subscription).await?;
        if delivery.is_durable() {
            break delivery;
        }
        same(
            "those that come are in order",
            &delivery.message.content,
            &lossy.to_string(),
        )?;
        lossy += 1;
    };
    same(
        "what is durable comes through",
        &seen(&durable),
        &DeliverySnapshot::first(answer),
    )?;
    ensure!(
        (1..MANY).contains(&lossy),
        "{lossy} of {MANY} lossy messages were kept for a slow consumer"
    );
    drop(subscription);
    let mut subscription = bus.outbound(&channel()).await?;
    let held = hold(&mut subscription, 1).await?;
    ensure!(
        held.iter().all(nanobot_bus::Delivery::is_durable),
        "a new consumer sees no old lossy message"
    );
    Ok(())
}
