//! Jobs in the format of the jobs file.
//!
//! Decision: the format is the Python program's, read in both of its spellings. Unknown keys are
//! kept. A job that cannot be parsed stays in the file unchanged and does not run.

use chrono::{DateTime, Utc};
use nanobot_types::{DeliveryContext, DeliveryWish, JobId, Map, MessageId, TERMINAL_CHANNEL};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::zone::Zone;
use crate::{Schedule, ScheduleError, zone_named};

/// Number of finished runs kept per job.
const HISTORY: usize = 20;

/// Catch-up policy for times that passed while no gateway ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Catchup {
    /// Run once, for the latest of them.
    #[default]
    One,
    /// Run for each of them, at most the last 24.
    All,
    /// Run for none of them.
    Skip,
}

/// Policy for a job that is due while its previous run is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Skip the run.
    #[default]
    Skip,
    /// Queue the run after the previous one.
    Queue,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// The run succeeded.
    Ok,
    /// The run failed.
    Error,
    /// The run was skipped.
    Skipped,
}

/// Schedule of a job, as in the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSchedule {
    /// `at`, `every` or `cron`.
    pub kind: String,
    /// For `at`: milliseconds since 1970.
    #[serde(alias = "at_ms")]
    pub at_ms: Option<i64>,
    /// For `every`: the interval in milliseconds.
    #[serde(alias = "every_ms")]
    pub every_ms: Option<i64>,
    /// For `cron`: the expression.
    pub expr: Option<String>,
    /// For `cron`: the IANA name of its time zone.
    pub tz: Option<String>,
    #[serde(flatten)]
    extra: Map,
}

/// The task of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Payload {
    /// `agent_turn`.
    pub kind: String,
    /// Instructions for the assistant.
    pub message: String,
    /// `true` if the reply is sent.
    pub deliver: bool,
    /// Channel to send to.
    pub channel: Option<String>,
    /// Chat to send to.
    pub to: Option<String>,
    /// Thread to send to, and anything else that the platform needs; `None` for the place in the
    /// chat where people last wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivery: Option<DeliveryContext>,
    /// Unknown keys.
    #[serde(flatten)]
    pub extra: Map,
}

impl Payload {
    /// Returns the wish that the message of a run carries.
    #[must_use]
    pub fn wish(&self) -> DeliveryWish {
        if self.deliver {
            DeliveryWish::Send
        } else {
            DeliveryWish::Silent
        }
    }
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

/// A run in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningJob {
    /// The due time that it runs for, in milliseconds since 1970.
    pub at_ms: i64,
    /// The time at which it was begun, in milliseconds since 1970.
    pub fired_at_ms: i64,
    /// The id of its message, once that is in the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageId>,
    /// `true` if the ledger with the message ends with its process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_memory: bool,
}

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The due time that it ran for, in milliseconds since 1970.
    #[serde(alias = "run_at_ms")]
    pub run_at_ms: i64,
    /// Its outcome.
    pub status: RunStatus,
    /// Its duration in milliseconds.
    #[serde(alias = "duration_ms", default)]
    pub duration_ms: i64,
    /// The error, if it failed or was skipped.
    #[serde(default)]
    pub error: Option<String>,
}

/// Schedule state and past runs of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobState {
    /// The next due time, in milliseconds since 1970.
    #[serde(alias = "next_run_at_ms")]
    pub next_run_at_ms: Option<i64>,
    /// The due time of the last run, in milliseconds since 1970.
    #[serde(alias = "last_run_at_ms")]
    pub last_run_at_ms: Option<i64>,
    /// The outcome of the last run.
    #[serde(alias = "last_status")]
    pub last_status: Option<RunStatus>,
    /// The error of the last run.
    #[serde(alias = "last_error")]
    pub last_error: Option<String>,
    /// Runs in progress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<RunningJob>,
    /// The last finished runs, the newest last.
    #[serde(alias = "run_history")]
    pub run_history: Vec<RunRecord>,
    #[serde(flatten)]
    extra: Map,
}

/// A scheduled job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its permanent id: eight hexadecimal digits.
    pub id: JobId,
    /// Its display name.
    #[serde(alias = "description", default)]
    pub name: String,
    /// `false` if the job is paused or has run for the last time.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Its schedule.
    pub schedule: JobSchedule,
    /// Its task.
    #[serde(default)]
    pub payload: Payload,
    /// Its state and past runs.
    #[serde(default)]
    pub state: JobState,
    /// Time of creation, in milliseconds since 1970.
    #[serde(alias = "created_at_ms", default)]
    pub created_at_ms: i64,
    /// Time of the last change, in milliseconds since 1970.
    #[serde(alias = "updated_at_ms", default)]
    pub updated_at_ms: i64,
    /// `true` if the job is removed after it has run.
    #[serde(alias = "delete_after_run", default)]
    pub delete_after_run: bool,
    /// Catch-up policy, if it differs from the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catchup: Option<Catchup>,
    /// Overlap policy, if it differs from the setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Owner of the conversation that created it, if memory is separated by owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    #[serde(flatten)]
    extra: Map,
}

fn yes() -> bool {
    true
}

impl JobSchedule {
    /// Creates a schedule for a single run.
    #[must_use]
    pub fn at(at: DateTime<Utc>) -> Self {
        Self {
            kind: "at".to_owned(),
            at_ms: Some(at.timestamp_millis()),
            ..Self::default()
        }
    }

