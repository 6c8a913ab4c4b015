//! How a gateway's channels are, and messages that try them.
//!
//! Decision: a test message goes through the gateway's own ledger and worker, so that what is tried is
//! the way that replies go.

use std::time::Duration;

use nanobot_bus::{Bus, BusError, Ledger, LedgerEntry, LedgerFilter, Queue};
use nanobot_types::{ChannelName, OutboundMessage, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How long a test message is waited for.
const LONGEST_TEST: Duration = Duration::from_secs(30);
/// How often the ledger is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Among how many of the newest messages it is looked for.
const NEWEST: usize = 256;

/// How one channel is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelState {
    /// Its name.
    pub name: ChannelName,
    /// `starting`, `running`, `degraded` or `failed`.
    pub state: String,
    /// Why, where it is not well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Since when it is not well, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// Knows how channels are.
pub trait Channels: Send + Sync + std::fmt::Debug {
    /// How all channels are that run, or should.
    fn states(&self) -> Vec<ChannelState>;
}

/// Publishes a message and says how it stands once it is settled, or after half a minute.
pub(crate) async fn send_and_watch(
    bus: &dyn Bus,
    ledger: &dyn Ledger,
    message: OutboundMessage,
) -> Result<LedgerEntry, BusError> {
    let key = message.key.clone();
    bus.publish_outbound(message).await?;
    let deadline = Instant::now() + LONGEST_TEST;
    loop {
        let newest = ledger
            .list(Queue::Outbound, LedgerFilter::All, NEWEST)
            .await?;
        let is_it = |entry: &LedgerEntry| {
            entry
                .outbound
                .as_ref()
                .is_some_and(|message| message.key == key)
        };
        match newest.into_iter().find(is_it) {
            Some(entry) if !entry.state.is_open() || Instant::now() >= deadline => {
                return Ok(entry);
            }
            None if Instant::now() >= deadline => {
                return Err(BusError::Unknown {
                    id: key.to_string(),
                });
            }
            _ => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}
