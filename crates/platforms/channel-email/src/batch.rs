//! Division of waiting mails into batches, and of a batch into groups that are held in memory
//! together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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

/// Pairs mails with what was fetched of them, up to the first of which nothing was. Returns the
/// pairs, and the mails from that one on: later ones of the same sender are not to overtake it.
pub(crate) fn split_at_missing<M, T>(
    mut mails: Vec<M>,
    mut fetched: BTreeMap<MailUid, T>,
    uid: impl Fn(&M) -> MailUid,
) -> (Vec<(M, T)>, Vec<M>) {
    let missing = mails
        .iter()
        .position(|mail| !fetched.contains_key(&uid(mail)));
    let rest = mails.split_off(missing.unwrap_or(mails.len()));
    let pair = |mail: M| fetched.remove(&uid(&mail)).map(|value| (mail, value));
    (mails.into_iter().filter_map(pair).collect(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authentication::Authenticity;
    use crate::thread::MessageIds;

    fn mail(uid: u32) -> MailUid {
        MailUid { validity: 1, uid }
    }

    fn sizes<'a>(batches: impl IntoIterator<Item = &'a Vec<MailUid>>) -> Vec<usize> {
        batches.into_iter().map(Vec::len).collect()
    }

    #[test]
    fn batches_are_bounded_and_suspects_are_alone() {
        let mails: Vec<_> = (1..=150).map(mail).collect();
        let table: [(&[u32], &[usize]); 4] = [
            (&[], &[64, 64, 22]),
            (&[1], &[1, 64, 64, 21]),
            (&[10, 11, 150], &[9, 1, 1, 64, 64, 10, 1]),
            (&[200], &[64, 64, 22]),
        ];
        for (suspects, expected) in table {
            let suspects = suspects.iter().copied().map(mail).collect();
            let batches = batches(&mails, &suspects);
            assert_eq!(sizes(&batches), expected, "{suspects:?}");
            assert_eq!(batches.into_iter().flatten().collect::<Vec<_>>(), mails);
        }
        assert!(batches(&[], &BTreeSet::new()).is_empty());
    }

    #[test]
    fn no_mail_overtakes_one_that_is_missing() {
        let mails: Vec<_> = (1..=4).map(mail).collect();
        let table: [(&[u32], usize); 4] =
            [(&[1, 2, 3, 4], 4), (&[1, 2, 4], 2), (&[2], 0), (&[], 0)];
        for (fetched, found) in table {
            let fetched = fetched.iter().map(|uid| (mail(*uid), *uid)).collect();
            let (pairs, rest) = split_at_missing(mails.clone(), fetched, |mail| *mail);
            assert!(pairs.iter().all(|(mail, fetched)| mail.uid == *fetched));
            let both: Vec<_> = pairs.iter().map(|(mail, _)| *mail).chain(rest).collect();
            assert_eq!((pairs.len(), &both), (found, &mails));
        }
    }

    #[test]
    fn groups_are_bounded_and_cut_mails_are_alone() {
        const MIB: u32 = 1 << 20;
        let allowed = |(uid, (fetched_size, is_cut)): (u32, (u32, bool))| AllowedMail {
            uid: mail(uid),
            envelope: Envelope {
                sender: "ann@x.test".to_owned(),
                shown_sender: String::new(),
                subject: String::new(),
                date: String::new(),
                ids: MessageIds::default(),
                authenticity: Authenticity::default(),
            },
            fetched_size,
            is_cut,
        };
        let (whole, cut) = (|size| (size, false), (1, true));
        let table = [
            (vec![], vec![]),
            (vec![whole(4 * MIB), whole(4 * MIB), whole(1)], vec![2, 1]),
            (vec![whole(1), whole(20 * MIB), whole(1)], vec![1, 1, 1]),
            (
                vec![whole(1), cut, cut, whole(1), whole(1)],
                vec![1, 1, 1, 2],
            ),
            (vec![whole(u32::MAX), whole(u32::MAX)], vec![1, 1]),
        ];
        for (mails, expected) in table {
            let groups = groups((1..).zip(mails.iter().copied()).map(allowed).collect());
            let lengths: Vec<_> = groups.iter().map(Vec::len).collect();
            assert_eq!(lengths, expected, "{mails:?}");
            let uids = groups.iter().flatten().map(|mail| mail.uid.uid);
            assert!(uids.eq((1..).take(mails.len())), "{mails:?}");
        }
    }
}
