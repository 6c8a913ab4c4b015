//! Catch-up: messages that a platform received while the channel was away.
//!
//! A platform that does not deliver them again has to be asked, conversation by conversation, for
//! what came after the last message that was handled there. [`CatchUpMarks`] keeps that message
//! of each conversation over restarts, [`read_pages`] reads a platform's history, and
//! [`CatchUpMarks::deliver`] delivers the missed messages.
//!
//! Decision: only conversations in which the assistant was addressed have a mark, so that a first
//! start fetches nothing. The note may be some seconds old: a message that is fetched twice is
//! dropped as a duplicate. Scheduling is the platform's: its order of live events decides how long
//! one of them may wait for missed messages.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;

use nanobot_channel::Notes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::intake::Next;
use crate::late_note::{LateNote, Noted};

/// The conversations of a platform, and the form of their marks on disk.
pub trait MarkNote: Clone + Debug + Serialize + DeserializeOwned + Send + 'static {
    /// The name of the note.
    const NAME: &'static str;
    /// Number of marks that are kept of each [class](Self::is_same_class); the mark with the
    /// lowest cursor gives way.
    const LIMIT: usize;
    /// The account whose conversations these are. Another one starts without marks.
    type Account: Clone + Debug + Default + PartialEq + Send;
    /// A conversation.
    type Place: Clone + Debug + Ord + Send;
    /// Facts that fetching needs besides the conversation.
    type Facts: Clone + Debug + Send;
    /// The platform's id of a message, in the order of time.
    type Cursor: Clone + Debug + Ord + Send;

    /// Makes the form on disk.
    fn new(account: &Self::Account, marks: impl Iterator<Item = NotedMark<Self>>) -> Self;

    /// Takes the form on disk apart.
    fn into_parts(self) -> (Self::Account, Vec<NotedMark<Self>>);

    /// `true` if two conversations share a limit.
    fn is_same_class(_one: &Self::Place, _other: &Self::Place) -> bool {
        true
    }
}

/// A conversation, its facts and the last message that was handled.
pub type NotedMark<N> = (
    <N as MarkNote>::Place,
    <N as MarkNote>::Facts,
    <N as MarkNote>::Cursor,
);

/// A conversation that may miss messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag<N: MarkNote> {
    /// The conversation.
    pub place: N::Place,
    /// Facts for fetching.
    pub facts: N::Facts,
    /// The last message that was handled, and all before it.
    pub after: N::Cursor,
    gap: u64,
}

impl<N: MarkNote> Lag<N> {
    /// Returns the lag of another conversation, found while catching up with this one.
    #[must_use]
    pub fn of(&self, place: N::Place, after: N::Cursor) -> Self {
        Self {
            place,
            after,
            ..self.clone()
        }
    }
}

/// Missed messages, fetched and not yet handed over.
#[derive(Debug)]
pub struct Missed<N: MarkNote, M> {
    /// The messages in the order of time.
    pub messages: BTreeMap<N::Cursor, (N::Place, M)>,
    /// Conversations without further missed messages, with their newest message.
    pub caught_up: Vec<(Lag<N>, N::Cursor)>,
}

impl<N: MarkNote, M> Default for Missed<N, M> {
    fn default() -> Self {
        Self {
            messages: BTreeMap::new(),
            caught_up: Vec::new(),
        }
    }
}

/// The last message that was handled, of each conversation in which the assistant was addressed.
#[derive(Debug)]
pub struct CatchUpMarks<N: MarkNote>(LateNote<MarkSet<N>>);

impl<N: MarkNote> Default for CatchUpMarks<N> {
    /// No marks before [`Self::open`].
    fn default() -> Self {
        Self(LateNote::default())
    }
}

#[derive(Debug)]
struct MarkSet<N: MarkNote> {
    account: N::Account,
    /// Counts the times at which messages may have been missed.
    gap: u64,
    marks: BTreeMap<N::Place, ConversationMark<N>>,
}

#[derive(Debug)]
struct ConversationMark<N: MarkNote> {
    facts: N::Facts,
    last: N::Cursor,
    /// Messages after `last` may be missing.
    is_lagging: bool,
}

