//! Notes in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nanobot_channel::{LONGEST_NOTE, NoteError, Notes, async_trait};

/// What a channel keeps for itself, for as long as somebody holds this: give it to a second run, and
/// that one is a restart.
#[derive(Debug, Default)]
pub struct NoteBook(Mutex<BTreeMap<&'static str, String>>);

impl NoteBook {
    /// All notes, by name.
    #[must_use]
    pub fn all(&self) -> BTreeMap<&'static str, String> {
        self.notes().clone()
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<&'static str, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
}
