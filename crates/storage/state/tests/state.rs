//! The state database from outside: contract, files, crashes, locks.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

#[path = "state/contract.rs"]
mod contract;
#[path = "state/files.rs"]
mod files;
#[cfg(target_os = "linux")]
#[path = "state/full.rs"]
mod full;
#[path = "state/kill.rs"]
mod kill;
#[path = "state/lock.rs"]
mod lock;
#[path = "state/retention.rs"]
mod retention;
#[path = "state/search.rs"]
mod search;
#[path = "state/spend.rs"]
mod spend;

use std::path::Path;

use nanobot_bus::{Delivery, Subscription};
use nanobot_state::{SqliteBus, StateDb};
use nanobot_testkit::WAIT_LIMIT;
use nanobot_types::{InboundMessage, OutboundKey, OutboundKind, OutboundMessage};

async fn open(path: &Path) -> SqliteBus {
    SqliteBus::open(StateDb::open(path).await.unwrap())
        .await
        .unwrap()
}

fn inbound_message(id: &str) -> InboundMessage {
    let mut message = InboundMessage::text("telegram", "7", "42", id);
    message.id = Some(id.into());
    message
}

fn reply(turn: &str, position: u32) -> OutboundMessage {
    let key = OutboundKey {
        turn: turn.into(),
        position,
    };
    OutboundMessage::in_reply_to(
        &inbound_message(turn),
        key,
        OutboundKind::Final,
        "an answer".to_owned(),
    )
}

async fn next<T>(subscription: &mut Subscription<T>) -> Delivery<T> {
    tokio::time::timeout(WAIT_LIMIT, subscription.next())
        .await
        .unwrap()
        .unwrap()
}
