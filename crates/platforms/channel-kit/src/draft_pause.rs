//! A pause of drafts after the platform refused one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time without drafts after one was refused.
const PAUSE: Duration = Duration::from_mins(10);

/// The time until which no drafts are begun. The usual reason of a refusal is a missing permission,
/// and replies arrive without drafts, too.
#[derive(Debug, Default)]
pub struct DraftPause(Mutex<Option<Instant>>);

impl DraftPause {
    /// Begins a pause.
    pub fn begin(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + PAUSE);
    }

    /// Returns `true` if drafts may be begun.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_none_or(|until| Instant::now() >= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pause_ends() {
        let pause = DraftPause::default();
        assert!(pause.is_over());
        pause.begin();
        assert!(!pause.is_over());
        tokio::time::advance(PAUSE).await;
        assert!(pause.is_over());
    }
}
