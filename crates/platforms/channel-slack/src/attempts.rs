//! How far a part came that has to be sent again.
//!
//! Files and texts of a part are sent one by one. When the part is tried again, what arrived stays
//! sent, and what may have arrived is looked for first. Bounded, and in memory only: after a restart
//! the part begins anew, but for what is found of it when it is in doubt.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// How many unfinished parts are remembered.
const REMEMBERED: usize = 64;

/// The parts that did not go through whole.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<VecDeque<(String, Attempt)>>);

/// What came of the tries so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// How many steps are done for good.
    pub(crate) done: usize,
    /// Whether the next step may be done too.
    pub(crate) is_open: bool,
}

impl Attempts {
    /// How far a part came.
    pub(crate) fn of(&self, part: &str) -> Attempt {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries
            .iter()
            .find(|(known, _)| known == part)
            .map(|(_, attempt)| *attempt)
            .unwrap_or_default()
    }

    /// It came so far.
    pub(crate) fn remember(&self, part: &str, attempt: Attempt) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(known, _)| known != part);
        if entries.len() >= REMEMBERED {
            entries.pop_front();
        }
        entries.push_back((part.to_owned(), attempt));
    }

    /// The part went through.
    pub(crate) fn forget(&self, part: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(known, _)| known != part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let attempts = Attempts::default();
        let attempt = Attempt {
            done: 2,
            is_open: true,
        };
        attempts.remember(
            "0",
            Attempt {
                done: 1,
                is_open: false,
            },
        );
        attempts.remember("0", attempt);
        assert_eq!(attempts.of("0"), attempt);
        for number in 1..=REMEMBERED {
            attempts.remember(&number.to_string(), attempt);
        }
        attempts.forget("1");
        assert_eq!(
            ["0", "1", "2"].map(|part| attempts.of(part)),
            [Attempt::default(), Attempt::default(), attempt]
        );
    }
}
