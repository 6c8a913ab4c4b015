//! A note that changes with every message, and is written now and then.
//!
//! Decision: what is noted may be some seconds late, so that a flood of messages costs no flood of
//! writes. Whoever needs a change on disk before going on writes it then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nanobot_channel::Notes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Notify};

/// The shortest time between two writings that nobody asked for.
const WRITE_EVERY: Duration = Duration::from_secs(5);

/// A note of which somebody else holds what it is to say. No failure ends anything: it is logged,
/// and written again with the next change.
#[derive(Debug)]
pub struct LateNote {
    name: &'static str,
    is_written: AtomicBool,
    changed: Notify,
    /// Held while it is written, so that the last one stays.
    pen: Mutex<()>,
}

impl LateNote {
    /// The note of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            is_written: AtomicBool::new(true),
            changed: Notify::const_new(),
            pen: Mutex::const_new(()),
        }
    }

    /// What an earlier program noted; `None` also where nobody can tell.
    pub async fn read<T: DeserializeOwned>(&self, notes: &dyn Notes) -> Option<T> {
        let text = notes.read(self.name).await.unwrap_or_else(|error| {
            tracing::warn!(note = self.name, %error, "a note cannot be read");
            None
        })?;
        let note = serde_json::from_str(&text);
        note.inspect_err(|error| tracing::warn!(note = self.name, %error, "a note makes no sense"))
            .ok()
    }

    /// It is to say something else from now on.
    pub fn change(&self) {
        self.is_written.store(false, Ordering::SeqCst);
        self.changed.notify_one();
    }

    /// Writes it whenever it changed, but not too often. Does not return.
    pub async fn keep_written<T: Serialize>(&self, notes: &dyn Notes, content: impl Fn() -> T) {
        loop {
            self.changed.notified().await;
            self.write(notes, &content).await;
            tokio::time::sleep(WRITE_EVERY).await;
        }
    }

    /// Writes it if it changed.
    pub async fn write<T: Serialize>(&self, notes: &dyn Notes, content: impl FnOnce() -> T) {
        let _pen = self.pen.lock().await;
        if self.is_written.swap(true, Ordering::SeqCst) {
            return;
        }
        let written = match serde_json::to_string(&content()) {
            Ok(text) => notes
                .write(self.name, &text)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = written {
            tracing::warn!(note = self.name, error, "a note cannot be written");
            self.is_written.store(false, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use serde_json::json;

    use super::*;
    use crate::leftover::tests::Paper;

    #[tokio::test(start_paused = true)]
    async fn many_changes_are_few_writings() {
        let (paper, note, said) = (Paper::default(), LateNote::new("said"), AtomicUsize::new(0));
        let content = || said.fetch_add(1, Ordering::Relaxed);
        let change = async {
            for _ in 0..38 {
                note.change();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = note.keep_written(&paper, content) => {}
            () = change => {}
        }
        assert_eq!(
            note.read::<usize>(&paper).await,
            Some(7),
            "eight in 38 seconds, the next would be due after 40"
        );
        note.write(&paper, content).await;
        note.write(&paper, content).await;
        assert_eq!(said.load(Ordering::Relaxed), 9, "what is written stays");
    }

    #[tokio::test]
    async fn what_could_not_be_written_is_written_later() {
        let (paper, note) = (Paper::default(), LateNote::new("said"));
        assert_eq!(note.read::<u8>(&paper).await, None);
        note.change();
        paper.is_full.store(true, Ordering::Relaxed);
        note.write(&paper, || json!(1)).await;
        paper.is_full.store(false, Ordering::Relaxed);
        note.write(&paper, || json!(2)).await;
        assert_eq!(note.read::<u8>(&paper).await, Some(2));
        assert_eq!(
            note.read::<String>(&paper).await,
            None,
            "it is of something else"
        );
    }
}
