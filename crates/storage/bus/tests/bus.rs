//! The in-process bus keeps every promise of the contract and reports when it is full.

use nanobot_bus::{Bus as _, BusError, Ledger as _, LedgerFilter, MemoryBus, Queue};
use nanobot_testkit::conformance;
use nanobot_types::InboundMessage;

fn inbound_message(id: &str) -> InboundMessage {
    let mut message = InboundMessage::text("cli", "user", "direct", "hi");
    message.id = Some(id.into());
    message
}

#[tokio::test(start_paused = true)]
async fn conforms_to_the_bus_contract() -> anyhow::Result<()> {
    conformance::bus(async || Ok(MemoryBus::new())).await
}

#[tokio::test]
async fn full_queue_refuses_until_a_delivery_is_settled() -> anyhow::Result<()> {
    let bus = MemoryBus::bounded(2);
    bus.publish_inbound(inbound_message("1")).await?;
    bus.publish_inbound(inbound_message("2")).await?;
    let refused = bus.publish_inbound(inbound_message("3")).await;
    assert!(
        matches!(
            refused,
            Err(BusError::Full {
                queue: Queue::Inbound,
                bound: 2
            })
        ),
        "{refused:?}"
    );
    let mut subscription = bus.inbound().await?;
    if let Some(delivery) = subscription.next().await {
        delivery.ack().await?;
    }
    bus.publish_inbound(inbound_message("3")).await?;
    assert_eq!(
        bus.list(Queue::Inbound, LedgerFilter::Open, 10)
            .await?
            .len(),
        2
    );
    Ok(())
}

#[tokio::test]
async fn close_ends_subscriptions_and_keeps_the_ledger() -> anyhow::Result<()> {
    let bus = MemoryBus::new();
    bus.publish_inbound(inbound_message("1")).await?;
    let mut subscription = bus.inbound().await?;
    let mut replies = bus.outbound(&"cli".into()).await?;
    bus.close();
    assert!(subscription.next().await.is_none());
    assert!(replies.next().await.is_none());
    drop(subscription);
    assert!(matches!(bus.inbound().await, Err(BusError::Closed)));
    assert!(matches!(
        bus.outbound(&"other".into()).await,
        Err(BusError::Closed)
    ));
    assert_eq!(
        bus.list(Queue::Inbound, LedgerFilter::Open, 10)
            .await?
            .len(),
        1
    );
    Ok(())
}
