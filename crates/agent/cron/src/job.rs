//! Jobs as the file has them.
//!
//! Decision: the format is the Python program's, read in both of its spellings; what is not known
//! here is kept. A job that cannot be read stays in the file as it is and does not run.

use chrono::{DateTime, Utc};
use nanobot_types::{DeliveryContext, JobId, Map, MessageId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::zone::Zone;
use crate::{Schedule, ScheduleError, zone_named};

/// How many runs of a job are remembered.
const HISTORY: usize = 20;

/// What happens to times that passed while nobody looked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Catchup {
    /// The latest of them runs.
    #[default]
    One,
    /// Each of them runs, at most the last 24.
    All,
    /// None of them runs.
    Skip,
}

/// What happens when a job is due and its last run is not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It does not run.
    #[default]
    Skip,
    /// It runs behind it.
    Queue,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It was answered.
    Ok,
    /// It was not.
    Error,
    /// It did not run.
    Skipped,
}

/// When a job is due, as the file says it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct When {
    /// `at`, `every` or `cron`.
    pub kind: String,
    /// For `at`: milliseconds since 1970.
    #[serde(alias = "at_ms")]
    pub at_ms: Option<i64>,
    /// For `every`: milliseconds.
    #[serde(alias = "every_ms")]
    pub every_ms: Option<i64>,
    /// For `cron`.
    pub expr: Option<String>,
    /// For `cron`: an IANA name.
    pub tz: Option<String>,
    #[serde(flatten)]
    extra: Map,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Payload {
    /// `agent_turn`.
    pub kind: String,
    /// What the assistant is told.
    pub message: String,
    /// Whether its answer is sent.
    pub deliver: bool,
    /// Where to.
    pub channel: Option<String>,
    /// The chat there.
    pub to: Option<String>,
    /// The thread there, and what else the platform needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryContext>,
    /// What others keep here.
    #[serde(flatten)]
    pub extra: Map,
}

impl Default for Payload {
    fn default() -> Self {
        let kind = "agent_turn".to_owned();
        Self {
            kind,
            message: String::new(),
            deliver: false,
            channel: None,
            to: None,
            delivery: None,
            extra: Map::new(),
        }
    }
}

/// A run that was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// The time it is for.
    pub at_ms: i64,
    /// When it was begun.
    pub fired_at_ms: i64,
    /// The name of its message, once that is in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
}

/// A run that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The time it was for.
    #[serde(alias = "run_at_ms")]
    pub run_at_ms: i64,
    /// How it ended.
    pub status: RunStatus,
    /// How long it took.
    #[serde(alias = "duration_ms", default)]
    pub duration_ms: i64,
    /// What was wrong.
    #[serde(default)]
    pub error: Option<String>,
}

/// What is known about a job's runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobState {
    /// When it is due next.
    #[serde(alias = "next_run_at_ms")]
    pub next_run_at_ms: Option<i64>,
    /// The time of the last run.
    #[serde(alias = "last_run_at_ms")]
    pub last_run_at_ms: Option<i64>,
    /// How that ended.
    #[serde(alias = "last_status")]
    pub last_status: Option<RunStatus>,
    /// What was wrong with it.
    #[serde(alias = "last_error")]
    pub last_error: Option<String>,
    /// Runs that are not over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Running>,
    /// The last runs that are over, the newest last.
    #[serde(alias = "run_history")]
    pub run_history: Vec<RunRecord>,
    #[serde(flatten)]
    extra: Map,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its name for ever: eight hexadecimal digits.
    pub id: JobId,
    /// What people call it.
    #[serde(alias = "description", default)]
    pub name: String,
    /// Whether it runs.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// When.
    pub schedule: When,
    /// What.
    #[serde(default)]
    pub payload: Payload,
    /// What became of it.
    #[serde(default)]
    pub state: JobState,
    /// When it was made.
    #[serde(alias = "created_at_ms", default)]
    pub created_at_ms: i64,
    /// When it was last changed.
    #[serde(alias = "updated_at_ms", default)]
    pub updated_at_ms: i64,
    /// Whether it goes when it has run.
    #[serde(alias = "delete_after_run", default)]
    pub delete_after_run: bool,
    /// What happens to missed times, where it is not as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catchup: Option<Catchup>,
    /// What happens when the last run is not done, where it is not as usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Whose conversation made it, where people have memory of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(flatten)]
    extra: Map,
}

