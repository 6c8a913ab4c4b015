//! Claims and leases: exclusive rights to do something at most once, or for a limited time.

use std::time::Duration;

use async_trait::async_trait;

use crate::BusError;

/// Ownership of a name for a limited time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The name that is owned.
    pub name: String,
    /// Fencing token: grows with every new owner. Work of an older epoch must be refused.
    pub epoch: u64,
}

/// Claims and leases. They outlive the process if the implementation is durable.
#[async_trait]
pub trait Claims: Send + Sync + std::fmt::Debug {
    /// Takes `slot` permanently. Returns `true` for exactly one caller, over all processes and
    /// restarts.
    ///
    /// # Errors
    /// Returns [`BusError::Store`] if it is unknown whether the slot is taken; the caller must not
    /// act.
    async fn claim_once(&self, slot: &str) -> Result<bool, BusError>;

    /// Takes or renews the lease on `name` for `owner`, for the duration `ttl`. Returns `None`
    /// while another owner holds it.
    ///
    /// # Errors
    /// Same as [`Claims::claim_once`].
    async fn lease(
        &self,
        name: &str,
        owner: &str,
        ttl: Duration,
    ) -> Result<Option<Lease>, BusError>;

    /// Releases `name` if `owner` holds it.
    ///
    /// # Errors
    /// Same as [`Claims::claim_once`].
    async fn release(&self, name: &str, owner: &str) -> Result<(), BusError>;
}
