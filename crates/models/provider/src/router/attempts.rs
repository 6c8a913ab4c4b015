//! Failed attempts of one call with one candidate.

use std::time::Duration;

use tokio::time::Instant;

use super::RetryPolicy;
use super::cooldown::CooldownKind;
use crate::{ProviderError, Recovery};

/// Cooldown of a candidate after transient failures, if the vendor asks for none.
const COOLDOWN: Duration = Duration::from_secs(60);

/// Maximum number of retries after an empty answer.
const EMPTY_RETRIES: usize = 2;

/// Maximum number of retries after an attempt without data: each takes long.
const STALLED_RETRIES: usize = 1;

/// State of one candidate within a call.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    /// The last error; `None` if it was not asked.
    pub(super) error: Option<ProviderError>,
    /// Set if asking again makes no sense in this call.
    pub(super) is_over: bool,
    /// Set if it does not accept images.
    pub(super) images_dropped: bool,
    count: usize,
    empty: usize,
    stalled: usize,
    /// The vendor asked not to be asked before.
    not_before: Option<Instant>,
}

impl Attempts {
    /// Records a failed attempt. `is_empty` marks a complete answer without content.
    pub(super) fn failed(&mut self, error: ProviderError, is_empty: bool, policy: &RetryPolicy) {
        self.count += 1;
        self.empty += usize::from(is_empty);
        self.stalled += usize::from(matches!(error, ProviderError::Stalled(_)));
        let is_exhausted = self.empty > EMPTY_RETRIES || self.stalled > STALLED_RETRIES;
        self.is_over = match error.recovery() {
            Recovery::RetrySame { after } => {
                self.not_before = after.and_then(|after| Instant::now().checked_add(after));
                is_exhausted || after.unwrap_or_default() > policy.longest_pause
            }
            _ => true,
        };
        self.error = Some(error);
    }

    /// `true` if the last error may be gone within a second, and the vendor did not ask for a
    /// pause: a dropped connection, a restarted server, a truncated answer.
    pub(super) fn may_pass_at_once(&self) -> bool {
        let is_brief = |error: &ProviderError| {
            matches!(
                error,
                ProviderError::Server {
                    retry_after: None,
                    ..
                } | ProviderError::Network(_)
                    | ProviderError::Malformed(_)
            )
        };
        self.count == 1 && !self.is_over && self.error.as_ref().is_some_and(is_brief)
    }

    /// Returns the time until it may be asked again; `None` if that makes no sense.
    pub(super) fn wait(&self) -> Option<Duration> {
        let until = |at: Instant| at.saturating_duration_since(Instant::now());
        (!self.is_over).then(|| self.not_before.map_or(Duration::ZERO, until))
    }

    /// Returns the cooldown that the last error starts; `None` if the error says nothing about the
    /// health of the candidate.
    pub(super) fn cooldown(&self) -> Option<(Duration, CooldownKind)> {
        let error = self.error.as_ref()?;
        let kind = match error {
            ProviderError::Quota(_) => CooldownKind::Quota,
            ProviderError::Auth(_) => CooldownKind::Auth,
            _ => CooldownKind::Outage,
        };
        match error.recovery() {
            Recovery::RetrySame { after } => Some((after.unwrap_or(COOLDOWN), kind)),
            Recovery::NextCandidate { cooldown } => Some((cooldown, kind)),
            // Another vendor may accept what one refuses.
            Recovery::Compact | Recovery::DropImages | Recovery::GiveUp => None,
        }
    }
}
