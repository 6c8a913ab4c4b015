//! The cursor of gateway events: the last received one, and the last handled one.
//!
//! Events of a session are numbered. Discord gets the number up to which all are handled: later
//! ones are repeated when the session is resumed, and duplicates are dropped. Kept over restarts of
//! the run, in memory only: a restart of the process begins a new session.

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
    last_handled: u64,
}

impl EventCursor {
    /// Begins a new session.
    pub(crate) fn begin(&mut self, session: GatewaySession, bot: BotUser) {
        *self = Self {
            session: Some(session),
            bot: Some(bot),
            epoch: self.epoch + 1,
            received: 0,
            last_handled: 0,
        };
    }

    /// Drops a session that cannot be resumed.
    pub(crate) fn forget(&mut self) {
        self.session = None;
    }

    /// Forgets received events that were not handled, so that they are accepted again.
    pub(crate) fn rewind(&mut self) {
        self.received = self.last_handled;
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

    /// Records an event. `false` for a duplicate.
    pub(crate) fn receive(&mut self, number: u64) -> bool {
        let is_new = number > self.received;
        self.received = self.received.max(number);
        is_new
    }

    /// Records that all events of a session up to this one are handled.
    pub(crate) fn mark_handled(&mut self, epoch: u64, number: u64) {
        if epoch == self.epoch {
            self.last_handled = self.last_handled.max(number);
        }
    }

    /// Returns the number of the last handled event.
    pub(crate) fn last_handled(&self) -> u64 {
        self.last_handled
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
    fn rewind_accepts_only_unhandled_events_again() {
        let mut cursor = EventCursor::default();
        begin(&mut cursor);
        let epoch = cursor.epoch();
        assert_eq!(
            [1, 2, 3, 2].map(|number| cursor.receive(number)),
            [true, true, true, false]
        );
        cursor.mark_handled(epoch, 1);
        cursor.rewind();
        assert_eq!(
            [1, 2, 3].map(|number| cursor.receive(number)),
            [false, true, true]
        );
        assert_eq!(cursor.last_handled(), 1);
        begin(&mut cursor);
        cursor.mark_handled(epoch, 3);
        assert_eq!((cursor.last_handled(), cursor.receive(1)), (0, true));
    }
}
