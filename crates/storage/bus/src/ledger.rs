//! The ledger of the queues: its entries, and what a person may do with them.

use std::fmt;

use async_trait::async_trait;
use nanobot_types::{InboundMessage, OutboundMessage, Timestamp};
use serde::{Deserialize, Serialize};

use crate::BusError;

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Queue {
    /// Messages from people.
    Inbound,
    /// Messages to people.
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

/// State of a ledger entry. An inbound message is `pending`, then `answered`, `failed` or
/// `dropped`. An outbound message is `pending`, `sending`, then `sent`, `uncertain`, `failed` or
/// `expired`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// Accepted, not settled. An outbound message has not reached the platform, unless it is in
    /// doubt.
    Pending,
    /// Handed to the platform, which has not answered yet.
    Sending,
    /// Its turn ended.
    Answered,
    /// The platform has it.
    Sent,
    /// It is unknown whether the platform has it.
    Uncertain,
    /// It could not be done and will not be retried.
    Failed,
    /// Deliberately left unanswered.
    Dropped,
    /// It was no longer wanted, or it was discarded.
    Expired,
}

impl EntryState {
    /// Every state.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Sending,
        Self::Answered,
        Self::Sent,
        Self::Uncertain,
        Self::Failed,
        Self::Dropped,
        Self::Expired,
    ];

    /// Returns the state in one word, as stores and people spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sending => "sending",
            Self::Answered => "answered",
            Self::Sent => "sent",
            Self::Uncertain => "uncertain",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
            Self::Expired => "expired",
        }
    }

    /// Returns the state that [`EntryState::as_str`] spells this way.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// `true` if it still has to be settled.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Sending)
    }
}

impl fmt::Display for EntryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    /// Id for [`Ledger::retry`] and [`Ledger::discard`].
    pub id: String,
    /// Its state.
    pub state: EntryState,
    /// Reason for the state, if there is one.
    pub why: Option<String>,
    /// Number of attempts since it was accepted, or since a person last retried it.
    pub attempts: u32,
    /// Time at which it was accepted.
    pub accepted_at: Timestamp,
    /// The message, if it is inbound.
    pub inbound: Option<InboundMessage>,
    /// The message, if it is outbound.
    pub outbound: Option<OutboundMessage>,
}

/// Reason recorded for entries that [`Ledger::discard`] settled.
pub const DISCARDED: &str = "discarded by a person";

/// Selection of the entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerFilter {
    /// Not settled yet.
    Open,
    /// Settled as failed.
    Failed,
    /// Settled as uncertain.
    Uncertain,
    /// All entries that are still kept.
    All,
}

impl LedgerFilter {
    /// `true` if the filter selects entries in `state`.
    #[must_use]
    pub fn admits(self, state: EntryState) -> bool {
        match self {
            Self::Open => state.is_open(),
            Self::Failed => state == EntryState::Failed,
            Self::Uncertain => state == EntryState::Uncertain,
            Self::All => true,
        }
    }
}

/// Lets a person inspect the queues and act on their entries.
#[async_trait]
pub trait Ledger: Send + Sync + fmt::Debug {
    /// Returns the newest `limit` entries of a queue that match `filter`, newest first.
    ///
    /// # Errors
    /// Returns [`BusError::Store`] if the store fails.
    async fn list(
        &self,
        queue: Queue,
        filter: LedgerFilter,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, BusError>;

    /// Returns one entry.
    ///
    /// # Errors
    /// Returns [`BusError::Unknown`] if no entry has this id, and [`BusError::Store`] if the store
    /// fails.
    async fn show(&self, id: &str) -> Result<LedgerEntry, BusError>;

    /// Makes a failed, uncertain, dropped or expired entry pending again, without doubt and with
    /// its attempts counted anew. It keeps its position: older messages come first.
    ///
    /// # Errors
    /// Returns [`BusError::Conflict`] if it is in another state; otherwise the same as
    /// [`Ledger::show`].
    async fn retry(&self, id: &str) -> Result<(), BusError>;

    /// Settles an open, uncertain or failed entry as dropped (inbound) or expired (outbound).
    ///
    /// # Errors
    /// Returns [`BusError::Conflict`] if it is already done, dropped or expired; otherwise the same
    /// as [`Ledger::show`].
    async fn discard(&self, id: &str) -> Result<(), BusError>;
}
