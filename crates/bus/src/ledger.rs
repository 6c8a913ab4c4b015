//! The ledger behind the queues: what is there, and what a person may do about it.

use std::fmt;

use async_trait::async_trait;
use nanobot_types::{InboundMessage, OutboundMessage, Timestamp};
use serde::{Deserialize, Serialize};

use crate::BusError;

/// Which of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// From people.
    Inbound,
    /// To people.
    Outbound,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
        })
    }
}

/// Where an inbound message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InboundState {
    /// Accepted, not settled.
    Pending,
    /// Its turn ended.
    Answered,
    /// Its turn could not be done.
    Failed,
    /// Left unanswered on purpose.
    Dropped,
}

/// Where an outbound message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboundState {
    /// Accepted, not tried.
    Pending,
    /// Handed to the platform, no answer yet.
    Sending,
    /// The platform has it.
    Sent,
    /// Nobody knows whether the platform has it.
    Uncertain,
    /// The platform refused it for good.
    Failed,
    /// Nobody wanted it in time, or it was discarded.
    Expired,
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerEntry {
    /// Names it for [`Ledger::retry`] and [`Ledger::discard`].
    pub id: String,
    /// Its state in words (`pending`, `sent`, `failed`, …).
    pub state: String,
    /// Why it is in that state, where there is a reason.
    pub why: Option<String>,
    /// How often it was handed out.
    pub attempts: u32,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The message, when it came from a person.
    pub inbound: Option<InboundMessage>,
    /// The message, when it goes to a person.
    pub outbound: Option<OutboundMessage>,
}

/// Which entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerFilter {
    /// Not settled yet.
    Open,
    /// Settled as failed.
    Failed,
    /// Settled as uncertain.
    Uncertain,
    /// Everything that is still kept.
    All,
}

/// What a person may see of the queues and do about them.
#[async_trait]
pub trait Ledger: Send + Sync + fmt::Debug {
    /// The newest `limit` entries of a queue that match, newest first.
    ///
    /// # Errors
    /// [`BusError::Store`].
    async fn list(&self, queue: Queue, filter: LedgerFilter, limit: usize) -> Result<Vec<LedgerEntry>, BusError>;

    /// One entry.
    ///
    /// # Errors
    /// [`BusError::Unknown`] and [`BusError::Store`].
    async fn show(&self, id: &str) -> Result<LedgerEntry, BusError>;

    /// Makes a failed, uncertain or expired entry pending again.
    ///
    /// # Errors
    /// [`BusError::Conflict`] when it is in another state.
    async fn retry(&self, id: &str) -> Result<(), BusError>;

    /// Settles an entry that is not yet done as dropped (inbound) or expired (outbound).
    ///
    /// # Errors
    /// [`BusError::Conflict`] when it is done already.
    async fn discard(&self, id: &str) -> Result<(), BusError>;
}
