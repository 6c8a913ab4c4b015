//! The file that keeps cooldowns of models over a restart.
//!
//! Decision: a small JSON file of the home, replaced on every change without waiting for the disk.
//! Losing it costs one request per candidate that is down. If two processes use a home, the file
//! has the cooldowns of the one that wrote last.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nanobot_config::Config;
use nanobot_disk::{Durability, FileDraft, LocalDisk, replace_file};
use nanobot_provider::{Cooldown, CooldownKind, CooldownStore};
use serde::{Deserialize, Serialize};

/// Maximum length of the file, in bytes. A longer one is ignored.
const MAX_LENGTH: u64 = 1 << 20;

/// Cooldowns in `cooldowns.json` of the data folder.
#[derive(Debug)]
pub(crate) struct CooldownFile(PathBuf);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredCooldown {
    candidate: String,
    /// Milliseconds since 1970.
    until_ms: u64,
    is_quota: bool,
    error: String,
}

impl CooldownFile {
    pub(crate) fn of(config: &Config) -> Self {
        Self(config.paths().data_dir.join("cooldowns.json"))
    }
}

impl CooldownStore for CooldownFile {
    fn load(&self) -> Vec<Cooldown> {
        let is_short = std::fs::metadata(&self.0).is_ok_and(|found| found.len() <= MAX_LENGTH);
        let bytes = match is_short {
            true => std::fs::read(&self.0).unwrap_or_default(),
            false => return Vec::new(),
        };
        let stored: Vec<StoredCooldown> = serde_json::from_slice(&bytes).unwrap_or_default();
        let restored = stored.into_iter().filter_map(|stored| {
            let kind = match stored.is_quota {
                true => CooldownKind::Quota,
                false => CooldownKind::Outage,
            };
            Some(Cooldown {
                candidate: stored.candidate,
                until: UNIX_EPOCH.checked_add(Duration::from_millis(stored.until_ms))?,
                kind,
                error: stored.error,
            })
        });
        restored.collect()
    }

    fn save(&self, cooldowns: Vec<Cooldown>) {
        let milliseconds = |until: SystemTime| {
            let since = until.duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        };
        let stored: Vec<StoredCooldown> = cooldowns
            .into_iter()
            .map(|cooldown| StoredCooldown {
                candidate: cooldown.candidate,
                until_ms: milliseconds(cooldown.until),
                is_quota: cooldown.kind == CooldownKind::Quota,
                error: cooldown.error,
            })
            .collect();
        let Ok(bytes) = serde_json::to_vec(&stored) else {
            return;
        };
        let (path, durability) = (&self.0, Durability::Os);
        if let Err(error) = replace_file(&LocalDisk, path, &bytes, FileDraft::Random, durability) {
            tracing::warn!(path = %path.display(), %error, "cannot save the cooldowns of models");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_cooldowns_and_ignores_a_damaged_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = CooldownFile(folder.path().join("cooldowns.json"));
        assert_eq!(file.load(), []);
        let cooldowns = [CooldownKind::Quota, CooldownKind::Outage].map(|kind| Cooldown {
            candidate: "a/m".to_owned(),
            until: UNIX_EPOCH + Duration::from_secs(1_900_000_000),
            kind,
            error: "empty".to_owned(),
        });
        file.save(cooldowns.to_vec());
        assert_eq!(file.load(), cooldowns);
        std::fs::write(&file.0, "[{\"candidate\": 7}").unwrap();
        assert_eq!(file.load(), []);
        std::fs::write(&file.0, "[{\"candidate\":\"a\",\"untilMs\":18446744073709551615,\"isQuota\":true,\"error\":\"\"}]").unwrap();
        assert!(file.load().len() <= 1, "a far end is no panic");
    }
}
