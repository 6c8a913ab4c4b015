//! In which conversations and threads the assistant was talked to, and how far each is dealt with.
//!
//! Slack keeps what it cannot deliver for a short time only. What was said while nobody listened has
//! to be asked for, place by place, behind the last message that was dealt with there. That is kept
//! in a note over restarts. The note may be a few seconds late, which does no harm: what is fetched
//! twice is known by its `ts`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_channel::Notes;
use nanobot_channel_kit::LateNote;
use serde::{Deserialize, Serialize};

use crate::place::Place;

/// What the note is called.
const NOTE: &str = "heard";
/// How many conversations are remembered, and how many threads; the quietest are forgotten.
pub(crate) const REMEMBERED: usize = 100;

/// What is known about places.
#[derive(Debug)]
pub(crate) struct Chats {
    known: Mutex<Known>,
    note: LateNote,
}

impl Default for Chats {
    /// None are known before [`Self::open`].
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            note: LateNote::new(NOTE),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    is_read: bool,
    /// The user that heard it.
    account: String,
    places: BTreeMap<Place, Mark>,
    /// The conversations that will be caught up with.
    queued: BTreeSet<String>,
    /// The scopes that somebody was told about.
    told_scopes: BTreeSet<String>,
}

/// How far a place is dealt with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    /// The `ts` of the last message that is dealt with, and all before it.
    last: String,
    /// What was said behind it may not have come.
    is_behind: bool,
}

/// The note.
#[derive(Debug, Deserialize, Serialize)]
struct Note {
    account: String,
    /// The conversation, the thread in it, and the last message.
    places: Vec<(String, Option<String>, String)>,
}

impl Chats {
    /// A run begins. The note is read with the first.
    pub(crate) async fn open(&self, notes: &dyn Notes) {
        let is_read = {
            let mut known = self.known();
            known.queued.clear();
            std::mem::replace(&mut known.is_read, true)
        };
        if is_read {
            return;
        }
        let Some(Note { account, places }) = self.note.read(notes).await else {
            return;
        };
        let mut known = self.known();
        known.account = account;
        let places = places.into_iter().take(2 * REMEMBERED);
        known.places = places
            .map(|(chat, thread, last)| {
                (
                    Place { chat, thread },
                    Mark {
                        last,
                        is_behind: false,
                    },
                )
            })
            .collect();
    }

    /// Writes the note whenever it changed, but not too often. Does not return.
    pub(crate) async fn keep_written(&self, notes: &dyn Notes) {
        self.note.keep_written(notes, || self.known().note()).await;
    }

    /// Writes the note if it changed.
    pub(crate) async fn write(&self, notes: &dyn Notes) {
        self.note.write(notes, || self.known().note()).await;
    }

    /// Something may have been said that was not told: every place is behind. The conversations that
    /// are to be caught up with, and are not queued for that yet; first where something was said last.
    pub(crate) fn begin(&self, account: &str) -> Vec<String> {
        let mut known = self.known();
        if known.account != account {
            account.clone_into(&mut known.account);
            known.places.clear();
            self.note.change();
        }
        let mut chats: BTreeMap<String, String> = BTreeMap::new();
        for (place, mark) in &mut known.places {
            mark.is_behind = true;
            let last = chats.entry(place.chat.clone()).or_default();
            if *last < mark.last {
                last.clone_from(&mark.last);
            }
        }
        chats.retain(|chat, _| known.queued.insert(chat.clone()));
        let mut chats: Vec<_> = chats.into_iter().collect();
        chats.sort_by(|(_, one), (_, other)| other.cmp(one));
        chats.into_iter().map(|(chat, _)| chat).collect()
    }

    /// The places of a conversation that are behind, with their last messages. It is not queued any
    /// more.
    pub(crate) fn behind(&self, chat: &str) -> Vec<(Place, String)> {
        let mut known = self.known();
        known.queued.remove(chat);
        let behind = known
            .places
            .iter()
            .filter(|(place, mark)| place.chat == chat && mark.is_behind);
        behind
            .map(|(place, mark)| (place.clone(), mark.last.clone()))
            .collect()
    }

    /// Somebody who may talk said something there.
    pub(crate) fn hear(&self, place: &Place, ts: &str) {
        let mut known = self.known();
        if !known.places.contains_key(place) {
            known.make_room(place.thread.is_some());
            known.places.insert(
                place.clone(),
                Mark {
                    last: ts.to_owned(),
                    is_behind: false,
                },
            );
            self.note.change();
        }
    }

    /// A message is dealt with. Where something may be missing, earlier ones may not be.
    pub(crate) fn deal_with(&self, place: &Place, ts: &str) {
        self.advance(place, ts, |mark| !mark.is_behind);
    }

    /// Everything up to here is dealt with, though there may be more.
    pub(crate) fn reach(&self, place: &Place, ts: &str) {
        self.advance(place, ts, |_| true);
    }

    fn advance(&self, place: &Place, ts: &str, is_meant: fn(&Mark) -> bool) {
        let mut known = self.known();
        let mark = known.places.get_mut(place);
        if let Some(mark) = mark.filter(|mark| is_meant(mark) && mark.last.as_str() < ts) {
            ts.clone_into(&mut mark.last);
            self.note.change();
        }
    }

    /// Nothing is missing there any more, unless the conversation is to be caught up with once more:
    /// then something may have been missed meanwhile.
    pub(crate) fn catch_up(&self, place: &Place) {
        let mut known = self.known();
        if known.queued.contains(&place.chat) {
            return;
        }
        if let Some(mark) = known.places.get_mut(place) {
            mark.is_behind = false;
        }
    }

