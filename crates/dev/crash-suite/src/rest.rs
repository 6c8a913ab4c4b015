//! Waits until the program has finished all its work.

use std::time::{Duration, Instant};

use crate::script::markers;
use crate::system::{LedgerState, StateRow};

/// Timeout for the program to finish all its work.
pub(crate) const REST_LIMIT: Duration = Duration::from_secs(120);
/// Poll interval of the ledger meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// `true` if an entry is not finished.
pub(crate) fn is_open(row: &StateRow) -> bool {
    matches!(row.standing, LedgerState::Open | LedgerState::Sending)
}

/// Returns `true` if the ledger contains all these markers and has no open entries.
pub(crate) fn is_at_rest(ledger: &[StateRow], known: &[&String]) -> bool {
    !ledger.is_empty()
        && !ledger.iter().any(is_open)
        && known.iter().all(|marker| {
            ledger
                .iter()
                .any(|row| row.inbound && row.text.contains(marker.as_str()))
        })
}

/// `true` if the messages with this marker are in the ledger and finished.
pub(crate) fn is_settled(ledger: &[StateRow], marker: &String) -> bool {
    let mut rows = ledger
        .iter()
        .filter(|row| row.inbound && markers(&row.text).contains(marker))
        .peekable();
    rows.peek().is_some() && rows.all(|row| !is_open(row))
}

/// Polls until `probe` returns `true` or `limit` has elapsed.
pub(crate) async fn wait_until(limit: Duration, mut probe: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !probe() {
        if begun.elapsed() > limit {
            return false;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    true
}
