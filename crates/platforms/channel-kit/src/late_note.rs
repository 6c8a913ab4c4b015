//! Values that change with every message and are written to a note at intervals.
//!
//! Decision: the note may be some seconds old, so that a flood of messages causes no flood of
//! writes. A caller that needs a change on disk before it goes on calls [`LateNote::write`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::Notes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

/// A value that is kept in a note over restarts.
pub trait Noted {
    /// The name of the note.
    const NAME: &'static str;
    /// Minimum interval between two writes of [`LateNote::write_periodically`].
    const INTERVAL: Duration = Duration::from_secs(5);
    /// The form on disk.
    type Form: Serialize + DeserializeOwned + Send;

    /// Returns the form on disk.
    fn form(&self) -> Self::Form;

    /// Replaces the value by the one that an earlier process noted.
    fn restore(&mut self, form: Self::Form);
}

/// A value and its note. A failed read or write is logged; the write is repeated with the next
/// change.
#[derive(Debug, Default)]
pub struct LateNote<T> {
    value: Mutex<T>,
    is_read: AtomicBool,
    is_changed: AtomicBool,
    changed: Notify,
    /// Held during a write, so that the last one stays.
    pen: tokio::sync::Mutex<()>,
}

impl<T: Noted> LateNote<T> {
    /// Reads the note at the first call. The value stays as it is if there is no readable note.
    pub async fn open(&self, notes: &dyn Notes) {
        if self.is_read.swap(true, Ordering::SeqCst) {
            return;
        }
        let text = notes.read(T::NAME).await.unwrap_or_else(|error| {
            tracing::warn!(note = T::NAME, %error, "a note cannot be read");
            None
        });
        match text.map(|text| serde_json::from_str(&text)) {
            Some(Ok(form)) => self.value().restore(form),
            Some(Err(error)) => tracing::warn!(note = T::NAME, %error, "a note is malformed"),
            None => {}
        }
    }

    /// Calls `look` with the value.
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.value())
    }

    /// Calls `change` with the value, and returns its result: `true` if the note has to be written.
    pub fn update(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let is_changed = change(&mut self.value());
        if is_changed {
            self.is_changed.store(true, Ordering::SeqCst);
            self.changed.notify_one();
        }
        is_changed
    }

    /// Writes the note after changes, at intervals. Does not return.
    pub async fn write_periodically(&self, notes: &dyn Notes) {
        loop {
            self.changed.notified().await;
            self.write(notes).await;
            tokio::time::sleep(T::INTERVAL).await;
        }
    }

    /// Writes the note if the value changed since the last write.
    pub async fn write(&self, notes: &dyn Notes) {
        let _pen = self.pen.lock().await;
        if !self.is_changed.swap(false, Ordering::SeqCst) {
            return;
        }
        let form = self.value().form();
        let written = match serde_json::to_string(&form) {
            Ok(text) => notes
                .write(T::NAME, &text)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = written {
            tracing::warn!(note = T::NAME, error, "a note cannot be written");
            self.is_changed.store(true, Ordering::SeqCst);
        }
    }

    fn value(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nanobot_testkit::NoteBook;

    use super::*;
    use crate::draft::Paper;

    #[derive(Debug, Default)]
    struct Count(u32);

    impl Noted for Count {
        const NAME: &'static str = "count";
        type Form = u32;

        fn form(&self) -> u32 {
            self.0
        }

        fn restore(&mut self, form: u32) {
            self.0 = form;
        }
    }

    fn add(note: &LateNote<Count>) -> bool {
        note.update(|count| {
            count.0 += 1;
            true
        })
    }

    async fn noted(notes: &dyn Notes) -> u32 {
        let note = LateNote::<Count>::default();
        note.open(notes).await;
        note.with(|count| count.0)
    }

    #[tokio::test(start_paused = true)]
    async fn frequent_changes_are_written_at_intervals() {
        let (paper, note) = (Paper::default(), LateNote::<Count>::default());
        let change = async {
            for _ in 0..38 {
                add(&note);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = note.write_periodically(&paper) => {}
            () = change => {}
        }
        let last = noted(&paper).await;
        assert!(
            (34..38).contains(&last),
            "the last write was after 35 s: {last}"
        );
        note.write(&paper).await;
        assert_eq!(noted(&paper).await, 38);
    }

    #[tokio::test]
    async fn failed_write_is_retried() {
        let (paper, note) = (Paper::default(), LateNote::<Count>::default());
        add(&note);
        paper.is_full.store(true, Ordering::Relaxed);
        note.write(&paper).await;
        paper.is_full.store(false, Ordering::Relaxed);
        assert_eq!(noted(&paper).await, 0);
        note.write(&paper).await;
        assert_eq!(noted(&paper).await, 1);
        assert!(!note.update(|_| false));
    }

    #[tokio::test]
    async fn malformed_note_is_ignored_and_notes_are_read_once() {
        let notes = NoteBook::default();
        notes.write(Count::NAME, "{").await.unwrap();
        assert_eq!(noted(&notes).await, 0);
        notes.write(Count::NAME, "7").await.unwrap();
        let note = LateNote::<Count>::default();
        note.open(&notes).await;
        add(&note);
        note.open(&notes).await;
        assert_eq!(note.with(|count| count.0), 8);
    }
}
