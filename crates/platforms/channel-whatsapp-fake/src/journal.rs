//! The journal: messages wait on disk until the client confirms them.

use std::collections::BTreeMap;

use nanobot_testkit::json::set;
use serde_json::Value;

/// Largest number of messages in the journal.
const COUNT_LIMIT: usize = 10_000;
/// Largest size of the journal in bytes.
const SIZE_LIMIT: usize = 64 << 20;

/// A message for the client.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Id of the message.
    pub(crate) id: String,
    /// The frame; its size counts.
    pub(crate) frame: Value,
    size: usize,
    /// Number of frames written.
    pub(crate) deliveries: usize,
    /// Number of messages that were dropped before it.
    lost: u64,
    /// Time of the confirmation, in milliseconds of the fake's clock.
    pub(crate) confirmed: Option<i64>,
    is_dropped: bool,
}

impl Entry {
    /// Returns `true` if the message is in the journal.
    pub(crate) fn is_kept(&self) -> bool {
        self.confirmed.is_none() && !self.is_dropped
    }
}

/// Messages by `seq`, also those that left the journal.
#[derive(Debug)]
pub(crate) struct Journal {
    pub(crate) entries: BTreeMap<u64, Entry>,
    pub(crate) count_limit: usize,
    pub(crate) size_limit: usize,
    /// Number of dropped messages that no client knows of.
    lost: u64,
    last: u64,
    /// The last `seq` that a client of version 1 has got.
    pub(crate) told: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            count_limit: COUNT_LIMIT,
            size_limit: SIZE_LIMIT,
            lost: 0,
            last: 0,
            told: 0,
        }
    }
}

impl Journal {
    /// Returns the `seq` of the next message.
    pub(crate) fn next_seq(&self) -> u64 {
        self.last + 1
    }

    /// Adds a message, and drops the oldest ones beyond the limits. The latest one is kept.
    pub(crate) fn add(&mut self, id: &str, mut frame: Value) -> u64 {
        self.last += 1;
        if frame.get("seq").is_none() {
            set(&mut frame, "seq", self.last);
        }
        let entry = Entry {
            id: id.to_owned(),
            size: frame.to_string().len(),
            frame,
            deliveries: 0,
            lost: 0,
            confirmed: None,
            is_dropped: false,
        };
        self.entries.insert(self.last, entry);
        let kept = self.entries.values().filter(|entry| entry.is_kept());
        let (mut count, mut size) = kept.fold((0, 0), |(count, size), entry| {
            (count + 1, size + entry.size)
        });
        for entry in self.entries.values_mut().filter(|entry| entry.is_kept()) {
            if count <= 1 || (count <= self.count_limit && size <= self.size_limit) {
                break;
            }
            entry.is_dropped = true;
            (count, size) = (count - 1, size - entry.size);
            self.lost += 1;
        }
        self.last
    }

    /// Returns the frame of a message, which is written now; `None` if it left the journal.
    pub(crate) fn deliver(&mut self, seq: u64) -> Option<String> {
        let entry = self.entries.get_mut(&seq)?;
        if !entry.is_kept() {
            return None;
        }
        entry.deliveries += 1;
        // A repeated frame has the number, too: the client may not have seen the first one.
        entry.lost += std::mem::take(&mut self.lost);
        let mut frame = entry.frame.clone();
        if entry.lost > 0 {
            set(&mut frame, "lost", entry.lost);
        }
        Some(frame.to_string())
    }

    /// Returns the entries of a message; a repeated one has several.
    pub(crate) fn of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.values().filter(move |entry| entry.id == id)
    }
}
