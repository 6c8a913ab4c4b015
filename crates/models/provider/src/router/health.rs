//! Cooldown of a candidate, and the probe that ends it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Health of a candidate.
#[derive(Debug, Default)]
pub(super) struct Health {
    state: Mutex<CooldownState>,
}

#[derive(Debug, Default)]
struct CooldownState {
    /// End of the cooldown. Set from the first failure until a call succeeds.
    cooldown_until: Option<Instant>,
    probing: bool,
}

/// Permission to ask a candidate. If it is dropped without an outcome, the health does not change.
#[derive(Debug)]
pub(super) struct HealthPermit<'a> {
    health: &'a Health,
    probe: bool,
}

impl Health {
    fn state(&self) -> MutexGuard<'_, CooldownState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns permission to ask, unless the candidate is in cooldown or another call is probing
    /// it.
    pub(super) fn admit(&self) -> Option<HealthPermit<'_>> {
        let mut state = self.state();
        let probe = match state.cooldown_until {
            None => false,
            Some(until) if Instant::now() < until || state.probing => return None,
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
        state
            .cooldown_until
            .is_none_or(|until| Instant::now() >= until && !state.probing)
    }
}

impl HealthPermit<'_> {
    /// Records that the candidate answered, which ends its cooldown.
    pub(super) fn succeeded(self) {
        self.health.state().cooldown_until = None;
    }

    /// Records that the candidate failed, and starts a cooldown.
    pub(super) fn start_cooldown(self, cooldown: Duration) {
        self.health.state().cooldown_until = Instant::now().checked_add(cooldown);
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

    #[tokio::test(start_paused = true)]
    async fn one_probe_after_the_cooldown_decides() {
        let health = Health::default();
        health.admit().unwrap().start_cooldown(COOLDOWN);
        assert!(health.admit().is_none());
        tokio::time::advance(COOLDOWN).await;
        let probe = health.admit().unwrap();
        assert!(health.admit().is_none() && !health.is_available());
        probe.start_cooldown(COOLDOWN);
        assert!(health.admit().is_none());
        tokio::time::advance(COOLDOWN).await;
        drop(health.admit().unwrap());
        health.admit().unwrap().succeeded();
        assert!(health.admit().is_some() && health.admit().is_some());
    }
}
