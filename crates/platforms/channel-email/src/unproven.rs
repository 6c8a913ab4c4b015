//! Mails without proof of their sender, over restarts.
//!
//! Decision: such a mail stays unread, so every search finds it again. It is fetched and judged
//! once for what is trusted; the note keeps its UID until it is read or gone, or the configuration
//! trusts something else. The note is bounded: of too many the earliest count as unproven together,
//! up to the last of them.
//!
//! The note is not synced: after a power cut a few mails are judged once more.

use std::collections::BTreeSet;

use crate::EmailConfig;
use crate::error::MailError;
use crate::imap::MailUid;
use crate::notes::MailboxNotes;
use crate::thread::fingerprint;

/// The name of the note.
const NOTE: &str = "refused";
/// Maximum number of UIDs in the note.
const MAX_UIDS: usize = 4000;

/// The unproven mails of one mailbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UnprovenMails {
    /// Fingerprint of the trusted settings.
    trust: String,
    /// UIDVALIDITY of the mailbox, without which a UID means nothing.
    validity: u32,
    /// This UID and all before it are unproven.
    floor: u32,
    uids: BTreeSet<u32>,
}

impl UnprovenMails {
    /// Reads the note. One that was written with other trusted settings does not count.
    pub(crate) async fn read(
        config: &EmailConfig,
        notes: &MailboxNotes<'_>,
    ) -> Result<Self, MailError> {
        let text = notes.read(NOTE).await?.unwrap_or_default();
        let trust = trust_fingerprint(config);
        Ok(Self::parse(&text)
            .filter(|unproven| unproven.trust == trust)
            .unwrap_or(Self {
                trust,
                ..Self::default()
            }))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let trust = words.next()?.to_owned();
        let (validity, floor) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let uids = words
            .next()
            .unwrap_or_default()
            .split(',')
            .filter_map(|uid| uid.parse().ok());
        Some(Self {
            trust,
            validity,
            floor,
            uids: uids.take(MAX_UIDS).collect(),
        })
    }

    fn text(&self) -> String {
        let Self {
            trust,
            validity,
            floor,
            uids,
        } = self;
        let uids = uids
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(",");
        format!("{trust} {validity} {floor} {uids}")
    }

    /// Writes the note.
    pub(crate) async fn write(text: &str, notes: &MailboxNotes<'_>) -> Result<(), MailError> {
        notes.jot(NOTE, text).await
    }

    /// `true` if a mail is unproven.
    pub(crate) fn contains(&self, mail: MailUid) -> bool {
        mail.validity == self.validity && (mail.uid <= self.floor || self.uids.contains(&mail.uid))
    }

    /// Adds mails, and returns the text of the note.
    pub(crate) fn insert(&mut self, mails: &[MailUid]) -> String {
        for mail in mails {
            self.insert_one(*mail);
        }
        self.text()
    }

    fn insert_one(&mut self, mail: MailUid) {
        if mail.validity != self.validity {
            *self = Self {
                trust: std::mem::take(&mut self.trust),
                validity: mail.validity,
                ..Self::default()
            };
        }
        self.uids.insert(mail.uid);
        while self.uids.len() > MAX_UIDS
            && let Some(first) = self.uids.pop_first()
        {
            self.floor = self.floor.max(first);
        }
    }

    /// Removes the mails that are not `unread` any more. Returns the text of the note if there were
    /// any.
    pub(crate) fn retain(&mut self, unread: &BTreeSet<MailUid>) -> Option<String> {
        let (count, validity) = (self.uids.len(), self.validity);
        self.uids.retain(|uid| {
            unread.contains(&MailUid {
                validity,
                uid: *uid,
            })
        });
        (self.uids.len() < count).then(|| self.text())
    }
}

/// Returns the fingerprint of the settings that decide about proof.
fn trust_fingerprint(config: &EmailConfig) -> String {
    let EmailConfig {
        authserv_id,
        verify_dkim,
        verify_spf,
        ..
    } = config;
    format!(
        "{:032x}",
        fingerprint(&format!("{authserv_id:?}\n{verify_dkim}\n{verify_spf}"))
    )
}

#[cfg(test)]
mod tests {
    use nanobot_channel::MAX_NOTE_BYTES;

    use super::*;

    fn mail(uid: u32) -> MailUid {
        MailUid { validity: 7, uid }
    }

    #[test]
    fn note_is_bounded_and_covers_every_mail() {
        let mut unproven = UnprovenMails {
            trust: "f".repeat(32),
            ..UnprovenMails::default()
        };
        let first = u32::MAX - 10_000;
        let mut text = String::new();
        for uid in (first..).take(9000) {
            text = unproven.insert(&[mail(uid)]);
        }
        assert!(text.len() + 64 < MAX_NOTE_BYTES, "{}", text.len());
        let read = UnprovenMails::parse(&text).unwrap();
        assert_eq!((&read, read.uids.len()), (&unproven, MAX_UIDS));
        assert!(
            (first..).take(9000).all(|uid| read.contains(mail(uid)))
                && !read.contains(mail(first + 9000))
        );
        assert!(
            !read.contains(MailUid {
                validity: 8,
                uid: first
            }),
            "its numbers are those of other mails"
        );
    }

    #[test]
    fn retain_drops_read_mails_and_new_validity_resets() {
        let mut unproven = UnprovenMails::default();
        unproven.insert(&[1, 2, 3].map(mail));
        assert_eq!(unproven.retain(&[1, 2, 3].map(mail).into()), None);
        assert_eq!(
            unproven.retain(&[mail(2)].into()).as_deref(),
            Some(" 7 0 2")
        );
        assert_eq!(
            [1, 2].map(|uid| unproven.contains(mail(uid))),
            [false, true]
        );
        assert_eq!(
            unproven.insert(&[MailUid {
                validity: 8,
                uid: 1
            }]),
            " 8 0 1"
        );
        assert!(!unproven.contains(mail(2)));
        for text in ["", "x", "x 1", "x y z", "x 1 -1 2"] {
            assert_eq!(UnprovenMails::parse(text), None, "{text:?}");
        }
        assert_eq!(
            UnprovenMails::parse("x 1 0 y,,2").map(|unproven| unproven.uids),
            Some([2].into())
        );
    }
}
