//! Who may do a thing that must be done once.

use std::time::Duration;

use async_trait::async_trait;

use crate::BusError;

/// Ownership of a name for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is owned.
    pub name: String,
    /// Grows with every new owner: work of an older epoch must be refused.
    pub epoch: u64,
}

/// Claims that outlive the process where the implementation is durable.
#[async_trait]
pub trait Claims: Send + Sync + std::fmt::Debug {
    /// Takes `slot` for ever. `true` for exactly one caller, over all processes and restarts.
    ///
    /// # Errors
    /// [`BusError::Store`]: nobody knows whether the slot is taken; do not act.
    async fn claim_once(&self, slot: &str) -> Result<bool, BusError>;

    /// Takes or renews `name` for `owner` for `ttl`. `None` while somebody else holds it.
    ///
    /// # Errors
    /// As [`Claims::claim_once`].
    async fn lease(
        &self,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, BusError>;

    /// Gives `name` back if `owner` holds it.
    ///
    /// # Errors
    /// As [`Claims::claim_once`].
    async fn release(&self, name: &str, owner: &str) -> Result<(), BusError>;
}
