//! From where on the mails of a mailbox are looked at.
//!
//! Decision: a mailbox may hold years of unread mail when the assistant gets it, and nobody wants all
//! of that answered. So the day of the first start is written down, and what arrived before the days
//! that `firstLookDays` counts from there stays as it is, unread. By the day and not by the numbers of
//! mails, because those may change. What arrives while the assistant is away is later than that day,
//! however long it is away.
//!
//! Where a mailbox keeps no marks, the last mail that was dealt with is written down, too: the ledger
//! would know the ones before it, but not for ever.

use chrono::{Days, NaiveDate, Utc};
use nanobot_channel::Notes;

use crate::EmailConfig;
use crate::error::MailError;
use crate::mailbox::MailUid;
use crate::thread::fingerprint;

/// The note that keeps the day.
const NOTE: &str = "first-start";
/// The note that keeps the last mail that was dealt with.
const LAST: &str = "last-mail";

/// The first day, by the note; writes it when this mailbox is a new one.
pub(crate) async fn first_day(
    config: &EmailConfig,
    notes: &dyn Notes,
) -> Result<NaiveDate, MailError> {
    let noted = noted(config, notes, NOTE).await?;
    let day = match noted.and_then(|day| day.parse().ok()) {
        Some(day) => day,
        None => {
            let today = Utc::now().date_naive();
            note(config, notes, NOTE, &today.to_string()).await?;
            today
        }
    };
    Ok(day
        .checked_sub_days(Days::new(config.first_look_days.into()))
        .unwrap_or(NaiveDate::MIN))
}

/// The last mail that was dealt with, as far as it was noted.
pub(crate) async fn last_mail(
    config: &EmailConfig,
    notes: &dyn Notes,
) -> Result<Option<MailUid>, MailError> {
    let noted = noted(config, notes, LAST).await?;
    let numbers = noted.as_deref().and_then(|text| text.split_once(' '));
    Ok(numbers.and_then(|(validity, uid)| {
        Some(MailUid {
            validity: validity.parse().ok()?,
            uid: uid.parse().ok()?,
        })
    }))
}

/// Notes the last mail that was dealt with, and all before it.
pub(crate) async fn note_last_mail(
    config: &EmailConfig,
    notes: &dyn Notes,
    mail: MailUid,
) -> Result<(), MailError> {
    note(
        config,
        notes,
        LAST,
        &format!("{} {}", mail.validity, mail.uid),
    )
    .await
}

/// What is noted about this mailbox, and not about one that was configured before.
pub(crate) async fn noted(
    config: &EmailConfig,
    notes: &dyn Notes,
    name: &'static str,
) -> Result<Option<String>, MailError> {
    let text = notes.read(name).await.map_err(MailError::Notes)?;
    let own = text
        .as_deref()
        .and_then(|text| text.split_once(' '))
        .filter(|(known, _)| *known == mark(config));
    Ok(own.map(|(_, noted)| noted.trim().to_owned()))
}

/// Notes something about this mailbox.
pub(crate) async fn note(
    config: &EmailConfig,
    notes: &dyn Notes,
    name: &'static str,
    text: &str,
) -> Result<(), MailError> {
    notes
        .write(name, &format!("{} {text}", mark(config)))
        .await
        .map_err(MailError::Notes)
}

/// Notes something about this mailbox that may be lost with the machine.
pub(crate) async fn jot(
    config: &EmailConfig,
    notes: &dyn Notes,
    name: &'static str,
    text: &str,
) -> Result<(), MailError> {
    notes
        .jot(name, &format!("{} {text}", mark(config)))
        .await
        .map_err(MailError::Notes)
}

/// Tells the mailbox from others.
fn mark(config: &EmailConfig) -> String {
    let EmailConfig {
        imap_host,
        imap_username,
        imap_mailbox,
        ..
    } = config;
    format!(
        "{:032x}",
        fingerprint(&format!("{imap_host}\n{imap_username}\n{imap_mailbox}"))
    )
}

/// A day as IMAP writes it (RFC 3501, `date`).
pub(crate) fn imap_date(day: NaiveDate) -> String {
    // It has no years before the first, and nobody had mail then.
    day.max(NaiveDate::default())
        .format("%-d-%b-%Y")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_servers_read_them() {
        let day = |year, month, day| NaiveDate::from_ymd_opt(year, month, day).unwrap();
        let table = [
            (day(2026, 11, 2), "2-Nov-2026"),
            (day(2024, 2, 29), "29-Feb-2024"),
            (NaiveDate::MIN, "1-Jan-1970"),
        ];
        for (day, text) in table {
            assert_eq!(imap_date(day), text);
        }
    }
}
