//! Counts how often each mail was begun, over restarts.
//!
//! Decision: a try is noted on disk before anything of its mail is fetched or parsed, and struck out
//! when the mail was read. A mail that ends the process is then passed over after a few starts instead
//! of ending every one of them. A note that cannot be written keeps the mail where it is.

use nanobot_channel::Notes;

use crate::EmailConfig;
use crate::error::MailError;
use crate::mailbox::MailUid;
use crate::start::{note, noted};

/// The note that keeps the counts.
const NOTE: &str = "tries";
/// Most mails that are counted at a time; the oldest are dropped first.
const COUNTED: usize = 256;

/// Notes that a mail is begun, and returns which time that is.
pub(crate) async fn begin(
    config: &EmailConfig,
    notes: &dyn Notes,
    mail: MailUid,
) -> Result<u32, MailError> {
    let mut counts = read(config, notes).await?;
    let before = counts
        .iter()
        .position(|(known, _)| *known == mail)
        .map(|place| counts.remove(place));
    let count = before.map_or(1, |(_, count)| count.saturating_add(1));
    counts.push((mail, count));
    let surplus = counts.len().saturating_sub(COUNTED);
    write(config, notes, counts.get(surplus..).unwrap_or_default()).await?;
    Ok(count)
}

/// Forgets the tries of a mail that was read, whatever became of it.
pub(crate) async fn end(
    config: &EmailConfig,
    notes: &dyn Notes,
    mail: MailUid,
) -> Result<(), MailError> {
    let mut counts = read(config, notes).await?;
    let before = counts.len();
    counts.retain(|(known, _)| *known != mail);
    if counts.len() == before {
        Ok(())
    } else {
        write(config, notes, &counts).await
    }
}

/// Reads the counts, oldest first; entries that make no sense are none.
async fn read(config: &EmailConfig, notes: &dyn Notes) -> Result<Vec<(MailUid, u32)>, MailError> {
    let text = noted(config, notes, NOTE).await?.unwrap_or_default();
    let entry = |entry: &str| {
        let mut numbers = entry.split(' ').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some((
            MailUid {
                validity: next()?,
                uid: next()?,
            },
            next()?,
        ))
    };
    Ok(text.split(',').filter_map(entry).collect())
}

async fn write(
    config: &EmailConfig,
    notes: &dyn Notes,
    counts: &[(MailUid, u32)],
) -> Result<(), MailError> {
    let entries = counts
        .iter()
        .map(|(mail, count)| format!("{} {} {count}", mail.validity, mail.uid));
    note(config, notes, NOTE, &entries.collect::<Vec<_>>().join(",")).await
}