    /// Creates a schedule with an interval in seconds.
    #[must_use]
    pub fn every_seconds(seconds: i64) -> Self {
        Self {
            kind: "every".to_owned(),
            every_ms: Some(seconds.saturating_mul(1000)),
            ..Self::default()
        }
    }

    /// Creates a schedule from a cron expression and a zone.
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

    /// Returns the parsed schedule; an expression without a zone uses `zone`.
    ///
    /// # Errors
    /// Returns [`ScheduleError`] if the schedule is incomplete or invalid.
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

    /// Returns the schedule's time zone, or `zone` if it has none.
    ///
    /// # Errors
    /// Returns [`ScheduleError::Zone`] if the time zone is unknown.
    pub fn zone(&self, zone: Zone) -> Result<Zone, ScheduleError> {
        self.tz
            .as_deref()
            .filter(|name| !name.is_empty())
            .map_or(Ok(zone), zone_named)
    }

    /// Returns the keys that are set but have no effect, because this kind of schedule does not use
    /// them.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let set = [
            ("atMs", self.at_ms.is_some(), self.kind == "at"),
            ("everyMs", self.every_ms.is_some(), self.kind == "every"),
            ("expr", self.expr.is_some(), self.kind == "cron"),
            // A single run is displayed in its zone.
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

    /// Describes the schedule: `every 60 s`, `0 9 * * * (Europe/Paris)`. A zone keeps its spelling.
    #[must_use]
    pub fn describe(&self, zone: Zone) -> String {
        let zone_name = self
            .tz
            .as_deref()
            .filter(|name| !name.is_empty())
            .unwrap_or(zone.name());
        match (
            self.at_ms.and_then(DateTime::from_timestamp_millis),
            self.every_ms,
            &self.expr,
        ) {
            (_, _, Some(expression)) if self.kind == "cron" => {
                format!("{expression} ({zone_name})")
            }
            (_, Some(milliseconds), _) if self.kind == "every" => {
                format!("every {} s", milliseconds / 1000)
            }
            (Some(at), _, _) if self.kind == "at" => {
                format!("at {}", format_time(at, self.zone(zone).unwrap_or(zone)))
            }
            _ => "never".to_owned(),
        }
    }
}

/// Formats a time for people: `Tue 2026-11-24 08:00 Europe/Paris`.
#[must_use]
pub fn format_time(at: DateTime<Utc>, zone: Zone) -> String {
    let local = at.with_timezone(&zone).naive_local();
    let clock = if at.timestamp() % 60 == 0 {
        "%a %Y-%m-%d %H:%M"
    } else {
        "%a %Y-%m-%d %H:%M:%S"
    };
    format!("{} {zone}", local.format(clock))
}

impl JobState {
    /// Records a finished run.
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
    /// `true` if it writes to no channel but the terminal, so that an open prompt can fire it.
    #[must_use]
    pub fn is_for_terminal(&self) -> bool {
        let channel = self.payload.channel.as_deref().unwrap_or_default();
        channel.is_empty() || channel == TERMINAL_CHANNEL
    }

    /// Creates a job with a new id at the time `now`.
    #[must_use]
    pub fn new(name: &str, schedule: JobSchedule, payload: Payload, now: DateTime<Utc>) -> Self {
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

    /// Formats the next due time, in the job's zone; `None` if the job is disabled or has none.
    #[must_use]
    pub fn next_in_words(&self, zone: Zone) -> Option<String> {
        let next = self
            .state
            .next_run_at_ms
            .filter(|_| self.enabled)
            .and_then(DateTime::from_timestamp_millis)?;
        Some(format_time(next, self.schedule.zone(zone).unwrap_or(zone)))
    }
}

/// An entry in the list of jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum JobEntry {
    Job(Box<Job>),
    Unknown(Value),
}

/// The contents of the jobs file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jobs {
    #[serde(default = "first_version")]
    version: u32,
    #[serde(default)]
    jobs: Vec<JobEntry>,
    #[serde(flatten)]
    extra: Map,
}

/// The newest version of the file that this program supports.
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
    /// Returns the version of the file's format.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Returns the jobs that can be parsed, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter_map(|slot| {
            if let JobEntry::Job(job) = slot {
                Some(&**job)
            } else {
                None
            }
        })
    }

    /// Returns the same jobs for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.jobs.iter_mut().filter_map(|slot| {
            if let JobEntry::Job(job) = slot {
                Some(&mut **job)
            } else {
                None
            }
        })
    }

    /// Returns the number of entries that cannot be parsed as jobs. They stay in the file and do
    /// not run.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.jobs
            .iter()
            .filter(|slot| matches!(slot, JobEntry::Unknown(_)))
            .count()
    }

    /// Finds a job by its id.
    pub fn find(&mut self, id: &str) -> Option<&mut Job> {
        self.iter_mut().find(|job| job.id.as_str() == id)
    }

    /// Adds a job at the end.
    pub fn add(&mut self, job: Job) {
        self.jobs.push(JobEntry::Job(Box::new(job)));
    }

    /// Removes a job and returns it.
    pub fn remove(&mut self, id: &str) -> Option<Job> {
        let is_meant =
            |slot: &JobEntry| matches!(slot, JobEntry::Job(job) if job.id.as_str() == id);
        let position = self.jobs.iter().position(is_meant)?;
        match self.jobs.remove(position) {
            JobEntry::Job(job) => Some(*job),
            JobEntry::Unknown(_) => None,
        }
    }
}
