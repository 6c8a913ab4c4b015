//! Operations on jobs for the user and the assistant.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};

use crate::job::{Job, RunningJob};
use crate::store::{MAX_MESSAGE_CHARS, MAX_NAME_CHARS};
use crate::zone::{Zone, instant_of};
use crate::{CronError, JobStore, ScheduleError};

/// Accepted formats of local times.
const CLOCKS: [&str; 4] = [
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
];

impl JobStore {
    /// Adds a job that has a future due time, and returns it as stored. Blocks.
    ///
    /// # Errors
    /// Returns [`CronError::Schedule`] if the job would never run, [`CronError::TooLong`], or an
    /// error of [`JobStore::edit`].
    pub fn add(&self, mut job: Job, now: DateTime<Utc>, zone: Zone) -> Result<Job, CronError> {
        let texts = [
            ("message", &job.payload.message, MAX_MESSAGE_CHARS),
            ("name", &job.name, MAX_NAME_CHARS),
        ];
        if let Some((what, _, limit)) = texts
            .into_iter()
            .find(|(_, text, limit)| text.chars().count() > *limit)
        {
            return Err(CronError::TooLong { what, limit });
        }
        let schedule = job.schedule.schedule(zone)?;
        let next = schedule.next_after(now, now).ok_or(ScheduleError::Never)?;
        job.state.next_run_at_ms = Some(next.timestamp_millis());
        self.edit(|jobs| jobs.add(job.clone()))?;
        Ok(job)
    }

    /// Removes a job. Blocks.
    ///
    /// # Errors
    /// Returns [`CronError::Unknown`] if there is no such job, or an error of [`JobStore::edit`].
    pub fn remove(&self, id: &str) -> Result<Job, CronError> {
        self.remove_if(id, |_| true)
    }

    /// Removes a job if `predicate` returns `true` for it; otherwise it counts as not found.
    /// Blocks.
    ///
    /// # Errors
    /// Returns the same errors as [`JobStore::remove`].
    pub fn remove_if(
        &self,
        id: &str,
        predicate: impl FnOnce(&Job) -> bool,
    ) -> Result<Job, CronError> {
        let removed = self.edit(|jobs| {
            jobs.find(id)
                .is_some_and(|job| predicate(job))
                .then(|| jobs.remove(id))
                .flatten()
        })?;
        removed.ok_or_else(|| unknown(id))
    }

    /// Enables or disables a job. An enabled job is next due at its first time after `now`; times
    /// that passed while it was disabled do not count as missed. Blocks.
    ///
    /// # Errors
    /// Returns the same errors as [`JobStore::remove`], and [`CronError::Schedule`] if the job
    /// would never run.
    pub fn enable(
        &self,
        id: &str,
        enabled: bool,
        now: DateTime<Utc>,
        zone: Zone,
    ) -> Result<Job, CronError> {
        self.edit(|jobs| {
            let job = jobs.find(id).ok_or_else(|| unknown(id))?;
            // A job can be disabled even if its schedule is invalid.
            let next = match enabled {
                true => Some(
                    job.schedule
                        .schedule(zone)?
                        .next_after(now, now)
                        .ok_or(ScheduleError::Never)?,
                ),
                false => None,
            };
            job.enabled = enabled;
            job.state.next_run_at_ms = next.map(|next| next.timestamp_millis());
            job.updated_at_ms = now.timestamp_millis();
            Ok(job.clone())
        })?
    }

    /// Starts a run of a job now, in addition to its schedule. The next gateway that reads the file
    /// runs it. Blocks.
    ///
    /// # Errors
    /// Returns the same errors as [`JobStore::remove`].
    pub fn run_now(&self, id: &str, now: DateTime<Utc>) -> Result<Job, CronError> {
        self.edit(|jobs| {
            let job = jobs.find(id).ok_or_else(|| unknown(id))?;
            let now = now.timestamp_millis();
            job.state.running.push(RunningJob {
                at_ms: now,
                fired_at_ms: now,
                message: None,
            });
            Ok(job.clone())
        })?
    }
}

fn unknown(id: &str) -> CronError {
    CronError::Unknown { id: id.into() }
}

/// Parses a time in ISO 8601. A time without an offset is local in `zone`, and a date alone means
/// its midnight.
///
/// # Errors
/// Returns [`ScheduleError::Time`] if the text is not a time.
pub fn time_in(text: &str, zone: Zone) -> Result<DateTime<Utc>, ScheduleError> {
    let text = text.trim();
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(at.to_utc());
    }
    // ISO 8601 allows leaving out the seconds.
    let with_offset = |format| DateTime::parse_from_str(text, &format!("{format}%#z")).ok();
    if let Some(at) = CLOCKS.into_iter().find_map(with_offset) {
        return Ok(at.to_utc());
    }
    let clock = CLOCKS
        .into_iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let date = || {
        NaiveDate::parse_from_str(text, "%Y-%m-%d")
            .ok()
            .map(|date| date.and_time(NaiveTime::MIN))
    };
    let unreadable = || ScheduleError::Time {
        text: text.to_owned(),
    };
    let civil = clock.or_else(date).ok_or_else(unreadable)?;
    instant_of(civil, zone).ok_or_else(unreadable)
}
