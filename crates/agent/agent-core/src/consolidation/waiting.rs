//! Messages that wait for the person's consent, for reports about several sessions.
//!
//! Decision: they are read from a session's metadata, which a store lists without reading messages.

use nanobot_types::Map;

use super::backlog::BacklogCost;
use super::state::Pending;

/// Messages of a session that wait for the person's consent to be summarised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingMessages {
    /// Their number.
    pub messages: u64,
    /// Estimated number of requests for their summaries.
    pub requests: u64,
    /// Estimated number of tokens of these requests.
    pub tokens: u64,
    /// The reason for which the model's failures ended their summaries.
    pub trouble: Option<String>,
}

impl WaitingMessages {
    /// Reads the metadata of a session. Returns `None` if no messages wait.
    #[must_use]
    pub fn of(metadata: &Map) -> Option<Self> {
        let (cost, trouble) = Pending::in_metadata(metadata).waiting_cost();
        let BacklogCost {
            messages,
            requests,
            tokens,
        } = cost;
        (messages > 0).then_some(Self {
            messages,
            requests,
            tokens,
            trouble,
        })
    }
}
