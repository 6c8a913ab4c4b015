//! From which day on the mails of a mailbox are looked at.
//!
//! Decision: a mailbox may hold years of unread mail when the assistant gets it, and nobody wants all
//! of that answered. So the day of the first start is written down, and what arrived before the days
//! that `firstLookDays` counts from there stays as it is, unread. By the day and not by the numbers of
//! mails, because those may change. What arrives while the assistant is away is later than that day,
//! however long it is away.

use chrono::{Days, NaiveDate, Utc};
use nanobot_channel::Notes;

use crate::EmailConfig;
use crate::error::MailError;
use crate::thread::fingerprint;

/// The note that keeps the day.
const NOTE: &str = "first-start";

/// The first day, by the note; writes it when this mailbox is a new one.
pub(crate) async fn first_day(config: &EmailConfig, notes: &dyn Notes) -> Result<NaiveDate, MailError> {
    let EmailConfig { imap_host, imap_username, imap_mailbox, .. } = config;
    let mailbox = format!("{:032x}", fingerprint(&format!("{imap_host}\n{imap_username}\n{imap_mailbox}")));
    let noted = notes.read(NOTE).await.map_err(MailError::Notes)?;
    let noted = noted.as_deref().and_then(|text| text.split_once(' ')).filter(|(known, _)| *known == mailbox);
    let day = match noted.and_then(|(_, day)| day.trim().parse().ok()) {
        Some(day) => day,
        None => {
            let today = Utc::now().date_naive();
            notes.write(NOTE, &format!("{mailbox} {today}")).await.map_err(MailError::Notes)?;
            today
        }
    };
    Ok(day.checked_sub_days(Days::new(config.first_look_days.into())).unwrap_or(NaiveDate::MIN))
}

/// A day as IMAP writes it (RFC 3501, `date`).
pub(crate) fn imap_date(day: NaiveDate) -> String {
    // It has no years before the first, and nobody had mail then.
    day.max(NaiveDate::default()).format("%-d-%b-%Y").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_written_as_servers_read_them() {
        let day = |year, month, day| NaiveDate::from_ymd_opt(year, month, day).unwrap();
        let table =
            [(day(2026, 11, 2), "2-Nov-2026"), (day(2024, 2, 29), "29-Feb-2024"), (NaiveDate::MIN, "1-Jan-1970")];
        for (day, text) in table {
            assert_eq!(imap_date(day), text);
        }
    }
}