impl<N: MarkNote> Default for MarkSet<N> {
    fn default() -> Self {
        Self {
            account: N::Account::default(),
            gap: 0,
            marks: BTreeMap::new(),
        }
    }
}

impl<N: MarkNote> CatchUpMarks<N> {
    /// Reads the note at the first call.
    pub async fn open(&self, notes: &dyn Notes) {
        self.0.open(notes).await;
    }

    /// Writes the note after changes, at intervals. Does not return.
    pub async fn write_periodically(&self, notes: &dyn Notes) {
        self.0.write_periodically(notes).await;
    }

    /// Writes the note if a mark changed since the last write.
    pub async fn write(&self, notes: &dyn Notes) {
        self.0.write(notes).await;
    }

    /// Notes that messages may have been missed: every conversation of `account` lags.
    pub fn open_gap(&self, account: &N::Account) {
        self.0.update(|set| {
            let is_other = set.account != *account;
            if is_other {
                set.account = account.clone();
                set.marks.clear();
            }
            set.gap += 1;
            for mark in set.marks.values_mut() {
                mark.is_lagging = true;
            }
            is_other
        });
    }

    /// Returns the conversations that lag, the most recently active first.
    #[must_use]
    pub fn lags(&self) -> Vec<Lag<N>> {
        let mut lags: Vec<_> = self.0.with(|set| {
            set.marks
                .keys()
                .filter_map(|place| set.lag(place))
                .collect()
        });
        lags.sort_by(|one: &Lag<N>, other| Reverse(&one.after).cmp(&Reverse(&other.after)));
        lags
    }

    /// Returns the lag of a conversation.
    #[must_use]
    pub fn lag(&self, place: &N::Place) -> Option<Lag<N>> {
        self.0.with(|set| set.lag(place))
    }

    /// Adds a conversation in which all up to `last` counts as handled. `true` if it had no
    /// mark.
    pub fn add(&self, place: &N::Place, facts: N::Facts, last: N::Cursor) -> bool {
        self.0.update(|set| {
            let is_new = !set.marks.contains_key(place);
            if is_new {
                set.insert(place.clone(), facts, last);
            }
            is_new
        })
    }

    /// `true` if a conversation has a mark.
    #[must_use]
    pub fn contains(&self, place: &N::Place) -> bool {
        self.0.with(|set| set.marks.contains_key(place))
    }

    /// Advances a mark to a live message. In a conversation that lags, earlier ones may be missing.
    pub fn mark_handled(&self, place: &N::Place, message: &N::Cursor) {
        self.advance(place, message, |mark| !mark.is_lagging);
    }

    /// Removes the marks of conversations that are gone, or no longer readable.
    pub fn remove(&self, is_gone: impl Fn(&N::Place) -> bool) {
        self.0.update(|set| {
            set.marks.retain(|place, _| !is_gone(place));
            true
        });
    }

    /// Hands missed messages to `handle`, the oldest first, and advances the marks.
    /// [`Next::Stop`] ends it early; the rest is fetched again.
    pub async fn deliver<M, F: Future<Output = Next>>(
        &self,
        missed: Missed<N, M>,
        mut handle: impl FnMut(N::Place, N::Cursor, M) -> F,
    ) -> Next {
        for (cursor, (place, message)) in missed.messages {
            if handle(place.clone(), cursor.clone(), message).await == Next::Stop {
                return Next::Stop;
            }
            self.advance(&place, &cursor, |_| true);
        }
        for (lag, newest) in missed.caught_up {
            self.advance(&lag.place, &newest, |_| true);
            self.close_gap(&lag);
        }
        Next::Confirm
    }

    fn advance(
        &self,
        place: &N::Place,
        message: &N::Cursor,
        applies: impl Fn(&ConversationMark<N>) -> bool,
    ) {
        self.0.update(|set| {
            let mark = set.marks.get_mut(place);
            let mark = mark.filter(|mark| applies(mark) && mark.last < *message);
            mark.map(|mark| mark.last = message.clone()).is_some()
        });
    }

