//! The ledger for a person at a terminal: the running gateway's, or the file's.
//!
//! Decision: the file is opened only by whoever has the home's lock, so nobody changes entries
//! below a gateway. A home without a ledger has no entries, and is not given one by looking.

use std::sync::Arc;

use nanobot_bus::{Ledger, LedgerEntry, LedgerFilter, MemoryBus, Queue};
use nanobot_config::Config;
use nanobot_state::{HomeLock, SqliteBus, StateDb};

use crate::RuntimeError;
use crate::operator::remote;

/// Messages and how they stand.
#[derive(Debug)]
pub struct Inbox {
    ledger: Arc<dyn Ledger>,
    /// The file, when it is open here.
    file: Option<(SqliteBus, HomeLock)>,
}

impl Inbox {
    /// Opens the inbox of a home.
    ///
    /// # Errors
    /// [`RuntimeError::State`] when the file cannot be used, [`RuntimeError::Silent`] when the gateway
    /// that has the home does not answer.
    pub async fn open(config: &Config) -> Result<Self, RuntimeError> {
        if let Some(gateway) = remote::connect(config).await? {
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

    /// The newest `limit` entries that match any of `filters`, newest first, of both queues.
    ///
    /// # Errors
    /// [`RuntimeError::Ledger`].
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

    /// One entry, or something done to it.
    #[must_use]
    pub fn ledger(&self) -> &dyn Ledger {
        &*self.ledger
    }

    /// Closes what was opened.
    pub async fn close(self) {
        if let Some((bus, lock)) = self.file {
            bus.close().await;
            drop(lock);
        }
    }
}
