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

/// Where a message stands. An inbound message is `pending`, then `answered`, `failed` or
/// `dropped`; an outbound one is `pending`, `sending`, then `sent`, `uncertain`, `failed` or
/// `expired`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryState {
    /// Accepted, not settled. An outbound message is not at the platform, unless it is in doubt.
    Pending,
    /// Handed to the platform, no answer yet.
    Sending,
    /// Its turn ended.
    Answered,
    /// The platform has it.
    Sent,
    /// Nobody knows whether the platform has it.
    Uncertain,
    /// It could not be done and will not be tried again.
    Failed,
    /// Left unanswered on purpose.
    Dropped,
    /// Nobody wanted it in time, or it was discarded.
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

    /// The state in a word, as people and stores spell it.
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

    /// The state that [`EntryState::as_str`] spells this way.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether somebody still has to settle it.
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
    /// Names it for [`Ledger::retry`] and [`Ledger::discard`].
    pub id: String,
    /// Where it stands.
    pub state: EntryState,
    /// Why it is in that state, where there is a reason.
    pub why: Option<String>,
    /// How often it was tried since it was accepted, or last retried by a person.
    pub attempts: u32,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The message, when it came from a person.
    pub inbound: Option<InboundMessage>,
    /// The message, when it goes to a person.
    pub outbound: Option<OutboundMessage>,
}

/// Why an entry is settled that [`Ledger::discard`] settled.
pub const DISCARDED: &str = "discarded by a person";

/// Which entries to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl LedgerFilter {
    /// Whether entries in `state` are wanted.
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

/// What a person may see of the queues and do about them.
#[async_trait]
pub trait Ledger: Send + Sync + fmt::Debug {
    /// The newest `limit` entries of a queue that match, newest first.
    ///
    /// # Errors
    /// [`BusError::Store`].
    async fn list(
        &self,
        queue: Queue,
        filter: LedgerFilter,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, BusError>;

    /// One entry.
    ///
    /// # Errors
    /// [`BusError::Unknown`] and [`BusError::Store`].
    async fn show(&self, id: &str) -> Result<LedgerEntry, BusError>;

    /// Makes a failed, uncertain, dropped or expired entry pending again, without doubt and with
    /// its attempts counted anew. It keeps its place: older messages come first.
    ///
    /// # Errors
    /// [`BusError::Conflict`] when it is in another state; else as [`Ledger::show`].
    async fn retry(&self, id: &str) -> Result<(), BusError>;

    /// Settles an entry that is open, uncertain or failed as dropped (inbound) or expired
    /// (outbound).
    ///
    /// # Errors
    /// [`BusError::Conflict`] when it is done or given up already; else as [`Ledger::show`].
    async fn discard(&self, id: &str) -> Result<(), BusError>;
}