    /// Ends the lag of a conversation, unless messages may have been missed again meanwhile.
    fn close_gap(&self, lag: &Lag<N>) {
        self.0.update(|set| {
            if set.gap == lag.gap
                && let Some(mark) = set.marks.get_mut(&lag.place)
            {
                mark.is_lagging = false;
            }
            false
        });
    }
}

impl<N: MarkNote> MarkSet<N> {
    fn lag(&self, place: &N::Place) -> Option<Lag<N>> {
        let mark = self.marks.get(place).filter(|mark| mark.is_lagging)?;
        Some(Lag {
            place: place.clone(),
            facts: mark.facts.clone(),
            after: mark.last.clone(),
            gap: self.gap,
        })
    }

    /// Inserts a mark, in place of the least recently active one of its class if there are too
    /// many.
    fn insert(&mut self, place: N::Place, facts: N::Facts, last: N::Cursor) {
        let class = || {
            let marks = self.marks.iter();
            marks.filter(|(other, _)| N::is_same_class(other, &place))
        };
        if class().count() >= N::LIMIT
            && let Some((oldest, _)) = class().min_by_key(|(_, mark)| &mark.last)
        {
            let oldest = oldest.clone();
            self.marks.remove(&oldest);
        }
        let mark = ConversationMark {
            facts,
            last,
            is_lagging: false,
        };
        self.marks.insert(place, mark);
    }
}

impl<N: MarkNote> Noted for MarkSet<N> {
    const NAME: &'static str = N::NAME;
    type Form = N;

    fn form(&self) -> N {
        let marks = self.marks.iter();
        N::new(
            &self.account,
            marks.map(|(place, mark)| (place.clone(), mark.facts.clone(), mark.last.clone())),
        )
    }

    fn restore(&mut self, form: N) {
        let (account, marks) = form.into_parts();
        self.account = account;
        for (place, facts, last) in marks {
            self.insert(place, facts, last);
        }
    }
}

