//! How far a message came that has to be sent again.
//!
//! Files of a message are sent one by one before its text, all in one part. When the part is tried
//! again, the files that arrived stay sent. Bounded, and in memory only: after a restart the part
//! begins anew.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use nanobot_channel::OutboundKey;

/// How many unfinished messages are remembered.
const REMEMBERED: usize = 64;

/// The messages whose first part did not go through whole.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<VecDeque<(OutboundKey, usize)>>);

impl Attempts {
    /// How many files of a message arrived already.
    pub(crate) fn files_sent(&self, key: &OutboundKey) -> usize {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries
            .iter()
            .find(|(known, _)| known == key)
            .map_or(0, |(_, sent)| *sent)
    }

    /// So many have arrived now.
    pub(crate) fn remember(&self, key: &OutboundKey, sent: usize) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(known, _)| known != key);
        if entries.len() >= REMEMBERED {
            entries.pop_front();
        }
        entries.push_back((key.clone(), sent));
    }

    /// The part went through.
    pub(crate) fn forget(&self, key: &OutboundKey) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|(known, _)| known != key);
    }
}
