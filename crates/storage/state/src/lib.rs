//! Machine state in one SQLite file: the durable bus, and later anything else that must be looked
//! up fast. Losing it loses no conversation.
//!
//! Decision: one thread owns the one connection. Jobs that arrive while it waits for the disk
//! become the next transaction, so that any number of concurrent writers share one sync
//! ([`StateDb`]). The bus on top ([`SqliteBus`]) keeps its entries in a table, and in memory only
//! what its consumers hold. The lock of the home ([`HomeLock`]) decides which process may open the
//! file. [`SqliteSpendLedger`] keeps account of model requests in the same file.
//!
//! [`SearchIndex`] is a file of its own: a cache over memory and conversations.

mod bus;
mod clock;
mod database;
mod error;
mod home_lock;
mod index;
mod process_lock;
mod spend;

pub use bus::SqliteBus;
pub use database::{CommitDurability, StateDb};
pub use error::StateError;
pub use home_lock::HomeLock;
pub use index::SearchIndex;
pub use process_lock::{LockHolder, ProcessLock};
pub use spend::{
    BudgetRaise, BudgetSettings, OnLimit, PriceLookup, SpendDay, SpendGroup, SpendRow,
    SqliteSpendLedger, Today, read_spending,
};
