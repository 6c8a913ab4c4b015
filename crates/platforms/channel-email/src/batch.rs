//! Division of waiting mails into batches, and of a batch into groups that are held in memory
//! together.

use std::collections::{BTreeSet, VecDeque};

use crate::envelope::Envelope;
use crate::imap::MailUid;

/// Maximum number of mails whose headers are fetched together.
const MAX_BATCH: usize = 64;
/// Maximum size of mails that are fetched together, in bytes. A larger mail is fetched alone.
const GROUP_SIZE: u64 = 8 << 20;

/// A mail whose header was read, of a sender who may talk.
#[derive(Debug)]
pub(crate) struct AllowedMail {
    pub(crate) uid: MailUid,
    pub(crate) envelope: Envelope,
    /// Number of bytes of it that are fetched.
    pub(crate) fetched_size: u32,
    /// `true` if that is only its beginning.
    pub(crate) is_cut: bool,
}

/// Divides mails into batches, in their order. A suspect is a batch of its own.
pub(crate) fn batches(mails: &[MailUid], suspects: &BTreeSet<MailUid>) -> VecDeque<Vec<MailUid>> {
    let is_fresh = |mail: &MailUid| !suspects.contains(mail);
    mails
        .chunk_by(|one, next| is_fresh(one) && is_fresh(next))
        .flat_map(|run| run.chunks(MAX_BATCH))
        .map(<[MailUid]>::to_vec)
        .collect()
}

/// Divides mails into groups that are fetched together, in their order.
pub(crate) fn groups(mails: Vec<AllowedMail>) -> VecDeque<Vec<AllowedMail>> {
    let (mut groups, mut size) = (VecDeque::<Vec<AllowedMail>>::new(), 0_u64);
    let mut was_cut = false;
    for mail in mails {
        size = size.saturating_add(mail.fetched_size.into());
        // The beginning of a mail is fetched with a limit of its own.
        let fits = size <= GROUP_SIZE && !mail.is_cut && !was_cut;
        was_cut = mail.is_cut;
        match groups.back_mut().filter(|_| fits) {
            Some(group) => group.push(mail),
            None => {
                size = mail.fetched_size.into();
                groups.push_back(vec![mail]);
            }
        }
    }
    groups
}
