//! The position in the events of a session, kept over restarts.
//!
//! Decision: events of several chats are handled at once, so a later one may be stored first. QQ
//! gets the number of the last event before the first one that is not stored, and repeats the
//! others when the session is resumed. The note may be some seconds old; duplicates are recognised
//! by their ids, never by their numbers: one wrong number would hide all later events.

use std::collections::VecDeque;

use nanobot_channel_kit::Noted;
use serde::{Deserialize, Serialize};

use crate::Secret;

/// Largest accepted gap between two numbers. QQ leaves none.
const LARGEST_LEAP: u64 = 100_000;
/// Refused attempts to resume a session after which it is given up.
const MAX_REFUSALS: u32 = 3;

/// The name of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventNumber {
    /// The session, so that events of an old one change nothing.
    epoch: u64,
    number: u64,
}

/// The position in the events of a session.
#[derive(Debug, Default)]
pub(crate) struct EventCursor {
    account: String,
    /// With the token, it allows resuming.
    session: Option<Secret>,
    epoch: u64,
    received: u64,
    /// The last event before the first one that is not stored.
    stored: u64,
    /// Events after that one, in order, each with `true` if it is stored.
    open: VecDeque<(u64, bool)>,
    refused_resumes: u32,
}

/// The note of a cursor.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CursorNote {
    account: String,
    session: Option<String>,
    number: u64,
}

impl Noted for EventCursor {
    const NAME: &'static str = "session";
    type Form = CursorNote;

    fn form(&self) -> CursorNote {
        let session = self.session.as_ref();
        CursorNote {
            account: self.account.clone(),
            session: session.map(|session| session.expose_exact().to_owned()),
            number: self.stored,
        }
    }

    fn restore(&mut self, form: CursorNote) {
        self.account = form.account;
        self.session = form.session.map(Secret::new);
        self.received = form.number;
        self.stored = form.number;
    }
}

impl EventCursor {
    /// Forgets the session of another account.
    pub(crate) fn claim(&mut self, account: &str) {
        if self.account != account {
            self.forget();
            account.clone_into(&mut self.account);
        }
    }

    /// Begins a session with its first event.
    pub(crate) fn begin(&mut self, session: Secret, number: Option<u64>) {
        self.forget();
        self.session = Some(session);
        self.received = number.filter(|n| self.is_plausible(*n)).unwrap_or(0);
        self.stored = self.received;
    }

    /// Forgets a session that cannot be resumed.
    pub(crate) fn forget(&mut self) {
        *self = Self {
            account: std::mem::take(&mut self.account),
            epoch: self.epoch + 1,
            ..Self::default()
        };
    }

    /// Returns the session to resume and the number after which it goes on. Events that are not
    /// stored are accepted again.
    pub(crate) fn resume(&mut self) -> Option<(Secret, u64)> {
        let session = self.session.clone()?;
        self.received = self.stored;
        self.open.clear();
        Some((session, self.stored))
    }

    /// Records that a session goes on.
    pub(crate) fn resumed(&mut self) {
        self.refused_resumes = 0;
    }

    /// Records that the attempt to resume a session was refused. `true` if it is given up.
    pub(crate) fn refuse_resume(&mut self) -> bool {
        self.refused_resumes += 1;
        let is_over = self.refused_resumes >= MAX_REFUSALS;
        if is_over {
            self.forget();
        }
        is_over
    }

    /// `true` if there is a session.
    pub(crate) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Returns the number of the last event before the first one that is not stored.
    pub(crate) fn stored(&self) -> Option<u64> {
        Some(self.stored).filter(|number| *number > 0)
    }

    /// Records an event. One without a plausible number, or with one that came before, gets a name
    /// that changes nothing.
    pub(crate) fn receive(&mut self, number: Option<u64>) -> EventNumber {
        let is_next = |number: &u64| *number > self.received && self.is_plausible(*number);
        let number = number.filter(is_next).unwrap_or(0);
        if number > 0 {
            self.received = number;
            self.open.push_back((number, false));
        }
        EventNumber {
            epoch: self.epoch,
            number,
        }
    }

    /// `true` if an event may have this number.
    fn is_plausible(&self, number: u64) -> bool {
        number <= self.received.saturating_add(LARGEST_LEAP)
    }

    /// Records that an event is stored. `true` if the position changed.
    pub(crate) fn store(&mut self, event: EventNumber) -> bool {
        if event.epoch != self.epoch {
            return false;
        }
        if let Ok(place) = self.open.binary_search_by_key(&event.number, |open| open.0) {
            self.mark_stored(place);
        }
        let before = self.stored;
        while let Some((number, true)) = self.open.front() {
            self.stored = *number;
            self.open.pop_front();
        }
        self.stored != before
    }