fn yes() -> bool {
    true
}

impl When {
    /// Once.
    #[must_use]
    pub fn at(at: DateTime<Utc>) -> Self {
        Self {
            kind: "at".to_owned(),
            at_ms: Some(at.timestamp_millis()),
            ..Self::default()
        }
    }

    /// After an interval of so many seconds.
    #[must_use]
    pub fn every_seconds(seconds: i64) -> Self {
        Self {
            kind: "every".to_owned(),
            every_ms: Some(seconds.saturating_mul(1000)),
            ..Self::default()
        }
    }

    /// By an expression, in a zone.
    #[must_use]
    pub fn cron(expression: &str, zone: Zone) -> Self {
        let (expr, tz) = (Some(expression.to_owned()), Some(zone.name().to_owned()));
        Self {
            kind: "cron".to_owned(),
            expr,
            tz,
            ..Self::default()
        }
    }

    /// The schedule; `zone` where an expression has none.
    ///
    /// # Errors
    /// [`ScheduleError`].
    pub fn schedule(&self, zone: Zone) -> Result<Schedule, ScheduleError> {
        match (
            self.kind.as_str(),
            self.at_ms.and_then(DateTime::from_timestamp_millis),
            self.every_ms,
            &self.expr,
        ) {
            ("at", Some(at), _, _) => Ok(Schedule::At(at)),
            ("every", _, Some(milliseconds), _) => Schedule::every_ms(milliseconds),
            ("cron", _, _, Some(expression)) => Schedule::cron(expression, self.zone(zone)?),
            _ => Err(ScheduleError::Incomplete {
                kind: self.kind.clone(),
            }),
        }
    }

    /// Whose clock is meant; `zone` where nothing is said.
    ///
    /// # Errors
    /// [`ScheduleError::Zone`].
    pub fn zone(&self, zone: Zone) -> Result<Zone, ScheduleError> {
        self.tz
            .as_deref()
            .filter(|name| !name.is_empty())
            .map_or(Ok(zone), zone_named)
    }

    /// The keys that are set and change nothing, because the kind of this schedule does not use
    /// them.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let set = [
            ("atMs", self.at_ms.is_some(), self.kind == "at"),
            ("everyMs", self.every_ms.is_some(), self.kind == "every"),
            ("expr", self.expr.is_some(), self.kind == "cron"),
            // A single run is shown in its zone.
            (
                "tz",
                self.tz.as_deref().is_some_and(|name| !name.is_empty()),
                self.kind != "every",
            ),
        ];
        set.into_iter()
            .filter(|(_, is_set, is_used)| *is_set && !is_used)
            .map(|(key, ..)| key)
            .collect()
    }

    /// When, in words: `every 60 s`, `0 9 * * * (Europe/Paris)`; a zone as it is written.
    #[must_use]
    pub fn shown(&self, zone: Zone) -> String {
        let said = self
            .tz
            .as_deref()
            .filter(|name| !name.is_empty())
            .unwrap_or(zone.name());
        match (
            self.at_ms.and_then(DateTime::from_timestamp_millis),
            self.every_ms,
            &self.expr,
        ) {
            (_, _, Some(expression)) if self.kind == "cron" => format!("{expression} ({said})"),
            (_, Some(milliseconds), _) if self.kind == "every" => {
                format!("every {} s", milliseconds / 1000)
            }
            (Some(at), _, _) if self.kind == "at" => {
                format!("at {}", in_words(at, self.zone(zone).unwrap_or(zone)))
            }
            _ => "never".to_owned(),
        }
    }
}

