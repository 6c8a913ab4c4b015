//! Retention: removes old settled messages, received files, rotated logs, transcripts of subagents,
//! prompts of sessions, deleted sessions, and day notes.
//!
//! Decision: runs at the start and once a day while the gateway runs. Only what the gateway itself
//! wrote is removed, recognised by its name (a home may hold another program's files), and only
//! regular files below its own folders: links are not followed. In the workspace nothing is touched
//! but the sessions of subagents, deleted sessions, and day notes if `memory` says so.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nanobot_agent_core::is_result_file;
use nanobot_bus::{EntryState, Ledger as _, LedgerFilter, Queue};
use nanobot_channels::FileMediaStore;
use nanobot_config::Config;
use nanobot_context::FilePromptStore;
use nanobot_memory::MarkdownStore;
use nanobot_session::{SessionPaths, deleted_at, trash_folder};
use nanobot_state::SqliteBus;
use tokio_util::sync::CancellationToken;

use crate::assembly::memory;
use crate::assembly::path_rules::{outbox_folder, results_folder};
use crate::assembly::prompts::prompts_folder;
use crate::assembly::settings::RetentionSettings;
use crate::{RuntimeError, memory_store};

const DAY: Duration = Duration::from_hours(24);

/// Maximum number of ledger entries that are searched for attachments still in use.
const MAX_ENTRIES: usize = 100_000;

/// Age from which a copied attachment that belongs to no message is an orphan. A younger one may
/// belong to a message that is being stored.
const ORPHAN_AGE: Duration = Duration::from_hours(1);

/// Returns the maximum age; `None` (keep for ever) for 0 days.
fn age(days: u32) -> Option<Duration> {
    (days > 0).then(|| DAY.saturating_mul(days))
}

/// Removes what exceeds its retention.
#[derive(Debug)]
pub(crate) struct Retention {
    settings: RetentionSettings,
    bus: SqliteBus,
    media: PathBuf,
    logs: PathBuf,
    workspace: PathBuf,
    sessions: Vec<PathBuf>,
    prompts: PathBuf,
    results: PathBuf,
    outbox: PathBuf,
    memory: MarkdownStore,
}

impl Retention {
    /// Returns a keeper of the home of `config`.
    pub(crate) fn new(config: &Config, bus: SqliteBus) -> Result<Self, RuntimeError> {
        let paths = config.paths();
        let workspace = config.workspace()?;
        let sessions = SessionPaths::discover(&workspace, &paths.data_dir, &paths.home);
        Ok(Self {
            settings: config.section("retention")?,
            bus,
            media: paths.media.clone(),
            logs: paths.logs.clone(),
            workspace,
            sessions: [sessions.sessions]
                .into_iter()
                .chain(sessions.external)
                .collect(),
            prompts: prompts_folder(config),
            results: results_folder(config),
            outbox: outbox_folder(config),
            memory: memory_store(config)?,
        })
    }

    /// Runs now and once a day, until `end` fires.
    pub(crate) async fn run(self, end: CancellationToken) {
        let sweeps = async {
            loop {
                self.remove_expired().await;
                tokio::time::sleep(DAY).await;
            }
        };
        // Cancelling leaves nothing half removed.
        end.run_until_cancelled(sweeps).await;
    }

    /// Returns the attachments of messages that are not known to be sent, which the user may send
    /// again; `None` if there are too many entries or the ledger cannot be read.
    async fn attachments_in_use(&self) -> Option<HashSet<PathBuf>> {
        let entries = match self
            .bus
            .list(Queue::Outbound, LedgerFilter::All, MAX_ENTRIES)
            .await
        {
            Ok(entries) if entries.len() < MAX_ENTRIES => entries,
            Ok(_) => return None,
            Err(error) => {
                tracing::warn!(%error, "could not list sent attachments");
                return None;
            }
        };
        let unsent = entries
            .into_iter()
            .filter(|entry| entry.state != EntryState::Sent);
        let media = unsent
            .filter_map(|entry| entry.outbound)
            .flat_map(|message| message.media);
        Some(media.map(|media| PathBuf::from(media.location)).collect())
    }

