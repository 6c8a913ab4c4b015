//! What only machines need, in one SQLite file: the durable bus, and later what else has to be
//! found again fast. Losing it loses no conversation.
//!
//! Decision: one thread owns the one connection. What is asked of it while it waits for the disk
//! becomes the next transaction, so that any number of concurrent writers share one sync
//! ([`StateDb`]). The bus on top ([`SqliteBus`]) keeps its entries in a table and nothing in
//! memory but what its consumers hold. Who may open the file is decided by the lock of the home
//! ([`HomeLock`]), not here.
//!
//! [`SearchIndex`] is a file of its own: a cache over memory and conversations.

mod bus;
mod clock;
mod database;
mod error;
mod home_lock;
mod index;

pub use bus::SqliteBus;
pub use database::{StateDb, Survives};
pub use error::StateError;
pub use home_lock::{Holder, HomeLock};
pub use index::SearchIndex;
