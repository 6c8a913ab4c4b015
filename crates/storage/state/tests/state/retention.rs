//! Retention, and handling of corrupt rows.

use std::time::Duration;

use nanobot_bus::{
    Accepted, Bus as _, BusError, EntryState, Ledger as _, LedgerFilter, Queue, SettleOutcome,
};
use rusqlite::Connection;

use crate::{inbound_message, next, open, reply};

#[tokio::test]
async fn prune_removes_only_old_settled_entries() {
    let home = tempfile::tempdir().unwrap();
    let bus = open(&home.path().join("state.db")).await;
    for id in ["1", "2", "3"] {
        bus.publish_inbound(inbound_message(id)).await.unwrap();
    }
    let mut subscription = bus.inbound().await.unwrap();
    next(&mut subscription).await.ack().await.unwrap();
    let held = next(&mut subscription).await;
    assert_eq!(bus.prune(Duration::from_secs(60)).await.unwrap(), 0);
    // Repeats until the settled entry is older than zero.
    while bus.prune(Duration::ZERO).await.unwrap() == 0 {}
    let kept = bus
        .list(Queue::Inbound, LedgerFilter::All, 10)
        .await
        .unwrap();
    let kept: Vec<_> = kept
        .into_iter()
        .filter_map(|entry| entry.inbound)
        .map(|message| message.content)
        .collect();
    assert_eq!(kept, ["3", "2"]);
    assert_eq!(
        bus.publish_inbound(inbound_message("1")).await.unwrap(),
        Accepted::New
    );
    assert_eq!(
        bus.publish_inbound(inbound_message("2")).await.unwrap(),
        Accepted::Duplicate
    );
    drop(held);
}

#[tokio::test]
async fn retry_delay_is_limited_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let bus = open(&path).await;
    bus.publish_outbound(reply("turn", 1)).await.unwrap();
    let mut subscription = bus.outbound(&"telegram".into()).await.unwrap();
    next(&mut subscription)
        .await
        .settle(SettleOutcome::RetryIn(Duration::from_secs(30 * 24 * 3600)))
        .await
        .unwrap();
    bus.close().await;
    let wait = || {
        let due: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT due_at FROM ledger", [], |row| row.get(0))
            .unwrap();
        Duration::from_millis(u64::try_from(due - chrono::Utc::now().timestamp_millis()).unwrap())
    };
    assert!(wait() > Duration::from_secs(29 * 24 * 3600));
    let bus = open(&path).await;
    bus.close().await;
    assert!(wait() <= Duration::from_secs(3600));
}

#[tokio::test]
async fn unreadable_message_fails_alone() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let bus = open(&path).await;
    for id in ["1", "2", "3"] {
        bus.publish_inbound(inbound_message(id)).await.unwrap();
    }
    bus.close().await;
    Connection::open(&path)
        .unwrap()
        .execute("UPDATE ledger SET body = '{\"id\":' WHERE id = 2", [])
        .unwrap();
    let bus = open(&path).await;
    let mut subscription = bus.inbound().await.unwrap();
    assert_eq!(
        next(&mut subscription).await.message,
        stored_message(&bus, "1").await
    );
    assert_eq!(next(&mut subscription).await.message.content, "3");
    let entry = bus.show("2").await.unwrap();
    assert_eq!((entry.state, entry.inbound), (EntryState::Failed, None));
    assert!(entry.why.unwrap().contains("cannot be read"));
}

/// Returns the message as the ledger has it, with its own time of receipt.
async fn stored_message(bus: &nanobot_state::SqliteBus, id: &str) -> nanobot_types::InboundMessage {
    bus.show(id).await.unwrap().inbound.unwrap()
}

#[tokio::test]
async fn close_refuses_messages_and_ends_subscriptions() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let bus = open(&path).await;
    bus.publish_inbound(inbound_message("1")).await.unwrap();
    let mut subscription = bus.inbound().await.unwrap();
    let delivery = next(&mut subscription).await;
    bus.close().await;
    assert!(subscription.next().await.is_none());
    assert!(matches!(
        bus.publish_inbound(inbound_message("2")).await,
        Err(BusError::Closed)
    ));
    assert!(matches!(delivery.ack().await, Err(BusError::Closed)));
    let log = home.path().join("state.db-wal");
    assert!(!log.exists(), "a clean end leaves no write-ahead log");
    bus.close().await;
}
