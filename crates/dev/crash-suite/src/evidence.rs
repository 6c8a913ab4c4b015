//! What the checker judges: a history, and what was on disk after every kill.

use std::collections::BTreeMap;
use std::path::Path;

use crate::SuiteError;
use crate::history::{Event, read_history};
use crate::system::{Checkpoint, System};

/// The name of the history in the folder of a round.
pub(crate) const HISTORY: &str = "history.jsonl";

/// Everything known about a round.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// What happened, in order.
    pub events: Vec<Event>,
    /// What was on disk at the end of each life; the last one after everything came to rest.
    pub checkpoints: BTreeMap<u32, Checkpoint>,
}

impl Evidence {
    /// Reads the folder of a round.
    ///
    /// # Errors
    /// [`SuiteError::File`], [`SuiteError::Line`]. What is wrong with a checkpoint is in it.
    pub async fn read(system: &dyn System, folder: &Path) -> Result<Self, SuiteError> {
        let events = read_history(&folder.join(HISTORY))?;
        let mut checkpoints = BTreeMap::new();
        for event in &events {
            if let Event::Checkpoint { life, folder: name } = event {
                checkpoints.insert(*life, system.load(&folder.join(name)).await);
            }
        }
        Ok(Self {
            events,
            checkpoints,
        })
    }

    /// The last checkpoint; an empty one when there is none.
    #[must_use]
    pub fn end(&self) -> Checkpoint {
        self.checkpoints
            .last_key_value()
            .map(|(_, checkpoint)| checkpoint.clone())
            .unwrap_or_default()
    }
}
