//! Progress of parts that have to be sent again.
//!
//! Files and texts of a part are sent one by one. When the part is tried again, what arrived stays
//! sent. Bounded, and in memory only: after a restart the part begins anew.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of unfinished parts that are remembered.
const REMEMBERED: usize = 64;

/// Parts that did not go through whole, by their keys.
#[derive(Debug)]
pub struct Attempts<A>(Mutex<VecDeque<(String, A)>>);

impl<A> Default for Attempts<A> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<A: Clone + Default> Attempts<A> {
    /// Returns how far a part came; the default if it was not tried.
    pub fn of(&self, part: &str) -> A {
        let entries = self.entries();
        let known = entries.iter().find(|(known, _)| known == part);
        known
            .map(|(_, attempt)| attempt.clone())
            .unwrap_or_default()
    }

    /// Notes how far a part came.
    pub fn remember(&self, part: &str, attempt: A) {
        let mut entries = self.entries();
        entries.retain(|(known, _)| known != part);
        if entries.len() >= REMEMBERED {
            entries.pop_front();
        }
        entries.push_back((part.to_owned(), attempt));
    }

    /// Forgets a part, which went through.
    pub fn forget(&self, part: &str) {
        self.entries().retain(|(known, _)| known != part);
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<(String, A)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_parts_are_stored_up_to_a_limit() {
        let attempts = Attempts::default();
        assert_eq!(attempts.of("a/0"), 0);
        for part in 0..=REMEMBERED {
            attempts.remember(&format!("{part}/0"), part);
        }
        attempts.remember("1/0", 7);
        assert_eq!((attempts.of("0/0"), attempts.of("1/0")), (0, 7));
        attempts.forget("1/0");
        assert_eq!(attempts.of("1/0"), 0);
    }
}
