//! Attempts at reading each mail, over restarts.
//!
//! Decision: an attempt is on disk before anything of its mail is fetched or parsed, and removed
//! when the mail was read. A mail that ends the process is skipped after a few starts instead of
//! ending every one of them. The attempts at a batch are noted in one write; what is left of them
//! in the next process makes suspects, which are handled one at a time. If the note cannot be
//! written, the mails keep their places. The kit's quarantine is not used: its note is not synced,
//! and a mail needs no copy aside because it stays in the mailbox.

use std::collections::BTreeSet;

use crate::error::MailError;
use crate::imap::MailUid;
use crate::notes::MailboxNotes;

/// The name of the note.
const NOTE: &str = "tries";
/// Maximum number of mails in the note, of which a batch is a small part; the oldest are dropped
/// first.
const MAX_ENTRIES: usize = 256;

/// Returns the mails with attempts that did not end. Each is handled alone, so that it is not
/// blamed for another.
pub(crate) async fn suspects(notes: &MailboxNotes<'_>) -> Result<BTreeSet<MailUid>, MailError> {
    let counts = read(notes).await?;
    Ok(counts.into_iter().map(|(mail, _)| mail).collect())
}

/// Notes an attempt at each mail of a batch in one write. Returns the number of attempts so far at
/// the mail with the most.
pub(crate) async fn begin_attempts(
    notes: &MailboxNotes<'_>,
    mails: &[MailUid],
) -> Result<u32, MailError> {
    let mut counts = read(notes).await?;
    let mut most = 0;
    for mail in mails {
        let before = counts
            .iter()
            .position(|(known, _)| known == mail)
            .map(|index| counts.remove(index));
        let count = before.map_or(1, |(_, count)| count.saturating_add(1));
        counts.push((*mail, count));
        most = most.max(count);
    }
    let surplus = counts.len().saturating_sub(MAX_ENTRIES);
    let kept = counts.get(surplus..).unwrap_or_default();
    notes.write(NOTE, &text_of(kept)).await?;
    Ok(most)
}

/// Forgets the attempts at mails that were read, with any outcome. Does not wait for the disk: only
/// a power cut brings the attempts back, and a mail cannot cause one.
pub(crate) async fn end_attempts(
    notes: &MailboxNotes<'_>,
    mails: &BTreeSet<MailUid>,
) -> Result<(), MailError> {
    let mut counts = read(notes).await?;
    let before = counts.len();
    counts.retain(|(known, _)| !mails.contains(known));
    if counts.len() == before {
        Ok(())
    } else {
        notes.jot(NOTE, &text_of(&counts)).await
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

fn text_of(counts: &[(MailUid, u32)]) -> String {
    let entries = counts.iter().map(|(mail, count)| format!("{mail} {count}"));
    entries.collect::<Vec<_>>().join(",")
}
