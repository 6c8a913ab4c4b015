//! One queue of the in-process bus: its open entries, and the settled ones it still remembers.

use std::collections::{BTreeMap, HashMap};

use nanobot_types::{ChannelName, Timestamp};
use tokio::time::Instant;

use crate::{
    BusError, DeliveryProgress, EntryProgress, EntryState, Handout, LONGEST_DELAY, LedgerEntry,
    LedgerFilter, Queued, REDELIVERY_DELAY, SettleOutcome,
};

/// Maximum number of settled entries remembered, which is also how far back duplicates are
/// recognised.
const MAX_SETTLED: usize = 4096;

/// The entries of one queue by number, which is their order of acceptance.
pub(super) struct QueueTable<T> {
    bound: usize,
    open: BTreeMap<u64, TableEntry<T>>,
    settled: BTreeMap<u64, TableEntry<T>>,
    names: HashMap<String, u64>,
}

struct TableEntry<T> {
    message: T,
    progress: EntryProgress,
    accepted_at: Timestamp,
    /// Serial of the hand-out under which the entry is out; 0 if it is not out.
    out: u64,
    due: Option<Instant>,
    /// Set while it waits for room with its consumer ([`SettleOutcome::PutOff`]).
    put_off: bool,
}

impl<T: Queued> QueueTable<T> {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            bound,
            open: BTreeMap::new(),
            settled: BTreeMap::new(),
            names: HashMap::new(),
        }
    }

    /// Adds a message under the number that `number` returns; `None` if the message is a duplicate.
    pub(super) fn accept(
        &mut self,
        message: T,
        number: impl FnOnce() -> u64,
    ) -> Result<Option<u64>, BusError> {
        let name = message.name();
        if self.names.contains_key(&name) {
            return Ok(None);
        }
        if self.open.len() >= self.bound {
            return Err(BusError::Full {
                queue: T::QUEUE,
                bound: self.bound,
            });
        }
        let number = number();
        let accepted_at = chrono::Local::now().fixed_offset();
        let entry = TableEntry {
            message,
            progress: EntryProgress::accepted(),
            accepted_at,
            out: 0,
            due: None,
            put_off: false,
        };
        self.open.insert(number, entry);
        self.names.insert(name, number);
        Ok(Some(number))
    }

    /// Takes back everything that is out to the consumer of `channel`. Entries put off by an
    /// earlier consumer are due at once.
    pub(super) fn take_back_all(&mut self, channel: Option<&ChannelName>) {
        for entry in self
            .open
            .values_mut()
            .filter(|entry| entry.message.consumer() == channel)
        {
            if entry.out != 0 {
                entry.out = 0;
                entry.progress.give_back();
            }
            if std::mem::take(&mut entry.put_off) {
                entry.due = None;
            }
        }
    }

    /// Takes one handout back; its entry is due again after [`REDELIVERY_DELAY`].
    pub(super) fn take_back(&mut self, handout: Handout) {
        if let Some(entry) = self
            .open
            .get_mut(&handout.entry)
            .filter(|entry| entry.out == handout.serial)
        {
            entry.out = 0;
            entry.progress.give_back();
            entry.due = Some(Instant::now() + REDELIVERY_DELAY);
        }
    }

    /// Hands out the first due entry of a consumer.
    pub(super) fn hand_out(
        &mut self,
        channel: Option<&ChannelName>,
        serial: impl FnOnce() -> u64,
    ) -> Option<(Handout, T, DeliveryProgress)> {
        let now = Instant::now();
        let (&number, entry) = self.open.iter_mut().find(|(_, entry)| {
            entry.message.consumer() == channel
                && entry.out == 0
                && entry.due.is_none_or(|due| due <= now)
        })?;
        entry.out = serial();
        entry.due = None;
        entry.put_off = false;
        let progress = entry.progress.hand_out();
        let handout = Handout {
            entry: number,
            serial: entry.out,
            attempt: progress.attempt,
        };
        Some((handout, entry.message.clone(), progress))
    }

    /// Returns the time at which the next waiting entry of a consumer is due.
    pub(super) fn next_due(&self, channel: Option<&ChannelName>) -> Option<Instant> {
        self.open
            .values()
            .filter(|entry| entry.message.consumer() == channel && entry.out == 0)
            .filter_map(|e| e.due)
            .min()
    }

    pub(super) fn settle(
        &mut self,
        handout: Handout,
        outcome: &SettleOutcome,
    ) -> Result<(), BusError> {
        let number = handout.entry;
        let Some(entry) = self.open.get_mut(&number) else {
            return Err(self.conflict(number));
        };
        let stale = entry.out != handout.serial;
        if (stale && !outcome.is_terminal())
            || !entry.progress.settle(T::QUEUE, outcome, handout.attempt)
        {
            return Err(self.conflict(number));
        }
        if let Some(delay) = outcome.comes_again_in() {
            entry.out = 0;
            entry.due = Some(Instant::now() + delay.min(LONGEST_DELAY));
            entry.put_off = matches!(outcome, SettleOutcome::PutOff(_));
        }
        self.archive_if_settled(number);
        Ok(())
    }

    pub(super) fn discard(&mut self, number: u64) -> Result<(), BusError> {
        let entry = self
            .open
            .get_mut(&number)
            .or_else(|| self.settled.get_mut(&number));
        if !entry.is_some_and(|entry| entry.progress.discard(T::QUEUE)) {
            return Err(self.conflict(number));
        }
        self.archive_if_settled(number);
        Ok(())
    }

    /// Reopens a settled entry and returns its channel, whose consumer has to be woken.
    pub(super) fn retry(&mut self, number: u64) -> Result<Option<ChannelName>, BusError> {
        match self.settled.remove(&number) {
            Some(mut entry) => {
                let reopened = entry.progress.retry();
                let channel = entry.message.consumer().cloned();
                if reopened {
                    entry.out = 0;
                    entry.due = None;
                    self.open.insert(number, entry);
                    return Ok(channel);
                }
                self.settled.insert(number, entry);
                Err(self.conflict(number))
            }
            None => Err(self.conflict(number)),
        }
    }

    pub(super) fn show(&self, number: u64) -> Option<LedgerEntry> {
        self.open
            .get(&number)
            .or_else(|| self.settled.get(&number))
            .map(|entry| entry.show(number))
    }

    pub(super) fn list(&self, filter: LedgerFilter, limit: usize) -> Vec<LedgerEntry> {
        let mut found: Vec<_> = self
            .open
            .iter()
            .chain(&self.settled)
            .filter(|(_, entry)| filter.admits(entry.progress.state))
            .collect();
        found.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(**number));
        found
            .into_iter()
            .take(limit)
            .map(|(number, entry)| entry.show(*number))
            .collect()
    }

    /// Moves an entry to the settled ones if it is settled, and forgets the oldest beyond the
    /// bound.
    fn archive_if_settled(&mut self, number: u64) {
        if self
            .open
            .get(&number)
            .is_some_and(|entry| entry.progress.state.is_open())
        {
            return;
        }
        if let Some(entry) = self.open.remove(&number) {
            self.settled.insert(number, entry);
        }
        if self.settled.len() > MAX_SETTLED
            && let Some((_, oldest)) = self.settled.pop_first()
        {
            self.names.remove(&oldest.message.name());
        }
    }

    /// Returns the error for an entry that does not allow the change.
    fn conflict(&self, number: u64) -> BusError {
        let id = number.to_string();
        match self.state(number) {
            Some(state) => BusError::Conflict { id, state },
            None => BusError::Unknown { id },
        }
    }

    fn state(&self, number: u64) -> Option<EntryState> {
        self.open
            .get(&number)
            .or_else(|| self.settled.get(&number))
            .map(|entry| entry.progress.state)
    }
}

impl<T: Queued> TableEntry<T> {
    fn show(&self, number: u64) -> LedgerEntry {
        let mut shown = LedgerEntry {
            id: number.to_string(),
            state: self.progress.state,
            why: self.progress.why.clone(),
            attempts: self.progress.attempts,
            accepted_at: self.accepted_at,
            inbound: None,
            outbound: None,
        };
        self.message.clone().show_in(&mut shown);
        shown
    }
}
