//! The schedule of polls: which session or panel is asked over HTTP next.
//!
//! A target is asked again only after its last answer was handled. The number of polls at a time
//! is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nanobot_channel_kit::jittered_backoff;
use tokio::time::{Instant, sleep_until};

use crate::target::Target;

/// Largest number of polls at a time.
const MAX_CHECKS: usize = 64;

/// The outcome of asking for the news of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckOutcome {
    /// It was answered.
    Answered,
    /// The target does not exist, or cannot be read.
    Gone,
    /// It was not answered. Mochat may ask for a pause.
    Failed(Option<Duration>),
}

/// Polls that are due or under way.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    due: BTreeMap<Target, Instant>,
    under_way: BTreeSet<Target>,
    /// Failures in a row.
    failures: u32,
}

impl Checks {
    /// Schedules a poll, unless one is under way, after which the next one is scheduled anyway.
    pub(crate) fn schedule(&mut self, target: Target, pause: Duration) {
        if !self.under_way.contains(&target) {
            self.due.insert(target, Instant::now() + pause);
        }
    }

    /// Returns the next target whose time has come. It is under way from now on.
    pub(crate) fn start(&mut self) -> Option<Target> {
        if self.under_way.len() >= MAX_CHECKS {
            return None;
        }
        let now = Instant::now();
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let target = due.min_by_key(|(_, at)| **at)?.0.clone();
        self.due.remove(&target);
        self.under_way.insert(target.clone());
        Some(target)
    }

    /// Waits until the time of a target has come; for ever if there is none. Cancel safe.
    pub(crate) async fn wait(&self) {
        let next = self.due.values().min().copied();
        match next.filter(|_| self.under_way.len() < MAX_CHECKS) {
            Some(next) => sleep_until(next).await,
            None => std::future::pending().await,
        }
    }

    /// Notes the end of a poll.
    pub(crate) fn end(&mut self, target: &Target, outcome: CheckOutcome) {
        self.under_way.remove(target);
        match outcome {
            CheckOutcome::Failed(_) => self.failures = self.failures.saturating_add(1),
            CheckOutcome::Answered | CheckOutcome::Gone => self.failures = 0,
        }
    }

    /// Returns the number of failures in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the pause after the last failure.
    pub(crate) fn pause(&self, first: Duration) -> Duration {
        jittered_backoff(first, self.failures.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(number: usize) -> Target {
        Target::Session(format!("{number:03}"))
    }

    #[tokio::test(start_paused = true)]
    async fn target_is_asked_again_after_its_answer() {
        let (mut checks, second) = (Checks::default(), Duration::from_secs(1));
        checks.schedule(session(1), second);
        assert_eq!(checks.start(), None);
        checks.wait().await;
        assert_eq!(checks.start(), Some(session(1)));
        checks.schedule(session(1), Duration::ZERO);
        assert_eq!(checks.start(), None);
        checks.end(&session(1), CheckOutcome::Answered);
        checks.schedule(session(1), Duration::ZERO);
        assert_eq!(checks.start(), Some(session(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn polls_at_a_time_are_bounded() {
        let mut checks = Checks::default();
        for number in 0..=MAX_CHECKS {
            checks.schedule(session(number), Duration::ZERO);
        }
        let started = std::iter::from_fn(|| checks.start()).count();
        assert_eq!(started, MAX_CHECKS);
        checks.end(&session(0), CheckOutcome::Answered);
        assert_eq!(checks.start(), Some(session(MAX_CHECKS)));
    }

    #[test]
    fn failures_in_a_row_lengthen_the_pause() {
        let mut checks = Checks::default();
        let outcomes = [
            CheckOutcome::Failed(None),
            CheckOutcome::Failed(None),
            CheckOutcome::Gone,
        ];
        let failures = outcomes.map(|outcome| {
            checks.end(&session(1), outcome);
            checks.failures()
        });
        assert_eq!(failures, [1, 2, 0]);
        checks.end(&session(1), CheckOutcome::Failed(None));
        checks.end(&session(1), CheckOutcome::Failed(None));
        let pause = checks.pause(Duration::from_millis(100)).as_millis();
        assert!((200..=250).contains(&pause), "{pause}");
    }
}
