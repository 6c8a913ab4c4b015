//! Cooldowns as a program keeps them over a restart.

use std::fmt;
use std::time::SystemTime;

/// Reason why a candidate is not asked for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CooldownKind {
    /// It failed in a way that passes by itself: too many requests, an outage, a timeout.
    Outage,
    /// The account has no credit or quota left.
    Quota,
    /// The key was rejected.
    Auth,
}

impl CooldownKind {
    /// `true` if only a person can end the trouble. Calls that no one waits for do not ask such a
    /// candidate before its cooldown is over.
    #[must_use]
    pub fn needs_person(self) -> bool {
        match self {
            Self::Outage => false,
            Self::Quota | Self::Auth => true,
        }
    }
}

/// A cooldown of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// The candidate, as `provider/model`.
    pub candidate: String,
    /// Its end.
    pub until: SystemTime,
    /// Its reason.
    pub kind: CooldownKind,
    /// The error that began it, for people.
    pub error: String,
}

/// Keeps cooldowns over a restart of the program, so that a new process does not begin with the
/// requests that the old one had given up.
pub trait CooldownStore: Send + Sync + fmt::Debug {
    /// Returns the cooldowns that were saved last; none if they cannot be read.
    fn load(&self) -> Vec<Cooldown>;

    /// Saves all cooldowns in place of the last ones. Called on every change, from an asynchronous
    /// task; it must not block for long. A failure is the store's to report.
    fn save(&self, cooldowns: Vec<Cooldown>);
}
