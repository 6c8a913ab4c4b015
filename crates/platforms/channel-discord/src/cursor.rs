//! How far the gateway was read, and how far what was read is dealt with.
//!
//! Events of a session are numbered. Discord is told the number up to which everything is dealt
//! with: what comes after it comes again when the session is resumed, and what came already is
//! passed over. Kept over restarts of the run, in memory only: after a restart of the program a new
//! session begins.

use serenity::model::id::{ApplicationId, UserId};

use crate::Secret;

/// How many numbers may be left out between two events. Discord leaves out none.
const LARGEST_LEAP: u64 = 100_000;

/// Who the bot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bot {
    pub(crate) id: UserId,
    pub(crate) application: ApplicationId,
}

/// A session that can be resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Whoever has it and the token can resume.
    pub(crate) id: Secret,
    /// Where to resume.
    pub(crate) url: String,
}

/// The place in the stream of events.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    session: Option<Session>,
    /// Known from the first session on.
    bot: Option<Bot>,
    /// Counts the sessions, so that what is left of an old one moves nothing.
    epoch: u64,
    received: u64,
    dealt_with: u64,
}

impl Cursor {
    /// A new session began.
    pub(crate) fn begin(&mut self, session: Session, bot: Bot) {
        *self = Self {
            session: Some(session),
            bot: Some(bot),
            epoch: self.epoch + 1,
            received: 0,
            dealt_with: 0,
        };
    }

    /// The session cannot be resumed (any more).
    pub(crate) fn forget(&mut self) {
        self.session = None;
    }

    /// What was received and not dealt with is lost here, and has to come again.
    pub(crate) fn rewind(&mut self) {
        self.received = self.dealt_with;
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    pub(crate) fn bot(&self) -> Option<&Bot> {
        self.bot.as_ref()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether an event may have that number.
    pub(crate) fn is_plausible(&self, number: u64) -> bool {
        number <= self.received.saturating_add(LARGEST_LEAP)
    }

    /// Notes an event. `false` when it came before.
    pub(crate) fn receive(&mut self, number: u64) -> bool {
        let is_new = number > self.received;
        self.received = self.received.max(number);
        is_new
    }

    /// Everything up to this event of that session is dealt with.
    pub(crate) fn deal_with(&mut self, epoch: u64, number: u64) {
        if epoch == self.epoch {
            self.dealt_with = self.dealt_with.max(number);
        }
    }

    /// What Discord may be told.
    pub(crate) fn dealt_with(&self) -> u64 {
        self.dealt_with
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(cursor: &mut Cursor) {
        let bot = Bot {
            id: UserId::new(1),
            application: ApplicationId::new(2),
        };
        cursor.begin(
            Session {
                id: Secret::new("s"),
                url: "wss://resume".to_owned(),
            },
            bot,
        );
    }

    #[test]
    fn what_was_not_dealt_with_comes_again_and_nothing_else() {
        let mut cursor = Cursor::default();
        begin(&mut cursor);
        let epoch = cursor.epoch();
        assert_eq!(
            [1, 2, 3, 2].map(|number| cursor.receive(number)),
            [true, true, true, false]
        );
        cursor.deal_with(epoch, 1);
        cursor.rewind();
        assert_eq!(
            [1, 2, 3].map(|number| cursor.receive(number)),
            [false, true, true]
        );
        assert_eq!(cursor.dealt_with(), 1);
        begin(&mut cursor);
        cursor.deal_with(epoch, 3);
        assert_eq!((cursor.dealt_with(), cursor.receive(1)), (0, true));
    }
}
