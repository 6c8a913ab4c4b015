//! The ledger of a running gateway, read from its file without the gateway's help.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OpenFlags};

/// A connection that only reads.
#[derive(Debug)]
pub(super) struct LedgerFile(Connection);

impl LedgerFile {
    /// Opens the ledger in a home.
    pub(super) fn open(home: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok(Self(Connection::open_with_flags(
            home.join("state.db"),
            flags,
        )?))
    }

    /// Returns the number of inbound messages that were taken.
    pub(super) fn taken(&self) -> Result<u64> {
        self.count("queue = 'inbound'")
    }

    /// Returns the number of the newest entry of both queues. It is cheaper than to count them.
    pub(super) fn newest(&self) -> Result<u64> {
        let query = "SELECT coalesce(max(id), 0) FROM ledger";
        let mut statement = self.0.prepare_cached(query)?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }

    /// Returns the number of entries of both queues that are not settled.
    pub(super) fn open_entries(&self) -> Result<u64> {
        self.count("settled_at IS NULL")
    }

    fn count(&self, condition: &str) -> Result<u64> {
        let query = format!("SELECT count(*) FROM ledger WHERE {condition}");
        let mut statement = self.0.prepare_cached(&query)?;
        Ok(statement.query_row([], |row| row.get(0))?)
    }
}
