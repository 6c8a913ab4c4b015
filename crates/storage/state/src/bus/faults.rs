//! Tests of the bus while the disk is full or not writable, and afterwards.

use nanobot_bus::{Accepted, Bus as _, BusError, Claims as _, Ledger as _, LedgerFilter, Queue};
use nanobot_types::InboundMessage;

use crate::database::Durability;
use crate::{SqliteBus, StateDb};

/// Returns a message of about 8 KB.
fn inbound_message(id: usize) -> InboundMessage {
    let mut message = InboundMessage::text("telegram", "7", "42", "words ".repeat(1_400));
    message.id = Some(id.to_string().into());
    message
}

async fn pragma(bus: &SqliteBus, statement: &'static str) {
    bus.db
        .write(Durability::Process, move |connection| {
            connection.execute_batch(statement)
        })
        .await
        .unwrap();
}

async fn open(home: &tempfile::TempDir) -> SqliteBus {
    SqliteBus::open(StateDb::open(home.path().join("state.db")).await.unwrap())
        .await
        .unwrap()
}

#[tokio::test]
async fn full_disk_refuses_messages_and_recovers() {
    let home = tempfile::tempdir().unwrap();
    let bus = open(&home).await;
    pragma(&bus, "PRAGMA max_page_count = 60").await;
    let outcomes =
        futures_util::future::join_all((0..100).map(|id| bus.publish_inbound(inbound_message(id))))
            .await;
    let accepted: Vec<_> = (0..100)
        .filter(|id| outcomes.get(*id).is_some_and(Result::is_ok))
        .collect();
    for outcome in outcomes
        .into_iter()
        .chain([bus.publish_inbound(inbound_message(100)).await])
    {
        match outcome {
            Ok(accepted) => assert_eq!(accepted, Accepted::New),
            Err(error) => assert!(
                matches!(error, BusError::Store { .. }) && error.is_transient(),
                "{error:?}"
            ),
        }
    }
    assert!(accepted.len() < 100, "{} fitted", accepted.len());
    let kept = bus
        .list(Queue::Inbound, LedgerFilter::Open, usize::MAX)
        .await
        .unwrap();
    assert_eq!(
        kept.len(),
        accepted.len(),
        "exactly the accepted messages are kept"
    );

    pragma(&bus, "PRAGMA max_page_count = 1000000").await;
    for id in 0..100 {
        let expected = if accepted.contains(&id) {
            Accepted::Duplicate
        } else {
            Accepted::New
        };
        assert_eq!(
            bus.publish_inbound(inbound_message(id)).await.unwrap(),
            expected,
            "{id}"
        );
    }
    let mut subscription = bus.inbound().await.unwrap();
    for _ in 0..100 {
        subscription.next().await.unwrap().ack().await.unwrap();
    }
}

#[tokio::test]
async fn consumer_survives_a_temporarily_locked_database() {
    let home = tempfile::tempdir().unwrap();
    let bus = open(&home).await;
    bus.publish_inbound(inbound_message(1)).await.unwrap();
    bus.publish_inbound(inbound_message(2)).await.unwrap();
    let mut subscription = bus.inbound().await.unwrap();
    let first = subscription.next().await.unwrap();
    pragma(&bus, "PRAGMA busy_timeout = 1").await;
    let intruder = rusqlite::Connection::open(bus.db.path()).unwrap();
    intruder.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(
        bus.publish_inbound(inbound_message(3)).await,
        Err(BusError::Store { .. })
    ));
    let refused = first.settle(nanobot_bus::SettleOutcome::Ack).await;
    assert!(
        matches!(refused, Err(BusError::Store { .. })),
        "{refused:?}"
    );
    drop(first);
    intruder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(
        bus.publish_inbound(inbound_message(3)).await.unwrap(),
        Accepted::New
    );
    let mut seen = Vec::new();
    for _ in 0..3 {
        let delivery = subscription.next().await.unwrap();
        seen.push((
            delivery.message.id.as_ref().unwrap().to_string(),
            delivery.attempt,
        ));
        delivery.ack().await.unwrap();
    }
    let expected = [("2", 1), ("3", 1), ("1", 1)].map(|(id, attempt)| (id.to_owned(), attempt));
    assert_eq!(seen, expected, "an unsettled delivery is redelivered");
}

#[tokio::test]
async fn failed_write_rolls_back_only_itself() {
    let home = tempfile::tempdir().unwrap();
    let bus = open(&home).await;
    let half_done = bus.db.write(Durability::Power, |connection| {
        connection.execute("INSERT INTO claim (slot, taken_at) VALUES ('half', 0)", [])?;
        connection.execute("INSERT INTO nowhere DEFAULT VALUES", [])
    });
    // Submitted together, so that they usually share one transaction.
    let (first, half_done, second) = futures_util::join!(
        bus.publish_inbound(inbound_message(1)),
        half_done,
        bus.publish_inbound(inbound_message(2))
    );
    assert_eq!(
        (first.unwrap(), second.unwrap()),
        (Accepted::New, Accepted::New)
    );
    assert!(half_done.is_err());
    assert!(
        bus.claim_once("half").await.unwrap(),
        "a failed job leaves no changes"
    );
}
