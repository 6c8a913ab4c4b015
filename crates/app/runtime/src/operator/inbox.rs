//! The ledger, for the user at a terminal: through the running gateway, or from the file.
//!
//! Decision: the file is opened only with the home's lock, so that no entry changes while a gateway
//! uses it. A home without a ledger has no entries; reading does not create one.

use std::sync::Arc;

use nanobot_bus::{Ledger, LedgerEntry, LedgerFilter, MemoryBus, Queue};
use nanobot_config::Config;
use nanobot_control::ControlClient;
use nanobot_state::{HomeLock, SqliteBus, StateDb};

use crate::RuntimeError;
use crate::operator::remote;

/// Messages in the ledger and their states.
#[derive(Debug)]
pub struct Inbox {
    ledger: Arc<dyn Ledger>,
    /// The file and the lock, if the ledger is not the gateway's.
    file: Option<(SqliteBus, HomeLock)>,
}

impl Inbox {
    /// Opens the inbox of a home.
    ///
    /// # Errors
    /// Returns [`RuntimeError::State`] if the file cannot be used, [`RuntimeError::Silent`] if the
    /// gateway that has the home does not answer.
    pub async fn open(config: &Config) -> Result<Self, RuntimeError> {
        Self::through(config, remote::connect(config).await?).await
    }

    /// Opens the inbox of a home through its gateway, or from the file if none runs.
    pub(crate) async fn through(
        config: &Config,
        gateway: Option<ControlClient>,
    ) -> Result<Self, RuntimeError> {
        if let Some(gateway) = gateway {
            return Ok(Self {
                ledger: Arc::new(gateway),
                file: None,
            });
        }
        let paths = config.paths();
        if !paths.state_db.exists() {
            return Ok(Self {
                ledger: Arc::new(MemoryBus::new()),
                file: None,
            });
        }
        let lock = HomeLock::acquire(&paths.data_dir)?;
        let bus = SqliteBus::open(StateDb::open(&paths.state_db).await?).await?;
        Ok(Self {
            ledger: Arc::new(bus.clone()),
            file: Some((bus, lock)),
        })
    }

    /// Returns the newest `limit` entries of both queues that match any of `filters`, newest first.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Ledger`] if the ledger cannot be read.
    pub async fn entries(
        &self,
        filters: &[LedgerFilter],
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, RuntimeError> {
        let mut entries = Vec::new();
        for queue in [Queue::Inbound, Queue::Outbound] {
            for filter in filters {
                entries.extend(self.ledger.list(queue, *filter, limit).await?);
            }
        }
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.accepted_at));
        entries.truncate(limit);
        Ok(entries)
    }

    /// Returns the ledger, to show or change single entries.
    #[must_use]
    pub fn ledger(&self) -> &dyn Ledger {
        &*self.ledger
    }

    /// Closes the file, if it is open, and releases the lock.
    pub async fn close(self) {
        if let Some((bus, lock)) = self.file {
            bus.close().await;
            drop(lock);
        }
    }
}
