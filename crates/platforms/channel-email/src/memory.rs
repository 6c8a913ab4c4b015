//! Values that are kept between connections.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel_kit::{Recent, Trouble};

use crate::imap::MailUid;
use crate::unproven::UnprovenMails;

/// Maximum number of mails that are known as handled.
const MAX_HANDLED: usize = 100_000;

/// Values that are kept between connections.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    mails: Mutex<MailMemory>,
    /// Reason for `degraded`.
    pub(crate) trouble: Arc<Trouble>,
}

#[derive(Debug)]
pub(crate) struct MailMemory {
    handled: Recent<MailUid>,
    /// Mails that an earlier process may have refused, too.
    pub(crate) unproven: UnprovenMails,
    /// The last mail that was handled, and all before it, in a mailbox without flags.
    pub(crate) last: Option<MailUid>,
    pub(crate) refused_logins: u32,
    /// The mails whose attempts are noted and not over.
    pub(crate) attempts: BTreeSet<MailUid>,
}

impl Default for MailMemory {
    fn default() -> Self {
        Self {
            handled: Recent::new(MAX_HANDLED),
            unproven: UnprovenMails::default(),
            last: None,
            refused_logins: 0,
            attempts: BTreeSet::new(),
        }
    }
}

impl Memory {
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut MailMemory) -> R) -> R {
        act(&mut self.mails.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `true` if a mail was handled, now or by an earlier process.
    pub(crate) fn is_handled(&self, mail: MailUid) -> bool {
        self.with(|memory| {
            let is_before = |last: MailUid| last.validity == mail.validity && mail.uid <= last.uid;
            memory.handled.contains(&mail)
                || memory.unproven.contains(mail)
                || memory.last.is_some_and(is_before)
        })
    }

    pub(crate) fn mark_handled(&self, mails: impl IntoIterator<Item = MailUid>) {
        self.with(|memory| {
            for mail in mails {
                memory.handled.insert(mail);
            }
        });
    }
}
