//! Conformance suites for [`Bus`], [`Ledger`] and [`Claims`], which one implementation provides
//! together.
//!
//! To show that a queue holds nothing more, the suites publish a marker after the last message
//! instead of waiting for silence. They wait for real delays of at most one or two seconds; a bus
//! that uses tokio's clock may run them with time paused.

mod claims;
mod durability;
mod ledger;
mod lossy;
mod queues;
mod redelivery;

use anyhow::Context as _;
use nanobot_bus::{Bus, Claims, Delivery, Ledger, Subscription};
use nanobot_types::{ChannelName, InboundMessage, OutboundKey, OutboundKind, OutboundMessage};

use crate::WAIT_LIMIT;

/// All contracts of a bus: the queues, their ledger and the claims.
pub trait WholeBus: Bus + Ledger + Claims {}

impl<B: Bus + Ledger + Claims> WholeBus for B {}

/// Runs the suite that every bus has to pass. `make` returns a new, empty bus each time.
///
/// # Errors
/// Returns an error that names the first promise the bus breaks.
pub async fn bus<B: WholeBus>(make: impl AsyncFn() -> anyhow::Result<B>) -> anyhow::Result<()> {
    queues::messages_arrive_whole_and_in_order(&make().await?)
        .await
        .context("messages arrive whole and in order")?;
    queues::waiting_consumers_are_woken(&make().await?)
        .await
        .context("waiting consumers are woken")?;
    queues::inbound_duplicates(&make().await?)
        .await
        .context("inbound duplicates")?;
    queues::outbound_duplicates(&make().await?)
        .await
        .context("outbound duplicates")?;
    queues::racing_publishers(&make().await?)
        .await
        .context("racing publishers")?;
    queues::channels_are_kept_apart(&make().await?)
        .await
        .context("channels are kept apart")?;
    redelivery::one_live_consumer(&make().await?)
        .await
        .context("one live consumer")?;
    redelivery::dropped_deliveries_return(&make().await?)
        .await
        .context("dropped deliveries return")?;
    redelivery::retries_wait(&make().await?)
        .await
        .context("retries wait")?;
    redelivery::attempts(&make().await?)
        .await
        .context("attempts are what was begun")?;
    redelivery::doubt(&make().await?).await.context("doubt")?;
    redelivery::earlier_holders(&make().await?)
        .await
        .context("earlier holders")?;
    lossy::offers_keep_their_place(&make().await?)
        .await
        .context("offers keep their place")?;
    lossy::offers_are_bounded(&make().await?)
        .await
        .context("offers are bounded")?;
    ledger::outcomes(&make().await?).await.context("outcomes")?;
    ledger::listing(&make().await?).await.context("listing")?;
    ledger::a_person_decides(&make().await?)
        .await
        .context("a person decides")?;
    claims::slots(&make().await?)
        .await
        .context("slots are claimed once")?;
    claims::leases(&make().await?).await.context("leases")
}

/// Runs the suite for a bus that outlives its process. `make` returns a new, empty bus each time.
/// `reopen` ends a bus without closing it, as far as that is possible within one process, and
/// returns its successor.
///
/// # Errors
/// Returns an error that names the first promise the bus breaks.
pub async fn bus_durability<B: WholeBus>(
    make: impl AsyncFn() -> anyhow::Result<B>,
    reopen: impl AsyncFn(B) -> anyhow::Result<B>,
) -> anyhow::Result<()> {
    durability::inbound_survives(make().await?, &reopen)
        .await
        .context("inbound messages survive")?;
    durability::outbound_survives(make().await?, &reopen)
        .await
        .context("outbound messages survive")?;
    durability::claims_survive(make().await?, &reopen)
        .await
        .context("claims survive")
}

fn channel() -> ChannelName {
    "telegram".into()
}

/// Returns an inbound message from a person; `id` is also its text.
fn inbound_message(id: &str) -> InboundMessage {
    let mut message = InboundMessage::text("telegram", "7", "42", id);
    message.id = Some(id.into());
    message
}

/// Returns an outbound reply, the `position`th of its turn.
fn reply(position: u32) -> OutboundMessage {
    reply_of(position, OutboundKind::Final, "an answer")
}

fn reply_of(position: u32, kind: OutboundKind, content: &str) -> OutboundMessage {
    let key = OutboundKey {
        turn: "turn".into(),
        position,
    };
    OutboundMessage::in_reply_to(&inbound_message("question"), key, kind, content.to_owned())
}

async fn next<T>(subscription: &mut Subscription<T>) -> anyhow::Result<Delivery<T>> {
    tokio::time::timeout(WAIT_LIMIT, subscription.next())
        .await
        .context("waited in vain for a delivery")?
        .context("the subscription ended")
}

/// Snapshot of a delivery as its consumer sees it.
#[derive(Debug, PartialEq)]
struct DeliverySnapshot<T> {
    message: T,
    attempt: u32,
    parts_sent: u32,
    in_doubt: bool,
    durable: bool,
}

impl<T> DeliverySnapshot<T> {
    /// Returns the snapshot of a message that is delivered for the first time.
    fn first(message: T) -> Self {
        Self::again(message, 1)
    }

    fn again(message: T, attempt: u32) -> Self {
        Self {
            message,
            attempt,
            parts_sent: 0,
            in_doubt: false,
            durable: true,
        }
    }

    fn lossy(message: T) -> Self {
        Self {
            durable: false,
            ..Self::first(message)
        }
    }
}

fn seen<T: Clone>(delivery: &Delivery<T>) -> DeliverySnapshot<T> {
    DeliverySnapshot {
        message: delivery.message.clone(),
        attempt: delivery.attempt,
        parts_sent: delivery.parts_sent,
        in_doubt: delivery.in_doubt,
        durable: delivery.is_durable(),
    }
}

/// Takes `count` deliveries and leaves them unsettled.
async fn hold<T>(
    subscription: &mut Subscription<T>,
    count: usize,
) -> anyhow::Result<Vec<Delivery<T>>> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(next(subscription).await?);
    }
    Ok(held)
}

/// Returns the snapshots of several deliveries.
fn all_seen<T: Clone>(deliveries: &[Delivery<T>]) -> Vec<DeliverySnapshot<T>> {
    deliveries.iter().map(seen).collect()
}