    async fn remove_expired(&self) {
        memory::roll_up_day_notes(&self.memory).await;
        let RetentionSettings {
            ledger_days,
            media_days,
            log_days,
            subagent_days,
            tool_result_days,
            prompt_days,
            deleted_session_days,
        } = self.settings;
        if let Some(age) = age(ledger_days) {
            match self.bus.prune(age).await {
                Ok(entries) => tracing::debug!(entries, "removed old ledger entries"),
                Err(error) => tracing::warn!(%error, "could not remove old ledger entries"),
            }
        }
        let (media, logs, workspace) = (
            self.media.clone(),
            self.logs.clone(),
            self.workspace.clone(),
        );
        let (sessions, prompts) = (self.sessions.clone(), self.prompts.clone());
        let results = self.results.clone();
        let (outbox, in_use) = (self.outbox.clone(), self.attachments_in_use().await);
        let removal = tokio::task::spawn_blocking(move || {
            if let Some(age) = age(media_days) {
                remove_older(&media, age, |path| {
                    FileMediaStore::is_media_file(path) && !path.starts_with(&workspace)
                });
            }
            if let Some(in_use) = in_use {
                remove_sent(&outbox, &in_use);
            }
            if let Some(age) = age(tool_result_days) {
                remove_older(&results, age, is_result_file);
            }
            if let Some(age) = age(log_days) {
                remove_older(&logs, age, is_rotated_log);
            }
            if let Some(age) = age(subagent_days) {
                sessions
                    .iter()
                    .for_each(|folder| remove_older(folder, age, is_subagent_session));
            }
            if let Some(age) = age(deleted_session_days) {
                sessions
                    .iter()
                    .for_each(|folder| remove_deleted(&trash_folder(folder), age));
            }
            if let Some(age) = age(prompt_days) {
                remove_older(&prompts, age, FilePromptStore::is_store_file);
            }
        });
        if let Err(error) = removal.await {
            tracing::error!(%error, "the search for old files panicked");
        }
    }
}

/// Removes the folders of attachments below `outbox` that hold no file of `in_use`.
fn remove_sent(outbox: &Path, in_use: &HashSet<PathBuf>) {
    remove_older(outbox, ORPHAN_AGE, |path| !in_use.contains(path));
    for entry in std::fs::read_dir(outbox).into_iter().flatten().flatten() {
        let folder = entry.path();
        // A folder whose file is about to be written is also empty for a moment.
        let is_old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age >= ORPHAN_AGE));
        let is_empty = || std::fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_none());
        if is_old
            && is_empty()
            && let Err(error) = std::fs::remove_dir(&folder)
        {
            tracing::debug!(folder = %folder.display(), %error, "could not remove an empty folder");
        }
    }
}

/// `true` if a file is a rotated log, such as `gateway.log.1`.
fn is_rotated_log(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with("gateway.log."))
}

/// `true` if a file is the session of a subagent, in either spelling of its key: `subagent` and an
/// id of twelve hexadecimal digits.
fn is_subagent_session(path: &Path) -> bool {
    let stem = path
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.strip_suffix(".jsonl"));
    let is_plain = |stem: &str| {
        let id = stem.strip_prefix("subagent_");
        id.is_some_and(|id| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    // `subagent:` in base64, and sixteen characters for the id.
    let is_encoded = |stem: &str| {
        stem.strip_prefix("c3ViYWdlbnQ6")
            .is_some_and(|id| id.len() == 16)
    };
    stem.is_some_and(|stem| is_plain(stem) || is_encoded(stem))
}

/// Removes deleted sessions by the time of their deletion, which is in their names.
fn remove_deleted(trash: &Path, age: Duration) {
    let now = chrono::Local::now();
    remove_files(trash, |path, _| {
        let since = deleted_at(path).and_then(|at| now.signed_duration_since(at).to_std().ok());
        since.is_some_and(|since| since >= age)
    });
}

fn remove_older(root: &Path, age: Duration, matches: impl Fn(&Path) -> bool) {
    let Some(before) = SystemTime::now().checked_sub(age) else {
        return;
    };
    remove_files(root, |path, metadata| {
        matches(path) && !metadata.modified().is_ok_and(|modified| modified >= before)
    });
}

fn remove_files(root: &Path, is_expired: impl Fn(&Path, &std::fs::Metadata) -> bool) {
    let mut removed: usize = 0;
    let walked = walk(root, &mut |path, metadata| {
        if !is_expired(path, metadata) {
            return;
        }
        match std::fs::remove_file(path) {
            Ok(()) => removed = removed.saturating_add(1),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "could not remove an old file");
            }
        }
    });
    if let Err(error) = walked {
        tracing::warn!(folder = %root.display(), %error, "could not list old files");
    }
    tracing::debug!(folder = %root.display(), removed, "removed old files");
}

