//! Cooldown of a candidate, and the probe that ends it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::cooldown::{Cooldown, CooldownKind};

/// Maximum duration of a cooldown. It also bounds a restored one, whose end a wrong clock may have
/// put far into the future.
const LONGEST: Duration = Duration::from_secs(3600);

/// Health of a candidate.
#[derive(Debug, Default)]
pub(super) struct Health {
    state: Mutex<HealthState>,
}

#[derive(Debug, Default)]
struct HealthState {
    /// Set from the first failure until a call succeeds.
    failure: Option<Failure>,
    probing: bool,
}

#[derive(Clone, Debug)]
struct Failure {
    /// End of the cooldown.
    until: Instant,
    kind: CooldownKind,
    error: String,
}

/// Permission to ask a candidate. If it is dropped without an outcome, the health does not change.
#[derive(Debug)]
pub(super) struct HealthPermit<'a> {
    health: &'a Health,
    probe: bool,
}

impl Health {
    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns permission to ask, unless the candidate is in cooldown or another call is probing
    /// it.
    pub(super) fn admit(&self) -> Option<HealthPermit<'_>> {
        let mut state = self.state();
        let probe = match &state.failure {
            None => false,
            Some(failure) if Instant::now() < failure.until || state.probing => return None,
            Some(_) => true,
        };
        state.probing |= probe;
        Some(HealthPermit {
            health: self,
            probe,
        })
    }

    /// Returns permission to ask, whatever the health of the candidate.
    pub(super) fn admit_anyway(&self) -> HealthPermit<'_> {
        HealthPermit {
            health: self,
            probe: false,
        }
    }

    /// `true` if [`Health::admit`] would return permission now.
    pub(super) fn is_available(&self) -> bool {
        let state = self.state();
        let is_over = |failure: &Failure| Instant::now() >= failure.until && !state.probing;
        state.failure.as_ref().is_none_or(is_over)
    }

    /// Returns the error of the current cooldown and its remaining time; `None` if the last call
    /// succeeded.
    pub(super) fn error(&self) -> Option<(String, Duration, CooldownKind)> {
        let state = self.state();
        let failure = state.failure.as_ref()?;
        let remaining = failure.until.saturating_duration_since(Instant::now());
        Some((failure.error.clone(), remaining, failure.kind))
    }

    /// Returns the cooldown for a store; `None` if there is none.
    pub(super) fn cooldown(&self, candidate: String) -> Option<Cooldown> {
        let (error, remaining, kind) = self.error()?;
        let until = SystemTime::now().checked_add(remaining)?;
        (!remaining.is_zero()).then_some(Cooldown {
            candidate,
            until,
            kind,
            error,
        })
    }

    /// Continues a cooldown of an earlier process.
    pub(super) fn restore(&self, cooldown: &Cooldown) {
        if let Ok(remaining) = cooldown.until.duration_since(SystemTime::now()) {
            self.fail(remaining, cooldown.kind, cooldown.error.clone());
        }
    }

    fn fail(&self, cooldown: Duration, kind: CooldownKind, error: String) {
        self.state().failure = Instant::now()
            .checked_add(cooldown.min(LONGEST))
            .map(|until| Failure { until, kind, error });
    }
}

impl HealthPermit<'_> {
    /// Records that the candidate answered, which ends its cooldown. Returns `true` if there was
    /// one.
    pub(super) fn succeeded(self) -> bool {
        self.health.state().failure.take().is_some()
    }

    /// Records that the candidate failed, and starts a cooldown of at most an hour.
    pub(super) fn start_cooldown(self, cooldown: Duration, kind: CooldownKind, error: String) {
        self.health.fail(cooldown, kind, error);
    }
}

impl Drop for HealthPermit<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.health.state().probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOLDOWN: Duration = Duration::from_secs(60);

    fn fail(permit: HealthPermit<'_>) {
        permit.start_cooldown(COOLDOWN, CooldownKind::Outage, "down".to_owned());
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_after_the_cooldown_decides() {
        let health = Health::default();
        fail(health.admit().unwrap());
        assert!(health.admit().is_none());
        tokio::time::advance(COOLDOWN).await;
        let probe = health.admit().unwrap();
        assert!(health.admit().is_none() && !health.is_available());
        fail(probe);
        assert!(health.admit().is_none());
        tokio::time::advance(COOLDOWN).await;
        drop(health.admit().unwrap());
        assert!(health.admit().unwrap().succeeded());
        assert!(health.admit().is_some() && health.admit().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn restored_cooldown_is_bounded() {
        let restored = |until: SystemTime| {
            let health = Health::default();
            health.restore(&Cooldown {
                candidate: "a/m".to_owned(),
                until,
                kind: CooldownKind::Quota,
                error: "empty".to_owned(),
            });
            health.error().map(|(_, remaining, _)| remaining)
        };
        let now = SystemTime::now();
        assert_eq!(restored(now - COOLDOWN), None);
        assert!(restored(now + COOLDOWN).is_some_and(|remaining| remaining <= COOLDOWN));
        assert_eq!(restored(now + LONGEST * 1000), Some(LONGEST));
    }
}
