//! What was dealt with already.
//!
//! Slack sends again what was not acknowledged in time, and a mention comes as two events. The ledger
//! drops repetitions for good; this only spares asking, fetching and reacting twice. Bounded, and in
//! memory only.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// How much is remembered.
const REMEMBERED: usize = 4096;

/// Names of what was dealt with, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Seen {
    /// Whether something was dealt with.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .known
            .contains(name)
    }

    /// It is dealt with now.
    pub(crate) fn insert(&self, name: String) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !memory.known.insert(name.clone()) {
            return;
        }
        memory.order.push_back(name);
        if memory.order.len() > REMEMBERED
            && let Some(oldest) = memory.order.pop_front()
        {
            memory.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let seen = Seen::default();
        for number in 0..=REMEMBERED {
            seen.insert(number.to_string());
            seen.insert("1".to_owned());
        }
        assert_eq!(
            ["0", "1", "2", &REMEMBERED.to_string()].map(|name| seen.contains(name)),
            [false, true, true, true]
        );
    }
}
