//! A bounded set against duplicates.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// The newest names of handled events. Bounded, and in memory only: the ledger drops duplicates for
/// good, and this avoids fetching and reacting twice.
#[derive(Clone, Debug)]
pub struct Recent<T> {
    limit: usize,
    known: HashSet<T>,
    /// The oldest first.
    order: VecDeque<T>,
}

impl<T: Clone + Eq + Hash> Recent<T> {
    /// An empty set that forgets the oldest of more than `limit` names.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            known: HashSet::new(),
            order: VecDeque::new(),
        }
    }

    /// `true` if `name` is in the set.
    pub fn contains(&self, name: &T) -> bool {
        self.known.contains(name)
    }

    /// Adds a name. `true` if it was not in the set.
    pub fn insert(&mut self, name: T) -> bool {
        if !self.known.insert(name.clone()) {
            return false;
        }
        self.order.push_back(name);
        if self.order.len() > self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        true
    }

    /// Replaces the set by the first names of a list, the oldest first.
    pub fn refill(&mut self, names: impl IntoIterator<Item = T>) {
        self.known.clear();
        self.order.clear();
        for name in names.into_iter().take(self.limit) {
            self.insert(name);
        }
    }

    /// Returns the names, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.order.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_name_is_evicted_first() {
        let mut recent = Recent::new(3);
        let is_new = [1, 2, 1, 3, 4].map(|name| recent.insert(name));
        assert_eq!(is_new, [true, true, false, true, true]);
        let known = [1, 2, 3, 4].map(|name| recent.contains(&name));
        assert_eq!(known, [false, true, true, true]);
        recent.refill([7, 8, 9, 10]);
        assert_eq!(recent.iter().copied().collect::<Vec<_>>(), [7, 8, 9]);
    }
}