    /// A place is gone, or not for the app.
    pub(crate) fn forget(&self, place: &Place) {
        let mut known = self.known();
        known.places.retain(|other, _| {
            other != place && (place.thread.is_some() || other.chat != place.chat)
        });
        self.note.change();
    }

    /// Whether a place is remembered.
    pub(crate) fn knows(&self, place: &Place) -> bool {
        self.known().places.contains_key(place)
    }

    /// Whether a scope is missed for the first time.
    pub(crate) fn is_news(&self, scope: &str) -> bool {
        self.known().told_scopes.insert(scope.to_owned())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn note(&self) -> Note {
        let places = self.places.iter();
        let places = places
            .map(|(place, mark)| (place.chat.clone(), place.thread.clone(), mark.last.clone()));
        Note {
            account: self.account.clone(),
            places: places.collect(),
        }
    }

    /// Forgets the quietest of the threads, or of the conversations, when there are too many.
    fn make_room(&mut self, for_thread: bool) {
        let same = || {
            self.places
                .iter()
                .filter(|(place, _)| place.thread.is_some() == for_thread)
        };
        if same().count() < REMEMBERED {
            return;
        }
        if let Some(quietest) = same()
            .min_by(|(_, one), (_, other)| one.last.cmp(&other.last))
            .map(|(place, _)| place.clone())
        {
            self.places.remove(&quietest);
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::LONGEST_NOTE;
    use nanobot_testkit::NoteBook;

    use super::*;

    fn place(chat: &str, thread: Option<&str>) -> Place {
        Place {
            chat: chat.to_owned(),
            thread: thread.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn a_restart_is_behind_where_the_assistant_was_talked_to() {
        let (notes, chats) = (NoteBook::default(), Chats::default());
        chats.open(&notes).await;
        assert_eq!(chats.begin("UBOT"), [""; 0], "nobody talked yet");
        chats.deal_with(&place("C9", None), "9.1");
        chats.hear(&place("C1", None), "1.1");
        chats.hear(&place("C1", Some("1.1")), "1.1");
        chats.hear(&place("C2", None), "2.1");
        chats.deal_with(&place("C1", Some("1.1")), "1.3");
        chats.deal_with(&place("C1", Some("1.1")), "1.2");
        chats.write(&notes).await;
        let restarted = Chats::default();
        restarted.open(&notes).await;
        assert_eq!(restarted.behind("C1"), []);
        assert_eq!(restarted.begin("UBOT"), ["C2", "C1"]);
        assert_eq!(restarted.begin("UBOT"), [""; 0], "they are queued");
        let expected = [
            (place("C1", None), "1.1".to_owned()),
            (place("C1", Some("1.1")), "1.3".to_owned()),
        ];
        assert_eq!(restarted.behind("C1"), expected);
        assert_eq!(restarted.begin("UBOT"), ["C1"]);
        let of_another = Chats::default();
        of_another.open(&notes).await;
        assert_eq!(of_another.begin("UOTHER"), [""; 0]);
    }

    #[test]
    fn what_is_behind_stays_there_until_it_is_caught_up() {
        let (chats, here) = (Chats::default(), place("C1", None));
        chats.hear(&here, "5.0");
        chats.begin("");
        chats.deal_with(&here, "7.0");
        assert_eq!(chats.behind("C1"), [(here.clone(), "5.0".to_owned())]);
        chats.reach(&here, "6.0");
        assert_eq!(
            chats.begin(""),
            ["C1"],
            "another connection ended meanwhile"
        );
        chats.catch_up(&here);
        assert_eq!(chats.behind("C1"), [(here.clone(), "6.0".to_owned())]);
        chats.catch_up(&here);
        assert_eq!(chats.behind("C1"), []);
        chats.deal_with(&here, "8.0");
        chats.begin("");
        assert_eq!(chats.behind("C1"), [(here.clone(), "8.0".to_owned())]);
        chats.hear(&place("C1", Some("1.0")), "8.1");
        chats.forget(&here);
        assert_eq!(
            chats.begin(""),
            [""; 0],
            "threads are gone with their conversation"
        );
        assert_eq!(
            [chats.is_news("im:history"), chats.is_news("im:history")],
            [true, false]
        );
    }

    #[tokio::test]
    async fn the_note_is_bounded_and_the_quiet_go_first() {
        let (notes, chats) = (NoteBook::default(), Chats::default());
        for number in 0..=REMEMBERED {
            let (chat, ts) = (
                format!("C{number:010}"),
                format!("{}.000001", 1_700_000_000 + number),
            );
            chats.hear(&place(&chat, None), &ts);
            chats.hear(&place(&chat, Some(&ts)), &ts);
        }
        chats.write(&notes).await;
        assert!(notes.all()[NOTE].len() < LONGEST_NOTE);
        let kept = chats.begin("");
        assert_eq!(
            (kept.len(), kept.last().map(String::as_str)),
            (REMEMBERED, Some("C0000000001"))
        );
    }

    #[tokio::test]
    async fn a_note_that_is_none_of_ours_is_a_first_start() {
        let (notes, chats) = (NoteBook::default(), Chats::default());
        notes.write(NOTE, "{").await.unwrap();
        chats.open(&notes).await;
        assert_eq!(chats.begin("UBOT"), [""; 0]);
    }
}
