//! In-memory notes of a channel.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_channel::{
    MAX_NOTE_BYTES, MAX_QUARANTINED_BYTES, NoteError, Notes, Quarantined, async_trait,
};

/// In-memory storage for the notes of a channel. Passing it to a second run simulates a restart.
#[derive(Debug, Default)]
pub struct NoteBook {
    notes: Mutex<BTreeMap<&'static str, String>>,
    aside: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl NoteBook {
    /// Returns all notes, by name.
    #[must_use]
    pub fn all(&self) -> BTreeMap<&'static str, String> {
        self.notes().clone()
    }

    /// Returns the bytes that were set aside, by key.
    #[must_use]
    pub fn all_quarantined(&self) -> BTreeMap<String, Vec<u8>> {
        self.aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Removes bytes that were set aside, as an operator does after inspecting them.
    pub fn remove_quarantined(&self, key: &str) {
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
        if text.len() > MAX_NOTE_BYTES {
            return Err(NoteError::TooLong);
        }
        self.notes().insert(name, text.to_owned());
        Ok(())
    }

    async fn remove(&self, name: &'static str) -> Result<(), NoteError> {
        self.notes().remove(name);
        Ok(())
    }

    async fn write_unsynced(&self, name: &'static str, text: &str) -> Result<(), NoteError> {
        self.write(name, text).await
    }

    async fn quarantine(&self, key: &str, bytes: &[u8]) -> Result<(), NoteError> {
        let bytes = bytes.get(..MAX_QUARANTINED_BYTES).unwrap_or(bytes).to_vec();
        self.aside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned(), bytes);
        Ok(())
    }

    async fn quarantined(&self) -> Result<Quarantined, NoteError> {
        Ok(Quarantined {
            count: self.all_quarantined().len(),
            folder: "memory".to_owned(),
        })
    }
}
