//! Events that arrive in several frames.
//!
//! Decision: the parts say how many there are and which they are, and none of it is believed beyond
//! bounds: of open events, of parts, of bytes of all of them together, and of age. What exceeds
//! them is dropped without an acknowledgement, so Feishu sends a real event again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nanobot_channel::json;
use tokio::time::Instant;

/// Most events of which parts are kept.
const MAX_OPEN: usize = 32;
/// Most parts of an event.
const MAX_PARTS: u32 = 1024;
/// Most bytes of all parts together.
const MAX_BYTES: usize = json::BODY_LIMIT;
/// Time within which the parts of an event have to arrive.
const MAX_AGE: Duration = Duration::from_secs(5);

/// Events of which parts are missing, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    open: VecDeque<OpenEvent>,
    bytes: usize,
}

#[derive(Debug)]
struct OpenEvent {
    id: String,
    sum: u32,
    began: Instant,
    parts: BTreeMap<u32, Vec<u8>>,
}

impl OpenEvent {
    fn bytes(&self) -> usize {
        self.parts.values().map(Vec::len).sum()
    }
}

/// The result of a part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// The whole event.
    Whole(Vec<u8>),
    /// More parts are to come.
    Partial,
    /// The part was dropped, and with it the event.
    Dropped(&'static str),
}

impl Fragments {
    /// Adds part number `seq` of `sum` of the event `id`.
    pub(crate) fn add(&mut self, id: &str, sum: u32, seq: u32, part: Vec<u8>) -> Collected {
        let now = Instant::now();
        self.drop_where(|event| now.duration_since(event.began) > MAX_AGE);
        if sum <= 1 {
            return Collected::Whole(part);
        }
        if id.is_empty() || sum > MAX_PARTS || seq >= sum {
            self.drop_where(|event| event.id == id);
            return Collected::Dropped("its number is out of range");
        }
        if part.len() + self.bytes > MAX_BYTES {
            self.drop_where(|event| event.id == id);
            return Collected::Dropped("too many bytes wait for their other parts");
        }
        let position = self.open.iter().position(|event| event.id == id);
        let position = position.unwrap_or_else(|| self.begin(id, sum, now));
        let Some(event) = self.open.get_mut(position) else {
            return Collected::Dropped("it has no place");
        };
        if event.sum != sum {
            self.drop_where(|event| event.id == id);
            return Collected::Dropped("the parts disagree about their number");
        }
        let added = part.len();
        let replaced = event.parts.insert(seq, part).map_or(0, |part| part.len());
        let is_whole = event.parts.len() == sum as usize;
        self.bytes = (self.bytes + added).saturating_sub(replaced);
        if !is_whole {
            return Collected::Partial;
        }
        match self.open.remove(position) {
            Some(event) => {
                self.bytes = self.bytes.saturating_sub(event.bytes());
                Collected::Whole(event.parts.into_values().flatten().collect())
            }
            None => Collected::Dropped("it has no place"),
        }
    }

    /// Begins an event, in the place of the oldest if there are too many. Returns its position.
    fn begin(&mut self, id: &str, sum: u32, now: Instant) -> usize {
        if self.open.len() >= MAX_OPEN
            && let Some(oldest) = self.open.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(oldest.bytes());
        }
        self.open.push_back(OpenEvent {
            id: id.to_owned(),
            sum,
            began: now,
            parts: BTreeMap::new(),
        });
        self.open.len() - 1
    }

    fn drop_where(&mut self, is_dropped: impl Fn(&OpenEvent) -> bool) {
        self.open.retain(|event| !is_dropped(event));
        self.bytes = self.open.iter().map(OpenEvent::bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(fragments: &mut Fragments, id: &str, sum: u32, seq: u32, part: &str) -> Option<String> {
        match fragments.add(id, sum, seq, part.as_bytes().to_vec()) {
            Collected::Whole(bytes) => Some(String::from_utf8(bytes).unwrap()),
            Collected::Partial | Collected::Dropped(_) => None,
        }
    }

    #[tokio::test]
    async fn parts_are_joined_in_order_whatever_their_arrival() {
        let mut fragments = Fragments::default();
        assert_eq!(
            add(&mut fragments, "a", 1, 0, "one").as_deref(),
            Some("one")
        );
        assert_eq!(
            add(&mut fragments, "a", 0, 0, "none").as_deref(),
            Some("none")
        );
        assert_eq!(add(&mut fragments, "a", 3, 2, "c"), None);
        assert_eq!(add(&mut fragments, "b", 2, 0, "x"), None);
        assert_eq!(add(&mut fragments, "a", 3, 0, "old"), None);
        assert_eq!(add(&mut fragments, "a", 3, 0, "a"), None);
        assert_eq!(add(&mut fragments, "a", 3, 1, "b").as_deref(), Some("abc"));
        assert_eq!(add(&mut fragments, "b", 2, 1, "y").as_deref(), Some("xy"));
        assert_eq!((fragments.bytes, fragments.open.len()), (0, 0));
    }

    #[tokio::test]
    async fn lies_about_the_number_of_parts_are_dropped() {
        let mut fragments = Fragments::default();
        let absurd = [(u32::MAX, 0), (MAX_PARTS + 1, 0), (2, 2), (2, u32::MAX)];
        for (sum, seq) in absurd {
            let collected = fragments.add("a", sum, seq, vec![1]);
            assert!(matches!(collected, Collected::Dropped(_)), "{sum} {seq}");
        }
        assert_eq!(add(&mut fragments, "a", 3, 0, "a"), None);
        let other = fragments.add("a", 2, 1, vec![1]);
        assert!(matches!(other, Collected::Dropped(_)), "{other:?}");
        assert!(matches!(
            fragments.add("", 2, 1, vec![1]),
            Collected::Dropped(_)
        ));
        assert_eq!((fragments.bytes, fragments.open.len()), (0, 0));
    }

    #[tokio::test]
    async fn open_events_and_their_bytes_are_bounded() {
        let mut fragments = Fragments::default();
        for number in 0..=MAX_OPEN {
            assert_eq!(add(&mut fragments, &number.to_string(), 2, 0, "x"), None);
        }
        assert_eq!(
            (fragments.open.len(), fragments.bytes),
            (MAX_OPEN, MAX_OPEN)
        );
        // The oldest had to go.
        assert_eq!(add(&mut fragments, "0", 2, 1, "y"), None);
        assert_eq!(add(&mut fragments, "5", 2, 1, "y").as_deref(), Some("xy"));
        let mut fragments = Fragments::default();
        for seq in 0..8 {
            let part = vec![0; MAX_BYTES / 8];
            assert_eq!(fragments.add("a", 100, seq, part), Collected::Partial);
        }
        let last = fragments.add("a", 100, 8, vec![0]);
        assert!(matches!(last, Collected::Dropped(_)));
        assert_eq!((fragments.bytes, fragments.open.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn late_parts_begin_anew() {
        let mut fragments = Fragments::default();
        assert_eq!(add(&mut fragments, "a", 2, 0, "x"), None);
        tokio::time::advance(MAX_AGE + Duration::from_millis(1)).await;
        assert_eq!(add(&mut fragments, "a", 2, 1, "y"), None);
        assert_eq!(add(&mut fragments, "a", 2, 0, "x").as_deref(), Some("xy"));
    }
}
