//! Mails that were refused for their proof, over restarts.
//!
//! Decision: a refused mail stays unread, so every look finds it again. It is fetched and judged once
//! for what is trusted; the note keeps its number until it is read or gone, or the configuration
//! trusts something else. The note is bounded: of too many the earliest count as refused together,
//! up to the last of them.
//!
//! The note is not synced: after a power cut a few mails are judged once more.

use std::collections::BTreeSet;

use nanobot_channel::Notes;

use crate::EmailConfig;
use crate::error::MailError;
use crate::mailbox::MailUid;
use crate::start::{jot, noted};
use crate::thread::fingerprint;

/// The note that keeps the numbers.
const NOTE: &str = "refused";
/// Most numbers that are kept.
const KEPT: usize = 4000;

/// The refused mails of one mailbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The trusted settings and the mailbox's validity. Mails of another one are not known.
    trust: String,
    validity: u32,
    /// This one and all before it are refused.
    floor: u32,
    uids: BTreeSet<u32>,
}

impl Refused {
    /// Reads the note. One that was made where something else was trusted says nothing.
    pub(crate) async fn read(config: &EmailConfig, notes: &dyn Notes) -> Result<Self, MailError> {
        let text = noted(config, notes, NOTE).await?.unwrap_or_default();
        let trust = trust(config);
        Ok(Self::parse(&text)
            .filter(|refused| refused.trust == trust)
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
            uids: uids.take(KEPT).collect(),
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
    pub(crate) async fn write(
        text: &str,
        config: &EmailConfig,
        notes: &dyn Notes,
    ) -> Result<(), MailError> {
        jot(config, notes, NOTE, text).await
    }

    /// `true` if it was refused, and would be again.
    pub(crate) fn knows(&self, mail: MailUid) -> bool {
        mail.validity == self.validity && (mail.uid <= self.floor || self.uids.contains(&mail.uid))
    }

    /// Adds a mail. Returns what the note has to say.
    pub(crate) fn insert(&mut self, mail: MailUid) -> String {
        if mail.validity != self.validity {
            *self = Self {
                trust: std::mem::take(&mut self.trust),
                validity: mail.validity,
                ..Self::default()
            };
        }
        self.uids.insert(mail.uid);
        while self.uids.len() > KEPT
            && let Some(first) = self.uids.pop_first()
        {
            self.floor = self.floor.max(first);
        }
        self.text()
    }

    /// Forgets the mails that are not `unread` any more. Returns what the note has to say if that
    /// changed something.
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

/// A mark of what decides about proof.
fn trust(config: &EmailConfig) -> String {
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
    use nanobot_channel::LONGEST_NOTE;

    use super::*;

    fn mail(uid: u32) -> MailUid {
        MailUid { validity: 7, uid }
    }

    #[test]
    fn the_note_is_bounded_and_forgets_no_refusal() {
        let mut refused = Refused {
            trust: "f".repeat(32),
            ..Refused::default()
        };
        let first = u32::MAX - 10_000;
        let mut text = String::new();
        for uid in (first..).take(9000) {
            text = refused.insert(mail(uid));
        }
        assert!(text.len() + 64 < LONGEST_NOTE, "{}", text.len());
        let read = Refused::parse(&text).unwrap();
        assert_eq!((&read, read.uids.len()), (&refused, KEPT));
        assert!(
            (first..).take(9000).all(|uid| read.knows(mail(uid)))
                && !read.knows(mail(first + 9000))
        );
        assert!(
            !read.knows(MailUid {
                validity: 8,
                uid: first
            }),
            "its numbers are those of other mails"
        );
    }

    #[test]
    fn what_was_read_is_forgotten_and_other_numbers_begin_anew() {
        let mut refused = Refused::default();
        for uid in [1, 2, 3] {
            refused.insert(mail(uid));
        }
        assert_eq!(refused.retain(&[1, 2, 3].map(mail).into()), None);
        assert_eq!(refused.retain(&[mail(2)].into()).as_deref(), Some(" 7 0 2"));
        assert_eq!([1, 2].map(|uid| refused.knows(mail(uid))), [false, true]);
        assert_eq!(
            refused.insert(MailUid {
                validity: 8,
                uid: 1
            }),
            " 8 0 1"
        );
        assert!(!refused.knows(mail(2)));
        for text in ["", "x", "x 1", "x y z", "x 1 -1 2"] {
            assert_eq!(Refused::parse(text), None, "{text:?}");
        }
        assert_eq!(
            Refused::parse("x 1 0 y,,2").map(|refused| refused.uids),
            Some([2].into())
        );
    }
}
