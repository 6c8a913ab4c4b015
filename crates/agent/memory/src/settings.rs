//! Settings of memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `memory` section of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MemorySettings {
    /// Gives people and rooms memory of their own, which is never disclosed elsewhere.
    pub scopes: bool,
    /// Retention of day notes, in days, at least 7. 0 keeps them for ever, or until their month is
    /// rolled up.
    pub keep_daily_notes_days: u32,
    /// Merges day notes at the end of their retention into one file per month, `YYYY-MM.md`, instead
    /// of removing them. A month is merged once all of its days are that old.
    pub roll_up_monthly: bool,
    /// Number of versions of memory that are kept for review and restore.
    #[schemars(range(min = 1))]
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
