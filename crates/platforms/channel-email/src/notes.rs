//! The notes about one mailbox, and the first mails that are looked at.
//!
//! Decision: each note begins with a fingerprint of the mailbox, so that a note about a mailbox
//! that was configured before does not count.
//!
//! Decision: a mailbox may hold years of unread mail when the assistant gets it, and no one wants
//! all of that answered. The day of the first start is noted, and mail that arrived before the days
//! that `firstLookDays` counts from there stays unread. A day and not a UID, because UIDs may
//! change. Mail that arrives while the assistant is away is later than that day, however long it is
//! away.
//!
//! Where a mailbox keeps no flags, the last mail that was handled is noted, too: the ledger
//! drops duplicates of the mails before it, but not for ever.

use chrono::{Days, NaiveDate, Utc};
use nanobot_channel::Notes;

use crate::EmailConfig;
use crate::error::MailError;
use crate::imap::MailUid;
use crate::thread::fingerprint;

/// The note with the day of the first start.
const FIRST_START: &str = "first-start";
/// The note with the last mail that was handled.
const LAST_MAIL: &str = "last-mail";

/// The notes about one mailbox.
#[derive(Debug)]
pub(crate) struct MailboxNotes<'a> {
    notes: &'a dyn Notes,
    mailbox: String,
}

impl<'a> MailboxNotes<'a> {
    /// The notes about the mailbox of a configuration.
    pub(crate) fn new(config: &EmailConfig, notes: &'a dyn Notes) -> Self {
        let EmailConfig {
            imap_host,
            imap_username,
            imap_mailbox,
            ..
        } = config;
        let mailbox = fingerprint(&format!("{imap_host}\n{imap_username}\n{imap_mailbox}"));
        Self {
            notes,
            mailbox: format!("{mailbox:032x}"),
        }
    }

    /// Reads a note about this mailbox.
    pub(crate) async fn read(&self, name: &'static str) -> Result<Option<String>, MailError> {
        let text = self.notes.read(name).await.map_err(MailError::Notes)?;
        let own = text
            .as_deref()
            .and_then(|text| text.split_once(' '))
            .filter(|(mailbox, _)| *mailbox == self.mailbox);
        Ok(own.map(|(_, text)| text.trim().to_owned()))
    }

    /// Writes a note.
    pub(crate) async fn write(&self, name: &'static str, text: &str) -> Result<(), MailError> {
        let text = format!("{} {text}", self.mailbox);
        let written = self.notes.write(name, &text).await;
        written.map_err(MailError::Notes)
    }

    /// Writes a note without waiting for the disk.
    pub(crate) async fn jot(&self, name: &'static str, text: &str) -> Result<(), MailError> {
        let text = format!("{} {text}", self.mailbox);
        let written = self.notes.write_unsynced(name, &text).await;
        written.map_err(MailError::Notes)
    }

    /// Returns the first day whose mails are looked at, `first_look_days` before the first start.
    /// Notes the first start if this mailbox is a new one.
    pub(crate) async fn first_day(&self, first_look_days: u32) -> Result<NaiveDate, MailError> {
        let noted = self.read(FIRST_START).await?;
        let day = match noted.and_then(|day| day.parse().ok()) {
            Some(day) => day,
            None => {
                let today = Utc::now().date_naive();
                self.write(FIRST_START, &today.to_string()).await?;
                today
            }
        };
        Ok(day
            .checked_sub_days(Days::new(first_look_days.into()))
            .unwrap_or(NaiveDate::MIN))
    }

    /// Returns the last mail that was handled.
    pub(crate) async fn last_mail(&self) -> Result<Option<MailUid>, MailError> {
        let noted = self.read(LAST_MAIL).await?;
        Ok(noted.as_deref().and_then(MailUid::parse))
    }

    /// Notes the last mail that was handled, and all before it.
    pub(crate) async fn set_last_mail(&self, mail: MailUid) -> Result<(), MailError> {
        self.write(LAST_MAIL, &mail.to_string()).await
    }
}