/// A time in words: `Tue 2026-11-24 08:00 Europe/Paris`.
#[must_use]
pub fn in_words(at: DateTime<Utc>, zone: Zone) -> String {
    let local = at.with_timezone(&zone).naive_local();
    let clock = if at.timestamp() % 60 == 0 {
        "%a %Y-%m-%d %H:%M"
    } else {
        "%a %Y-%m-%d %H:%M:%S"
    };
    format!("{} {zone}", local.format(clock))
}

impl JobState {
    /// Remembers how a run ended.
    pub(crate) fn record(&mut self, record: RunRecord) {
        self.last_run_at_ms = Some(record.run_at_ms);
        self.last_status = Some(record.status);
        self.last_error.clone_from(&record.error);
        self.run_history.push(record);
        let surplus = self.run_history.len().saturating_sub(HISTORY);
        self.run_history.drain(..surplus);
    }
}

impl Job {
    /// A job with a new id, made at `now`.
    #[must_use]
    pub fn new(name: &str, schedule: When, payload: Payload, now: DateTime<Utc>) -> Self {
        let id: String = uuid::Uuid::new_v4()
            .simple()
            .to_string()
            .chars()
            .take(8)
            .collect();
        let now = now.timestamp_millis();
        Self {
            id: id.into(),
            name: name.to_owned(),
            enabled: true,
            delete_after_run: schedule.kind == "at",
            schedule,
            payload,
            state: JobState::default(),
            created_at_ms: now,
            updated_at_ms: now,
            catchup: None,
            overlap: None,
            owner: None,
            extra: Map::new(),
        }
    }

    /// When it is due next, in the words of its zone.
    #[must_use]
    pub fn next_in_words(&self, zone: Zone) -> Option<String> {
        let next = self
            .state
            .next_run_at_ms
            .filter(|_| self.enabled)
            .and_then(DateTime::from_timestamp_millis)?;
        Some(in_words(next, self.schedule.zone(zone).unwrap_or(zone)))
    }
}

/// What stands in a list of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Slot {
    Job(Box<Job>),
    Unknown(Value),
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jobs {
    #[serde(default = "first_version")]
    version: u32,
    #[serde(default)]
    jobs: Vec<Slot>,
    #[serde(flatten)]
    extra: Map,
}

/// The newest version of the file that this program reads and writes.
pub(crate) const KNOWN_VERSION: u32 = 1;

fn first_version() -> u32 {
    1
}

impl Default for Jobs {
    fn default() -> Self {
        Self {
            version: KNOWN_VERSION,
            jobs: Vec::new(),
            extra: Map::new(),
        }
    }
}

impl Jobs {
    /// The version of the file's layout.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Those that can be read, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter_map(|slot| {
            if let Slot::Job(job) = slot {
                Some(&**job)
            } else {
                None
            }
        })
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.iter_mut().filter_map(|slot| {
            if let Slot::Job(job) = slot {
                Some(&mut **job)
            } else {
                None
            }
        })
    }

    /// How many entries cannot be read as jobs; they stay in the file and do not run.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.jobs
            .iter()
            .filter(|slot| matches!(slot, Slot::Unknown(_)))
            .count()
    }

    /// The job of that id.
    pub fn find(&mut self, id: &str) -> Option<&mut Job> {
        self.iter_mut().find(|job| job.id.as_str() == id)
    }

    /// Adds a job at the end.
    pub fn add(&mut self, job: Job) {
        self.jobs.push(Slot::Job(Box::new(job)));
    }

    /// Takes a job away.
    pub fn remove(&mut self, id: &str) -> Option<Job> {
        let is_meant = |slot: &Slot| matches!(slot, Slot::Job(job) if job.id.as_str() == id);
        let position = self.jobs.iter().position(is_meant)?;
        match self.jobs.remove(position) {
            Slot::Job(job) => Some(*job),
            Slot::Unknown(_) => None,
        }
    }
}