    /// Of neighbours that are stored, the last one is kept: there are at most twice as many entries
    /// as events that are not stored.
    fn mark_stored(&mut self, place: usize) {
        let is_stored = |entry: Option<&(u64, bool)>| entry.is_some_and(|entry| entry.1);
        if is_stored(self.open.get(place + 1)) {
            self.open.remove(place);
        } else if let Some(entry) = self.open.get_mut(place) {
            entry.1 = true;
        }
        if let Some(before) = place.checked_sub(1)
            && is_stored(self.open.get(before))
        {
            self.open.remove(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun() -> EventCursor {
        let mut cursor = EventCursor::default();
        cursor.claim("102");
        cursor.begin(Secret::new("s"), Some(1));
        cursor
    }

    fn receive(cursor: &mut EventCursor, number: u64) -> EventNumber {
        cursor.receive(Some(number))
    }

    #[test]
    fn position_stays_before_the_first_event_that_is_not_stored() {
        let mut cursor = begun();
        let events = [2, 3, 5].map(|number| receive(&mut cursor, number));
        assert_eq!(cursor.stored(), Some(1));
        assert!(!cursor.store(events[2]) && cursor.stored() == Some(1));
        assert!(cursor.store(events[0]) && cursor.stored() == Some(2));
        assert!(cursor.store(events[1]) && cursor.stored() == Some(5));
        assert!(!cursor.store(events[1]));
    }

    #[test]
    fn events_after_an_unstored_one_take_no_room() {
        let mut cursor = begun();
        let first = receive(&mut cursor, 2);
        for number in 3..10_000 {
            let event = receive(&mut cursor, number);
            assert!(!cursor.store(event));
        }
        let (left, right) = (receive(&mut cursor, 10_000), receive(&mut cursor, 10_001));
        cursor.store(right);
        cursor.store(left);
        assert_eq!(cursor.open.len(), 2);
        assert!(cursor.store(first) && cursor.stored() == Some(10_001));
    }

    #[test]
    fn resumed_session_accepts_unstored_events_again() {
        let mut cursor = begun();
        let (first, second) = (receive(&mut cursor, 2), receive(&mut cursor, 3));
        cursor.store(first);
        let again = receive(&mut cursor, 3);
        assert!(!cursor.store(again));
        assert_eq!(cursor.resume(), Some((Secret::new("s"), 2)));
        // Work that goes on over the connections counts when the event is there again.
        assert!(!cursor.store(second));
        receive(&mut cursor, 2);
        receive(&mut cursor, 3);
        assert!(cursor.store(second) && cursor.stored() == Some(3));
    }

    #[test]
    fn events_of_an_old_session_change_nothing() {
        let mut cursor = begun();
        let old = receive(&mut cursor, 2);
        cursor.begin(Secret::new("t"), Some(1));
        receive(&mut cursor, 2);
        assert!(!cursor.store(old));
        assert_eq!(cursor.stored(), Some(1));
    }

    #[test]
    fn absurd_numbers_change_nothing() {
        for first in [None, Some(1), Some(u64::MAX), Some(1 << 40)] {
            let mut cursor = EventCursor::default();
            cursor.begin(Secret::new("s"), first);
            for number in [None, Some(u64::MAX), Some(1 << 40)] {
                let event = cursor.receive(number);
                assert!(!cursor.store(event));
            }
            let event = receive(&mut cursor, 2);
            assert!(cursor.store(event) && cursor.stored() == Some(2));
        }
    }

    #[test]
    fn note_continues_the_session_of_the_same_account() {
        let mut cursor = begun();
        let event = receive(&mut cursor, 2);
        receive(&mut cursor, 3);
        cursor.store(event);
        for (account, expected) in [("102", Some((Secret::new("s"), 2))), ("103", None)] {
            let note = serde_json::to_string(&cursor.form()).unwrap();
            let mut next = EventCursor::default();
            next.restore(serde_json::from_str(&note).unwrap());
            next.claim(account);
            assert_eq!(next.resume(), expected, "{account}");
        }
        assert!(!format!("{cursor:?}").contains("\"s\""));
    }

    #[test]
    fn session_is_given_up_after_refusals() {
        let mut cursor = begun();
        assert!(!cursor.refuse_resume());
        cursor.resumed();
        assert_eq!([0; 3].map(|_| cursor.refuse_resume()), [false, false, true]);
        assert!(!cursor.has_session());
    }
}
