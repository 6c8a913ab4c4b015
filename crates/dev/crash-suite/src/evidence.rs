//! The input of the checker: a history, and the state on disk after every kill.

use std::collections::BTreeMap;
use std::path::Path;

use crate::SuiteError;
use crate::history::{HistoryEvent, read_history};
use crate::system::{Checkpoint, System};

/// Name of the history in the folder of a round.
pub(crate) const HISTORY: &str = "history.jsonl";

/// Everything recorded about a round.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// All events, in order.
    pub events: Vec<HistoryEvent>,
    /// State on disk at the end of each life. The last one was saved after all work was finished.
    pub checkpoints: BTreeMap<u32, Checkpoint>,
}

impl Evidence {
    /// Reads the folder of a round.
    ///
    /// # Errors
    /// Returns [`SuiteError::File`] or [`SuiteError::Line`]. Problems of a checkpoint are recorded
    /// in the checkpoint.
    pub async fn read(system: &dyn System, folder: &Path) -> Result<Self, SuiteError> {
        let events = read_history(&folder.join(HISTORY))?;
        let mut checkpoints = BTreeMap::new();
        for event in &events {
            if let HistoryEvent::Checkpoint { life, folder: name } = event {
                checkpoints.insert(*life, system.load(&folder.join(name)).await);
            }
        }
        Ok(Self {
            events,
            checkpoints,
        })
    }

    /// Returns the last checkpoint, or an empty one if there is none.
    #[must_use]
    pub fn end(&self) -> Checkpoint {
        self.checkpoints
            .last_key_value()
            .map(|(_, checkpoint)| checkpoint.clone())
            .unwrap_or_default()
    }
}
