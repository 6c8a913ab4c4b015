//! The cursor of gateway events: the last received one, and the last one up to which all are
//! handled.
//!
//! Events of a session are numbered, and handled in any order. Discord gets the number up to which
//! all are handled: later ones are repeated when the session is resumed, and those of them that are
//! handled or under way are dropped. Kept over restarts of the run, in memory only: a restart of
//! the process begins a new session.

use std::collections::BTreeSet;

use serenity::model::id::{ApplicationId, UserId};

use crate::Secret;

/// Largest accepted gap between two numbers. Discord leaves none.
const LARGEST_LEAP: u64 = 100_000;

/// The identity of the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BotUser {
    pub(crate) id: UserId,
    pub(crate) application: ApplicationId,
}

/// A session that can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewaySession {
    /// With the token, it allows resuming.
    pub(crate) id: Secret,
    /// The address for resuming.
    pub(crate) url: String,
}

/// The position in the stream of events.
#[derive(Debug, Default)]
pub(crate) struct EventCursor {
    session: Option<GatewaySession>,
    /// Set by the first session.
    bot: Option<BotUser>,
    /// Number of sessions, so that events of an old one change nothing.
    epoch: u64,
    received: u64,
    /// Received events that wait or are being handled.
    under_way: BTreeSet<u64>,
    /// Received events whose handling ended with an earlier run. Discord repeats them.
    dropped: BTreeSet<u64>,
}

impl EventCursor {
    /// Begins a new session.
    pub(crate) fn begin(&mut self, session: GatewaySession, bot: BotUser) {
        *self = Self {
            session: Some(session),
            bot: Some(bot),
            epoch: self.epoch + 1,
            ..Self::default()
        };
    }

    /// Drops a session that cannot be resumed.
    pub(crate) fn forget(&mut self) {
        self.session = None;
    }

    /// Drops the events under way, so that they are accepted again, and no others.
    pub(crate) fn rewind(&mut self) {
        self.dropped.append(&mut self.under_way);
    }

    pub(crate) fn session(&self) -> Option<&GatewaySession> {
        self.session.as_ref()
    }

    pub(crate) fn bot(&self) -> Option<&BotUser> {
        self.bot.as_ref()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// `true` if an event may have this number.
    pub(crate) fn is_plausible(&self, number: u64) -> bool {
        number <= self.received.saturating_add(LARGEST_LEAP)
    }

    /// Records an event. `false` for a duplicate of one that is handled or under way.
    pub(crate) fn receive(&mut self, number: u64) -> bool {
        let is_new = number > self.received || self.dropped.remove(&number);
        if is_new {
            self.received = self.received.max(number);
            self.under_way.insert(number);
        }
        is_new
    }

    /// Records that an event of a session is handled.
    pub(crate) fn mark_handled(&mut self, epoch: u64, number: u64) {
        if epoch == self.epoch {
            self.under_way.remove(&number);
        }
    }

    /// Returns the number up to which all events are handled.
    pub(crate) fn last_handled(&self) -> u64 {
        let unhandled = [self.under_way.first(), self.dropped.first()];
        match unhandled.into_iter().flatten().min() {
            Some(first) => first.saturating_sub(1),
            None => self.received,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(cursor: &mut EventCursor) {
        let bot = BotUser {
            id: UserId::new(1),
            application: ApplicationId::new(2),
        };
        cursor.begin(
            GatewaySession {
                id: Secret::new("s"),
                url: "wss://resume".to_owned(),
            },
            bot,
        );
    }

    #[test]
    fn cursor_stays_before_the_first_unhandled_event() {
        let mut cursor = EventCursor::default();
        begin(&mut cursor);
        let epoch = cursor.epoch();
        let mut positions = Vec::new();
        for number in 1..=4 {
            assert!(cursor.receive(number));
        }
        for number in [3, 1, 4, 2] {
            cursor.mark_handled(epoch, number);
            positions.push(cursor.last_handled());
        }
        assert_eq!(positions, [0, 1, 1, 4]);
        begin(&mut cursor);
        assert_eq!((cursor.last_handled(), cursor.receive(1)), (0, true));
        cursor.mark_handled(epoch, 1);
        assert_eq!(cursor.last_handled(), 0, "it was of the old session");
    }

    #[test]
    fn rewind_accepts_only_unhandled_events_again() {
        let mut cursor = EventCursor::default();
        begin(&mut cursor);
        let epoch = cursor.epoch();
        let receive = |cursor: &mut EventCursor, numbers: [u64; 4]| {
            numbers.map(|number| cursor.receive(number))
        };
        assert_eq!(
            receive(&mut cursor, [1, 2, 3, 2]),
            [true, true, true, false]
        );
        cursor.mark_handled(epoch, 2);
        cursor.rewind();
        assert_eq!(cursor.last_handled(), 0);
        assert_eq!(
            receive(&mut cursor, [1, 2, 3, 4]),
            [true, false, true, true]
        );
        assert_eq!(receive(&mut cursor, [1, 2, 3, 4]), [false; 4]);
        for number in [1, 3] {
            cursor.mark_handled(epoch, number);
        }
        assert_eq!(cursor.last_handled(), 3);
    }
}