/// Returns the total size of the regular files below a folder, in bytes; unreadable ones count as
/// 0.
pub(crate) fn size_of(root: &Path) -> u64 {
    let mut bytes: u64 = 0;
    let walked = walk(root, &mut |_, metadata| {
        bytes = bytes.saturating_add(metadata.len());
    });
    if let Err(error) = walked {
        tracing::debug!(folder = %root.display(), %error, "could not measure a folder");
    }
    bytes
}

/// Visits the regular files below a folder, which need not exist. Links are not followed.
fn walk(folder: &Path, visit: &mut impl FnMut(&Path, &std::fs::Metadata)) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let metadata = match entry.metadata() {
                // Another process removed it just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if metadata.is_file() {
                visit(&entry.path(), &metadata);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn file(path: &Path, days_old: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "1234").unwrap();
        File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::now() - DAY * days_old)
            .unwrap();
    }

    #[test]
    fn only_old_media_files_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let media = home.path().join("media");
        let workspace = media.join("workspace");
        for (name, days) in [("chat/old", 31), ("chat/new", 29), ("workspace/old", 31)] {
            file(&media.join(name), days);
        }
        file(&home.path().join("elsewhere/old"), 31);
        #[cfg(unix)]
        std::os::unix::fs::symlink(home.path().join("elsewhere"), media.join("link")).unwrap();
        assert_eq!(size_of(&media), 12);
        remove_older(&media, DAY * 30, |path| !path.starts_with(&workspace));
        assert_eq!(size_of(&media), 8);
        assert!(!media.join("chat/old").exists());
        assert!(
            home.path().join("elsewhere/old").exists(),
            "links are not followed"
        );
        remove_older(&home.path().join("nowhere"), DAY, |_| true);
    }

    #[test]
    fn attachment_copies_stay_until_sent() {
        let outbox = tempfile::tempdir().unwrap();
        let place = |name: &str| outbox.path().join(name);
        for (name, days) in [("sent/a.txt", 1), ("waiting/b.txt", 40), ("new/c.txt", 0)] {
            file(&place(name), days);
        }
        fs::create_dir(place("emptied")).unwrap();
        File::open(place("emptied"))
            .unwrap()
            .set_modified(SystemTime::now() - DAY)
            .unwrap();
        remove_sent(outbox.path(), &HashSet::from([place("waiting/b.txt")]));
        for (name, stays) in [
            ("sent/a.txt", false),
            ("waiting/b.txt", true),
            ("new/c.txt", true),
            ("emptied", false),
        ] {
            assert_eq!(place(name).exists(), stays, "{name}");
        }
    }

    #[test]
    fn active_logs_are_kept() {
        for (name, expected) in [
            ("gateway.log", false),
            ("gateway.log.1", true),
            ("audit.log", false),
        ] {
            assert_eq!(
                is_rotated_log(&Path::new("logs").join(name)),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn only_subagent_sessions_are_removed() {
        for (name, expected) in [
            ("subagent_0123456789ab.jsonl", true),
            ("c3ViYWdlbnQ6MDEyMzQ1Njc4OWFi.jsonl", true),
            ("telegram_1.jsonl", false),
            ("subagent_notes.jsonl", false),
            ("subagent_0123456789ab.jsonl.torn-20260101T000000", false),
            ("c3ViYWdlbnQ6bm90ZXM.jsonl", false),
        ] {
            assert_eq!(
                is_subagent_session(&Path::new("sessions").join(name)),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn deleted_sessions_expire_by_the_time_in_their_names() {
        let trash = tempfile::tempdir().unwrap();
        let name = |days: u32| {
            let at = chrono::Local::now() - DAY * days;
            format!("cli_a.jsonl.deleted-{}", at.format("%Y%m%dT%H%M%S"))
        };
        // The last write was long ago in all of them.
        for name in [&name(31), &name(29), "cli_a.jsonl", "notes.deleted-soon"] {
            file(&trash.path().join(name), 99);
        }
        remove_deleted(trash.path(), DAY * 30);
        for (name, stays) in [
            (name(31).as_str(), false),
            (&name(29), true),
            ("cli_a.jsonl", true),
            ("notes.deleted-soon", true),
        ] {
            assert_eq!(trash.path().join(name).exists(), stays, "{name}");
        }
    }

    #[test]
    fn zero_days_disable_retention() {
        assert_eq!([0, 1].map(age), [None, Some(DAY)]);
    }
}
