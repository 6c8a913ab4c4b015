//! The attempts at events, in memory and as the text of their note.

use std::collections::HashMap;

/// Most events in the note; the oldest is dropped first.
pub(super) const MAX_ENTRIES: usize = 512;

/// Attempts at events, by their keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AttemptLog {
    attempts: HashMap<String, AttemptCount>,
    /// Number of the next entry.
    next: u64,
}

/// Attempts at one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AttemptCount {
    /// Position among the entries; the oldest has the smallest.
    number: u64,
    /// Attempts of earlier processes.
    earlier: u32,
    is_under_way: bool,
}

impl AttemptLog {
    /// Parses a note; malformed lines are left out.
    pub(super) fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let (count, key) = line.split_once(' ')?;
            let earlier = count.parse().ok().filter(|count| *count > 0)?;
            Some((key.to_owned(), earlier))
        };
        let mut log = Self::default();
        for (key, earlier) in text.lines().filter_map(line).take(MAX_ENTRIES) {
            log.entry(key).earlier = earlier;
        }
        log
    }

    /// Returns the text of the note.
    pub(super) fn to_text(&self) -> String {
        let mut attempts: Vec<_> = self.attempts.iter().collect();
        attempts.sort_unstable_by_key(|(_, attempts)| attempts.number);
        let mut text = String::new();
        for (key, attempts) in attempts {
            let count = attempts
                .earlier
                .saturating_add(u32::from(attempts.is_under_way));
            text.push_str(&count.to_string());
            text.push(' ');
            text.push_str(key);
            text.push('\n');
        }
        text
    }

    /// Returns the number of attempts of earlier processes.
    pub(super) fn earlier(&self, key: &str) -> u32 {
        self.attempts
            .get(key)
            .map_or(0, |attempts| attempts.earlier)
    }

    /// Notes that events are under way, or not any more. `false` if nothing changes.
    pub(super) fn set_under_way(&mut self, keys: &[String], is_under_way: bool) -> bool {
        let mut is_changed = false;
        for key in keys {
            let is_known = self.attempts.contains_key(key);
            let attempts = self.entry(key.clone());
            is_changed |= !is_known || attempts.is_under_way != is_under_way;
            attempts.is_under_way = is_under_way;
        }
        while self.attempts.len() > MAX_ENTRIES {
            let oldest = self.attempts.iter();
            let oldest = oldest.min_by_key(|(_, attempts)| attempts.number);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.attempts.remove(&oldest);
        }
        is_changed
    }

    /// Forgets the attempts at these events.
    pub(super) fn remove(&mut self, keys: &[String]) {
        for key in keys {
            self.attempts.remove(key);
        }
    }

    /// Forgets the attempts of this process.
    pub(super) fn keep_earlier(&mut self) {
        self.attempts.retain(|_, attempts| {
            attempts.is_under_way = false;
            attempts.earlier > 0
        });
    }

    fn entry(&mut self, key: String) -> &mut AttemptCount {
        let next = &mut self.next;
        self.attempts.entry(key).or_insert_with(|| {
            let number = *next;
            *next += 1;
            AttemptCount {
                number,
                earlier: 0,
                is_under_way: false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_lines_are_left_out() {
        for text in ["x", "1", "0 a", "-1 a", "99999999999 a", "\0"] {
            assert_eq!(AttemptLog::parse(text), AttemptLog::default(), "{text:?}");
        }
        let most = format!("{} a\n", u32::MAX);
        assert_eq!(AttemptLog::parse(&most).to_text(), most);
    }

    #[test]
    fn oldest_entries_are_dropped_first() {
        let mut log = AttemptLog::default();
        let keys: Vec<String> = (0..MAX_ENTRIES + 2).map(|key| key.to_string()).collect();
        assert!(log.set_under_way(&keys, true));
        let text = log.to_text();
        assert_eq!(text.lines().count(), MAX_ENTRIES);
        assert!(text.starts_with("1 2\n1 3\n"));
        assert!(!log.set_under_way(&keys[2..], true), "nothing changes");
    }
}
