//! Attempts at reading each mail, over restarts.
//!
//! Decision: an attempt is on disk before anything of its mail is fetched or parsed, and removed
//! when the mail was read. A mail that ends the process is skipped after a few starts instead of
//! ending every one of them. If the note cannot be written, the mail keeps its place. The kit's
//! quarantine is not used: its note is not synced, and a mail needs no copy aside because it stays
//! in the mailbox.

use crate::error::MailError;
use crate::imap::MailUid;
use crate::notes::MailboxNotes;

/// The name of the note.
const NOTE: &str = "tries";
/// Maximum number of mails in the note; the oldest are dropped first.
const MAX_ENTRIES: usize = 256;

/// Notes an attempt, and returns the number of attempts at this mail so far.
pub(crate) async fn begin_attempt(
    notes: &MailboxNotes<'_>,
    mail: MailUid,
) -> Result<u32, MailError> {
    let mut counts = read(notes).await?;
    let before = counts
        .iter()
        .position(|(known, _)| *known == mail)
        .map(|index| counts.remove(index));
    let count = before.map_or(1, |(_, count)| count.saturating_add(1));
    counts.push((mail, count));
    let surplus = counts.len().saturating_sub(MAX_ENTRIES);
    write(notes, counts.get(surplus..).unwrap_or_default()).await?;
    Ok(count)
}

/// Forgets the attempts at a mail that was read, with any outcome.
pub(crate) async fn end_attempt(notes: &MailboxNotes<'_>, mail: MailUid) -> Result<(), MailError> {
    let mut counts = read(notes).await?;
    let before = counts.len();
    counts.retain(|(known, _)| *known != mail);
    if counts.len() == before {
        Ok(())
    } else {
        write(notes, &counts).await
    }
}

/// Reads the counts, oldest first; malformed entries are left out.
async fn read(notes: &MailboxNotes<'_>) -> Result<Vec<(MailUid, u32)>, MailError> {
    let text = notes.read(NOTE).await?.unwrap_or_default();
    let entry = |entry: &str| {
        let (mail, count) = entry.rsplit_once(' ')?;
        Some((MailUid::parse(mail)?, count.parse().ok()?))
    };
    Ok(text.split(',').filter_map(entry).collect())
}

async fn write(notes: &MailboxNotes<'_>, counts: &[(MailUid, u32)]) -> Result<(), MailError> {
    let entries = counts.iter().map(|(mail, count)| format!("{mail} {count}"));
    notes
        .write(NOTE, &entries.collect::<Vec<_>>().join(","))
        .await
}
