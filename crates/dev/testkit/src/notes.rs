//! Notes in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_channel::{Aside, LONGEST_ASIDE, LONGEST_NOTE, NoteError, Notes, async_trait};

/// What a channel keeps for itself, for as long as somebody holds this: give it to a second run, and
/// that one is a restart.
#[derive(Debug, Default)]
pub struct NoteBook {
    notes: Mutex<BTreeMap<&'static str, String>>,
    aside: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl NoteBook {
    /// All notes, by name.
    #[must_use]
    pub fn all(&self) -> BTreeMap<&'static str, String> {
        self.notes().clone()
    }

    /// Bytes that were set aside, by key.
    #[must_use]
    pub fn all_aside(&self) -> BTreeMap<String, Vec<u8>> {
        self.aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Removes something that was set aside, as a person does who has looked at it.
    pub fn remove_aside(&self, key: &str) {
        self.aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(key);
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Notes for NoteBook {
    async fn read(&self, name: &'static str) -> Result<Option<String>, NoteError> {
        Ok(self.notes().get(name).cloned())
    }

    async fn write(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        if text.len() > LONGEST_NOTE {
            return Err(NoteError::TooLong);
        }
        self.notes().insert(name, text.to_owned());
        Ok(())
    }

    async fn remove(&self, name: &'static str) -> Result<(), NoteError> {
        self.notes().remove(name);
        Ok(())
    }

    async fn jot(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.write(name, text).await
    }

    async fn set_aside(&self, key: &str, bytes: &[u8]) -> Result<(), NoteError> {
        let bytes = bytes.get(..LONGEST_ASIDE).unwrap_or(bytes).to_vec();
        self.aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned(), bytes);
        Ok(())
    }

    async fn aside(&self) -> Result<Aside, NoteError> {
        Ok(Aside {
            count: self.all_aside().len(),
            place: "memory".to_owned(),
        })
    }
}
