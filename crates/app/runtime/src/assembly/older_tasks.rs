//! Imports `tasks.json`, the file of jobs of an older layout.
//!
//! Decision: it is imported once, on the first run, and only if every entry is a job in the form of
//! `cron/jobs.json`. No document says what else such a file held, so a file of another form is
//! reported and left alone. The file itself is never changed.

use std::fmt;
use std::io;
use std::path::Path;

use nanobot_config::Config;
use nanobot_cron::{Job, JobStore, host_zone};
use serde_json::Value;

use crate::error::chain;

/// File name, in the data folder.
const FILE: &str = "tasks.json";
/// Maximum size of the file, in bytes.
const MAX_SIZE: u64 = 4 << 20;

/// Planned or completed import of a `tasks.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OlderTasks {
    /// The jobs can be imported.
    Importable {
        /// Number of new jobs.
        new: usize,
        /// Number of jobs whose id already exists.
        known: usize,
    },
    /// The jobs were imported.
    Imported {
        /// Number of new jobs.
        new: usize,
        /// Number of jobs whose id already exists.
        known: usize,
    },
    /// The file is not imported, for this reason.
    LeftAlone(String),
}

impl fmt::Display for OlderTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let jobs = |count: usize| {
            if count == 1 {
                "1 job".to_owned()
            } else {
                format!("{count} jobs")
            }
        };
        let among = |known: usize| match known {
            0 => String::new(),
            1 => ", 1 is among the jobs already".to_owned(),
            known => format!(", {known} are among the jobs already"),
        };
        match self {
            Self::Importable { new, known } => write!(
                f,
                "{FILE}: {} would be imported{}",
                jobs(*new),
                among(*known)
            ),
            Self::Imported { new, known } => {
                let were = if *new == 1 { "was" } else { "were" };
                write!(
                    f,
                    "{FILE}: {} {were} imported{}. The file stays as it is.",
                    jobs(*new),
                    among(*known)
                )
            }
            Self::LeftAlone(why) => write!(f, "{FILE}: left alone, {why}"),
        }
    }
}

impl OlderTasks {
    /// Plans the import and changes nothing; `None` if there is nothing to import.
    pub(crate) fn plan(config: &Config) -> Option<Self> {
        let (store, jobs) = match importable(config) {
            Ok(importable) => importable?,
            Err(why) => return Some(Self::LeftAlone(why)),
        };
        match store.read() {
            Ok(mut existing) => {
                let known = jobs
                    .iter()
                    .filter(|job| existing.find(job.id.as_str()).is_some())
                    .count();
                Some(Self::Importable {
                    new: jobs.len() - known,
                    known,
                })
            }
            Err(error) => Some(Self::LeftAlone(chain(&error))),
        }
    }

    /// Imports the jobs whose ids do not exist yet; `None` if there is nothing to import.
    pub(crate) fn import(config: &Config) -> Option<Self> {
        let (store, jobs) = match importable(config) {
            Ok(importable) => importable?,
            Err(why) => return Some(Self::LeftAlone(why)),
        };
        let count = jobs.len();
        let added = store.edit(|existing| {
            let new: Vec<Job> = jobs
                .into_iter()
                .filter(|job| existing.find(job.id.as_str()).is_none())
                .collect();
            let added = new.len();
            new.into_iter().for_each(|job| existing.add(job));
            added
        });
        Some(match added {
            Ok(new) => Self::Imported {
                new,
                known: count - new,
            },
            Err(error) => Self::LeftAlone(chain(&error)),
        })
    }
}

/// Returns the jobs of the file and the store to import them into; `None` if there are none.
fn importable(config: &Config) -> Result<Option<(JobStore, Vec<Job>)>, String> {
    let jobs = match read(&config.paths().data_dir.join(FILE))? {
        Some(jobs) if !jobs.is_empty() => jobs,
        _ => return Ok(None),
    };
    Ok(Some((
        JobStore::new(config.paths().cron_store.clone()),
        jobs,
    )))
}

fn read(path: &Path) -> Result<Option<Vec<Job>>, String> {
    let unreadable = |error: io::Error| format!("it cannot be read: {error}");
    let length = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        importable => importable.map_err(unreadable)?.len(),
    };
    if length > MAX_SIZE {
        return Err(format!("it has more than {MAX_SIZE} bytes"));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("it is no JSON: {error}"))?;
    entries(value)?
        .into_iter()
        .zip(1..)
        .map(|(entry, number)| job(entry, number))
        .collect::<Result<_, _>>()
        .map(Some)
}

fn entries(value: Value) -> Result<Vec<Value>, String> {
    let mut map = match value {
        Value::Array(entries) => return Ok(entries),
        Value::Object(map) => map,
        _ => return Err("it has no list of jobs".to_owned()),
    };
    if let Some(version) = map
        .get("version")
        .filter(|version| version.as_u64() != Some(1))
    {
        return Err(format!("its version is {version}, not 1"));
    }
    match ["jobs", "tasks"]
        .into_iter()
        .find_map(|key| map.remove(key))
    {
        Some(Value::Array(entries)) => Ok(entries),
        _ => Err("it has no list of jobs".to_owned()),
    }
}

/// Parses an entry. It needs a valid schedule and a message.
fn job(entry: Value, number: usize) -> Result<Job, String> {
    let refused = |why: String| format!("entry {number} is no job: {why}");
    let job: Job = serde_json::from_value(entry).map_err(|error| refused(error.to_string()))?;
    job.schedule
        .schedule(host_zone())
        .map_err(|error| refused(error.to_string()))?;
    match job.payload.message.trim() {
        "" => Err(refused("it has no message".to_owned())),
        _ => Ok(job),
    }
}
