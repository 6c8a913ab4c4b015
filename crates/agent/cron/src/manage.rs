//! What people and the assistant do to jobs.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};

use crate::job::{Job, Running};
use crate::store::{LONGEST_MESSAGE, LONGEST_NAME};
use crate::zone::{Zone, instant_of};
use crate::{CronError, JobStore, ScheduleError};

/// How local times may be written.
const CLOCKS: [&str; 4] = [
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
];

impl JobStore {
    /// Adds a job that is going to be due, and returns it as it is kept. Blocks.
    ///
    /// # Errors
    /// [`CronError::Schedule`] when it would never run, [`CronError::TooLong`]; else as [`JobStore::edit`].
    pub fn add(&self, mut job: Job, now: DateTime<Utc>, zone: Zone) -> Result<Job, CronError> {
        let texts = [
            ("message", &job.payload.message, LONGEST_MESSAGE),
            ("name", &job.name, LONGEST_NAME),
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

    /// Takes a job away. Blocks.
    ///
    /// # Errors
    /// [`CronError::Unknown`]; else as [`JobStore::edit`].
    pub fn remove(&self, id: &str) -> Result<Job, CronError> {
        self.remove_if(id, |_| true)
    }

    /// Removes a job that is `meant`; another one is not found. Blocks.
    ///
    /// # Errors
    /// As [`JobStore::remove`].
    pub fn remove_if(&self, id: &str, meant: impl FnOnce(&Job) -> bool) -> Result<Job, CronError> {
        let removed = self.edit(|jobs| {
            jobs.find(id)
                .is_some_and(|job| meant(job))
                .then(|| jobs.remove(id))
                .flatten()
        })?;
        removed.ok_or_else(|| unknown(id))
    }

    /// Lets a job run, or keeps it from running. It is due at its next time from `now` on; what
    /// passed meanwhile was not missed. Blocks.
    ///
    /// # Errors
    /// As [`JobStore::remove`], and [`CronError::Schedule`] when it would never run.
    pub fn enable(
        &self,
        id: &str,
        enabled: bool,
        now: DateTime<Utc>,
        zone: Zone,
    ) -> Result<Job, CronError> {
        self.edit(|jobs| {
            let job = jobs.find(id).ok_or_else(|| unknown(id))?;
            // Whatever is wrong with its schedule is no reason to let it be.
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

    /// Has a job run now, beside its schedule, by the gateway that looks next. Blocks.
    ///
    /// # Errors
    /// As [`JobStore::remove`].
    pub fn run_now(&self, id: &str, now: DateTime<Utc>) -> Result<Job, CronError> {
        self.edit(|jobs| {
            let job = jobs.find(id).ok_or_else(|| unknown(id))?;
            let now = now.timestamp_millis();
            job.state.running.push(Running {
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

/// Reads a time in ISO 8601; one without an offset is local in `zone`, and a date alone is its
/// midnight.
///
/// # Errors
/// [`ScheduleError::Time`].
pub fn time_in(text: &str, zone: Zone) -> Result<DateTime<Utc>, ScheduleError> {
    let text = text.trim();
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Ok(at.to_utc());
    }
    // Without seconds it is ISO 8601 still.
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
