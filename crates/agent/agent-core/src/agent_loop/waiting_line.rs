//! The waiting line in front of a full lane.
//!
//! Decision: messages that found no room stay in the ledger. The line keeps only their ids, so that
//! no later message overtakes them when they are redelivered. An id leaves the line when its
//! message enters the lane, or when the message fails to return, because a person may have settled
//! it meanwhile.

use std::collections::{BTreeMap, HashMap};

use nanobot_types::MessageId;

/// Messages that were refused, in the order in which they first arrived.
#[derive(Debug, Default)]
pub(super) struct WaitingLine {
    tickets: HashMap<MessageId, u64>,
    waiting: BTreeMap<u64, WaitingMessage>,
    next_ticket: u64,
    arrivals: u64,
}

#[derive(Debug)]
struct WaitingMessage {
    id: MessageId,
    /// Arrival count at its last arrival.
    last_arrival: u64,
}

impl WaitingLine {
    /// Notes that a message arrived. Returns `true` if it is its turn.
    pub(super) fn arrive(&mut self, id: &MessageId) -> bool {
        self.arrivals += 1;
        let Some(ticket) = self.tickets.get(id).copied() else {
            return self.waiting.is_empty();
        };
        let now = self.arrivals;
        let before = self
            .waiting
            .get_mut(&ticket)
            .map_or(now, |own| std::mem::replace(&mut own.last_arrival, now));
        // Messages earlier in the line are redelivered earlier. One that did not return between two
        // arrivals of this message is gone.
        while let Some(first) = self.waiting.first_entry()
            && *first.key() < ticket
            && first.get().last_arrival < before
        {
            self.tickets.remove(&first.remove().id);
        }
        self.waiting
            .first_key_value()
            .is_none_or(|(first, _)| *first == ticket)
    }

    /// Adds a message at the end of the line unless it is in it already. Returns how many are
    /// before it.
    pub(super) fn wait(&mut self, id: &MessageId) -> u64 {
        let ticket = self.tickets.get(id).copied().unwrap_or_else(|| {
            self.next_ticket += 1;
            self.tickets.insert(id.clone(), self.next_ticket);
            self.waiting.insert(
                self.next_ticket,
                WaitingMessage {
                    id: id.clone(),
                    last_arrival: self.arrivals,
                },
            );
            self.next_ticket
        });
        ticket
            - self
                .waiting
                .first_key_value()
                .map_or(ticket, |(first, _)| *first)
    }

    /// Removes a message that entered the lane.
    pub(super) fn remove(&mut self, id: &MessageId) {
        if let Some(ticket) = self.tickets.remove(id) {
            self.waiting.remove(&ticket);
        }
    }

    /// Returns `true` if no message waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> MessageId {
        name.into()
    }

    fn line(names: &[&str]) -> WaitingLine {
        let mut line = WaitingLine::default();
        for (place, name) in (0..).zip(names) {
            assert_eq!(line.arrive(&id(name)), place == 0, "{name}");
            assert_eq!(line.wait(&id(name)), place, "{name}");
        }
        line
    }

    #[test]
    fn admits_waiters_in_order() {
        let mut line = line(&["a", "b", "c"]);
        assert!(line.arrive(&id("a")), "no room yet");
        assert!(!line.arrive(&id("b")));
        assert!(line.arrive(&id("a")));
        line.remove(&id("a"));
        assert!(line.arrive(&id("b")));
        assert_eq!(line.wait(&id("b")), 0, "still no room");
        assert!(!line.arrive(&id("d")), "a new one waits after them");
        assert_eq!(line.wait(&id("d")), 2);
        for name in ["b", "c", "d"] {
            assert!(line.arrive(&id(name)), "{name}");
            line.remove(&id(name));
        }
        assert!(line.is_empty() && line.arrive(&id("e")));
    }

    #[test]
    fn absent_waiters_do_not_block_others() {
        let mut line = line(&["a", "b", "c"]);
        assert!(line.arrive(&id("a")));
        assert!(!line.arrive(&id("b")));
        assert!(!line.arrive(&id("c")));
        // A person settled the first two.
        assert!(line.arrive(&id("c")));
        line.remove(&id("c"));
        assert!(line.is_empty());
    }
}