/// Reads a history page by page. `page` gets the previous page's continuation and returns its items
/// and its own, `None` on the last page. Returns all items, and `true` if `pages` were enough.
///
/// # Errors
/// The first error of `page`.
pub async fn read_pages<I, C, E, F>(
    pages: usize,
    mut page: impl FnMut(Option<C>) -> F,
) -> Result<(Vec<I>, bool), E>
where
    F: Future<Output = Result<(Vec<I>, Option<C>), E>>,
{
    let (mut all, mut next) = (Vec::new(), None);
    for _ in 0..pages {
        let (items, continuation) = page(next).await?;
        all.extend(items);
        if continuation.is_none() {
            return Ok((all, true));
        }
        next = continuation;
    }
    Ok((all, false))
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::NoteBook;
    use serde::Deserialize;

    use super::*;

    /// Conversations with even numbers are one class, those with odd numbers another.
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
    struct Note(String, Vec<(u32, (), u64)>);

    impl MarkNote for Note {
        const NAME: &'static str = "marks";
        const LIMIT: usize = 3;
        type Account = String;
        type Place = u32;
        type Facts = ();
        type Cursor = u64;

        fn new(account: &String, marks: impl Iterator<Item = NotedMark<Self>>) -> Self {
            Self(account.clone(), marks.collect())
        }

        fn into_parts(self) -> (String, Vec<NotedMark<Self>>) {
            (self.0, self.1)
        }

        fn is_same_class(one: &u32, other: &u32) -> bool {
            one % 2 == other % 2
        }
    }

    fn lags(marks: &CatchUpMarks<Note>) -> Vec<(u32, u64)> {
        let lags = marks.lags().into_iter();
        lags.map(|lag| (lag.place, lag.after)).collect()
    }

    fn bot() -> String {
        "bot".to_owned()
    }

    /// Messages of conversation 1, all of them fetched at `lag`.
    fn missed(lag: &Lag<Note>, messages: &[u64]) -> Missed<Note, u64> {
        Missed {
            messages: messages.iter().map(|id| (*id, (1, *id))).collect(),
            caught_up: vec![(lag.clone(), messages.last().copied().unwrap_or_default())],
        }
    }

    #[tokio::test]
    async fn marked_conversations_lag_after_a_restart() {
        let (notes, marks) = (NoteBook::default(), CatchUpMarks::<Note>::default());
        marks.open(&notes).await;
        marks.open_gap(&bot());
        assert_eq!(lags(&marks), [], "a first start fetches nothing");
        marks.mark_handled(&9, &90);
        assert!(marks.add(&1, (), 10) && marks.add(&2, (), 20) && !marks.add(&2, (), 25));
        for message in [13, 12] {
            marks.mark_handled(&1, &message);
        }
        marks.write(&notes).await;
        let restarted = CatchUpMarks::<Note>::default();
        restarted.open(&notes).await;
        assert_eq!(lags(&restarted), []);
        restarted.open_gap(&bot());
        assert_eq!(lags(&restarted), [(2, 20), (1, 13)]);
        let of_another_account = CatchUpMarks::<Note>::default();
        of_another_account.open(&notes).await;
        of_another_account.open_gap(&"other".to_owned());
        assert_eq!(lags(&of_another_account), []);
    }

    #[tokio::test]
    async fn conversation_lags_until_missed_messages_are_delivered() {
        let marks = CatchUpMarks::<Note>::default();
        marks.add(&1, (), 50);
        marks.open_gap(&String::new());
        marks.mark_handled(&1, &70);
        assert_eq!(
            lags(&marks),
            [(1, 50)],
            "a live message moves no lagging mark"
        );
        let lag = marks.lag(&1).unwrap();
        let mut taken = Vec::new();
        let stop = |_, _, message| {
            taken.push(message);
            std::future::ready(if message == 60 {
                Next::Stop
            } else {
                Next::Confirm
            })
        };
        assert_eq!(
            marks.deliver(missed(&lag, &[55, 60, 65]), stop).await,
            Next::Stop
        );
        assert_eq!((taken, lags(&marks)), (vec![55, 60], vec![(1, 55)]));
        marks.open_gap(&String::new());
        let confirm = |_, _, _| std::future::ready(Next::Confirm);
        marks.deliver(missed(&lag, &[60, 65]), confirm).await;
        assert_eq!(lags(&marks), [(1, 65)], "there was another gap meanwhile");
        let lag = marks.lag(&1).unwrap();
        marks.deliver(missed(&lag, &[]), confirm).await;
        assert_eq!(lags(&marks), []);
        marks.mark_handled(&1, &80);
        marks.open_gap(&String::new());
        assert_eq!(lags(&marks), [(1, 80)]);
        marks.remove(|place| *place == 1);
        assert!(!marks.contains(&1) && marks.lag(&1).is_none());
    }

    #[tokio::test]
    async fn least_recently_active_mark_of_a_class_is_evicted() {
        let (notes, marks) = (NoteBook::default(), CatchUpMarks::<Note>::default());
        for (place, last) in [(1, 12), (3, 11), (2, 1), (5, 13), (7, 14)] {
            marks.add(&place, (), last);
        }
        marks.write(&notes).await;
        let noted: Note = serde_json::from_str(&notes.all()["marks"]).unwrap();
        let kept = vec![(1, (), 12), (2, (), 1), (5, (), 13), (7, (), 14)];
        assert_eq!(noted, Note(String::new(), kept));
    }

    #[tokio::test]
    async fn pages_are_read_up_to_the_last_one_or_the_limit() {
        let page = async |next: Option<u32>| {
            let number = next.unwrap_or_default();
            Ok::<_, ()>((vec![number], Some(number + 1).filter(|next| *next < 3)))
        };
        assert_eq!(read_pages(3, page).await, Ok((vec![0, 1, 2], true)));
        assert_eq!(read_pages(2, page).await, Ok((vec![0, 1], false)));
        let failing = async |_: Option<u32>| Err::<(Vec<u32>, _), _>("no");
        assert_eq!(read_pages(2, failing).await, Err("no"));
    }
}
