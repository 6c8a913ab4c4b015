//! Channel states, and test messages through a channel.
//!
//! Decision: a test message goes through the gateway's own ledger and worker, so that it tests the
//! path that replies take. Its sender reads the outcome at once, so a failed one is discarded
//! instead of waiting in the inbox for a decision.

use std::time::Duration;

use nanobot_bus::{Bus, BusError, EntryState, Ledger, LedgerEntry, LedgerFilter, Queue};
use nanobot_types::{ChannelName, OutboundMessage, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Timeout for the delivery of a test message.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Poll interval of the ledger during a test.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of newest ledger entries searched for the test message.
const NEWEST: usize = 256;

/// State of one channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelState {
    /// Its name.
    pub name: ChannelName,
    /// `starting`, `running`, `degraded` or `failed`.
    pub state: String,
    /// Reason why the channel is not healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Time since which the channel has not been healthy, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// Provides the states of channels.
pub trait Channels: Send + Sync + std::fmt::Debug {
    /// Returns the states of all channels that run or should run.
    fn states(&self) -> Vec<ChannelState>;
}

/// Publishes a message and returns its ledger entry once it is settled, or after 30 seconds. The
/// entry of a message that was not sent is discarded after it was read.
pub(crate) async fn publish_and_wait(
    bus: &dyn Bus,
    ledger: &dyn Ledger,
    message: OutboundMessage,
) -> Result<LedgerEntry, BusError> {
    let key = message.key.clone();
    bus.publish_outbound(message).await?;
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        let newest = ledger
            .list(Queue::Outbound, LedgerFilter::All, NEWEST)
            .await?;
        let is_sent = |entry: &LedgerEntry| {
            entry
                .outbound
                .as_ref()
                .is_some_and(|message| message.key == key)
        };
        match newest.into_iter().find(is_sent) {
            Some(entry) if !entry.state.is_open() || Instant::now() >= deadline => {
                if matches!(entry.state, EntryState::Failed | EntryState::Uncertain)
                    && let Err(error) = ledger.discard(&entry.id).await
                {
                    tracing::warn!(%error, "a failed test message stays in the inbox");
                }
                return Ok(entry);
            }
            None if Instant::now() >= deadline => {
                return Err(BusError::Unknown {
                    id: key.to_string(),
                });
            }
            _ => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}
