//! Operations on jobs for the user and the assistant.

use chrono::{DateTime, Utc};

use crate::job::{Job, RunningJob};
use crate::store::{MAX_MESSAGE_CHARS, MAX_NAME_CHARS};
use crate::zone::Zone;
use crate::{CronError, JobStore, ScheduleError};

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
                in_memory: false,
            });
            Ok(job.clone())
        })?
    }
}

fn unknown(id: &str) -> CronError {
    CronError::Unknown { id: id.into() }
}
