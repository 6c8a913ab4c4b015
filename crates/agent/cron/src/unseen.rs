//! Results of jobs that no terminal showed.
//!
//! Decision: they are kept in a file of their own next to the jobs, because the process that fires a
//! job, the one that delivers its result and the one that shows it can be three different ones. The
//! number and the length of results are limited, and the oldest are dropped.

use std::io;

use chrono::{DateTime, Utc};
use nanobot_disk::{Access, Disk as _, Durability, FileDraft, LocalDisk, NewFolders, replace_file};
use nanobot_types::{FiredJob, JobId, MessageId, TraceId};
use serde::{Deserialize, Serialize};

use crate::{CronError, JobStore};

/// Maximum number of kept results.
const MAX_RESULTS: usize = 50;
/// Maximum length of a kept text, in characters.
const MAX_CHARS: usize = 8_000;
/// Maximum length of a file that is read, in bytes.
const MAX_BYTES: u64 = 8 << 20;
/// Prefix of the message ids of runs.
const PREFIX: &str = "cron-";

/// A result of a job that no terminal showed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenResult {
    /// Time of the result.
    pub at: DateTime<Utc>,
    /// The text, in Markdown.
    pub text: String,
    /// The run that it comes from; `None` in a result that an older program kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<FiredJob>,
}

/// Returns the id of the message of a run.
pub(crate) fn message_id(job: &JobId, at: i64) -> MessageId {
    format!("{PREFIX}{job}-{at}").into()
}

/// Returns the job whose message began a turn; `None` for other turns.
#[must_use]
pub fn job_of_turn(turn: &TraceId) -> Option<JobId> {
    run_of_turn(turn).map(|(job, _)| job)
}

/// Returns the job whose message began a turn, and the due time of the run; `None` for other turns.
#[must_use]
pub fn run_of_turn(turn: &TraceId) -> Option<(JobId, DateTime<Utc>)> {
    let (_, message) = turn.as_str().rsplit_once('/')?;
    let (job, at) = message.strip_prefix(PREFIX)?.rsplit_once('-')?;
    let at = DateTime::from_timestamp_millis(at.parse().ok()?);
    Some((job.into(), at.unwrap_or_default()))
}

impl JobStore {
    /// Keeps a result for the next prompt. Blocks.
    ///
    /// # Errors
    /// Returns [`CronError::Io`] if the file cannot be written.
    pub fn keep_unseen(&self, result: &UnseenResult) -> Result<(), CronError> {
        let text = result.text.chars().take(MAX_CHARS).collect();
        let result = UnseenResult {
            text,
            ..result.clone()
        };
        self.edit_unseen(|results| {
            results.push(result);
            let surplus = results.len().saturating_sub(MAX_RESULTS);
            results.drain(..surplus);
        })
    }

    /// Removes and returns the kept results, the oldest first. Blocks.
    ///
    /// # Errors
    /// Returns [`CronError::Io`] if the file cannot be read or written.
    pub fn take_unseen(&self) -> Result<Vec<UnseenResult>, CronError> {
        if !self.sibling("unseen").exists() {
            return Ok(Vec::new());
        }
        self.edit_unseen(std::mem::take)
    }

    fn edit_unseen<T>(
        &self,
        change: impl FnOnce(&mut Vec<UnseenResult>) -> T,
    ) -> Result<T, CronError> {
        let failed = |source| self.failed(source);
        let path = self.sibling("unseen");
        if let Some(folder) = path.parent() {
            NewFolders::default()
                .ensure(&LocalDisk, folder)
                .map_err(failed)?;
        }
        let guard = LocalDisk
            .open(&self.sibling("unseen.lock"), Access::Append)
            .map_err(failed)?;
        guard.lock().map_err(failed)?;
        let mut results = read(&path).map_err(failed)?;
        let outcome = change(&mut results);
        let bytes = serde_json::to_vec_pretty(&results).map_err(|error| failed(error.into()))?;
        let draft = FileDraft::Like(&path);
        replace_file(&LocalDisk, &path, &bytes, draft, Durability::Disk).map_err(failed)?;
        Ok(outcome)
    }
}

/// Reads the results. A file that is too long or invalid is like an empty one: its texts are also
/// in the sessions of their jobs.
fn read(path: &std::path::Path) -> io::Result<Vec<UnseenResult>> {
    match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            tracing::warn!("the file of unseen results is too long; starting it anew");
            return Ok(Vec::new());
        }
        found => found?,
    };
    let results = serde_json::from_slice(&std::fs::read(path)?);
    Ok(results.unwrap_or_else(|error| {
        tracing::warn!(%error, "the file of unseen results is not valid; starting it anew");
        Vec::new()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> UnseenResult {
        UnseenResult {
            at: DateTime::UNIX_EPOCH,
            text: text.to_owned(),
            job: Some(FiredJob {
                name: "喝水".to_owned(),
                at: DateTime::UNIX_EPOCH.fixed_offset(),
            }),
        }
    }

    #[test]
    fn result_of_an_older_program_is_read() {
        let home = tempfile::tempdir().unwrap();
        let store = JobStore::new(home.path().join("jobs.json"));
        let kept = r#"[{"at":"1970-01-01T00:00:00Z","text":"x"}]"#;
        std::fs::write(store.sibling("unseen"), kept).unwrap();
        let expected = UnseenResult {
            job: None,
            ..result("x")
        };
        assert_eq!(store.take_unseen().unwrap(), [expected]);
    }

    #[test]
    fn results_are_taken_once_and_limited() {
        let home = tempfile::tempdir().unwrap();
        let store = JobStore::new(home.path().join("cron/jobs.json"));
        assert_eq!(store.take_unseen().unwrap(), []);
        for number in 0..=MAX_RESULTS {
            store.keep_unseen(&result(&number.to_string())).unwrap();
        }
        store
            .keep_unseen(&result(&"é".repeat(MAX_CHARS * 2)))
            .unwrap();
        let taken = store.take_unseen().unwrap();
        assert_eq!(taken.len(), MAX_RESULTS);
        assert_eq!(taken.first(), Some(&result("2")));
        assert_eq!(taken.last(), Some(&result(&"é".repeat(MAX_CHARS))));
        assert_eq!(store.take_unseen().unwrap(), []);
    }

    #[test]
    fn invalid_file_is_started_anew() {
        let home = tempfile::tempdir().unwrap();
        let store = JobStore::new(home.path().join("jobs.json"));
        for bytes in [b"[".to_vec(), vec![b'['; 100_000], vec![0xff; 10]] {
            std::fs::write(store.sibling("unseen"), bytes).unwrap();
            store.keep_unseen(&result("x")).unwrap();
            assert_eq!(store.take_unseen().unwrap(), [result("x")]);
        }
    }

    #[test]
    fn job_of_a_turn_is_in_its_id() {
        for (turn, job) in [
            ("cli/direct/cron-0a1b2c3d-1767268800000", Some("0a1b2c3d")),
            ("cli/direct/cron-my-job-5", Some("my-job")),
            ("cli/direct/0b0e", None),
            ("cli/direct/cron-x", None),
            ("cron-x-5", None),
        ] {
            assert_eq!(job_of_turn(&turn.into()), job.map(JobId::from), "{turn}");
        }
    }
}
