//! Fails orphaned messages, those to channels that do not run here, so that none waits unseen for
//! ever.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{Bus, BusError, Ledger, LedgerFilter, Queue, SettleOutcome};
use nanobot_channel::ChannelName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Interval between scans of the ledger.
const SCAN_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of open messages read in one scan.
const MAX_SCANNED: usize = 256;
/// Time without a message after which a queue counts as empty.
const EMPTY_AFTER: Duration = Duration::from_millis(100);

/// Finds and fails messages whose channel does not run.
pub(crate) struct Orphans {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// The channels that run here.
    pub(crate) channels: watch::Receiver<BTreeSet<ChannelName>>,
    pub(crate) cancel: CancellationToken,
}

impl Orphans {
    /// Scans the ledger periodically until cancelled.
    pub(crate) async fn run(self) {
        let scans = async {
            loop {
                if let Err(error) = self.fail_orphans().await {
                    tracing::warn!(%error, "cannot list messages to missing channels");
                }
                tokio::time::sleep(SCAN_INTERVAL).await;
            }
        };
        // Cancelling this at any point is safe: the messages stay in the ledger.
        self.cancel.run_until_cancelled(scans).await;
    }

    async fn fail_orphans(&self) -> Result<(), BusError> {
        let open = self
            .ledger
            .list(Queue::Outbound, LedgerFilter::Open, MAX_SCANNED)
            .await?;
        let unknown: BTreeSet<ChannelName> = open
            .into_iter()
            .filter_map(|entry| entry.outbound)
            .map(|message| message.channel)
            .filter(|channel| !self.is_running(channel))
            .collect();
        for channel in unknown {
            self.fail_all(&channel).await?;
        }
        Ok(())
    }

    fn is_running(&self, channel: &ChannelName) -> bool {
        self.channels.borrow().contains(channel)
    }

    async fn fail_all(&self, channel: &ChannelName) -> Result<(), BusError> {
        let mut subscription = match self.bus.outbound(channel).await {
            // Another consumer serves it.
            Err(BusError::Consumed { .. }) => return Ok(()),
            other => other?,
        };
        while let Ok(Some(delivery)) = tokio::time::timeout(EMPTY_AFTER, subscription.next()).await
        {
            if self.is_running(channel) {
                // The channel was enabled meanwhile. Unsettled messages are redelivered.
                return Ok(());
            }
            let key = &delivery.message.key;
            tracing::error!(%channel, %key, "a message goes to a channel that is not configured or not enabled");
            let why = format!("no channel called `{channel}` is configured and enabled here");
            delivery.settle(SettleOutcome::Fail(why)).await?;
        }
        Ok(())
    }
}
