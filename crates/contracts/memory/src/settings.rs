//! How memory is kept.

use serde::{Deserialize, Serialize};

/// `memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySettings {
    /// Whether people and rooms have memory of their own, which is told nowhere else.
    pub scopes: bool,
    /// Days that day notes are kept, at least 7; 0 keeps them for ever, or until their month is
    /// rolled up.
    pub keep_daily_notes_days: u32,
    /// Whether day notes that were kept so long stay in one file a month, `YYYY-MM.md`, instead of
    /// being removed. A month is put together when all of it is that old.
    pub roll_up_monthly: bool,
    /// Versions of memory that are kept to be reviewed and brought back; at least one.
    pub keep_versions: u32,
}

impl Default for MemorySettings {
    fn default() -> Self {
        Self {
            scopes: false,
            keep_daily_notes_days: 0,
            roll_up_monthly: false,
            keep_versions: 200,
        }
    }
}
