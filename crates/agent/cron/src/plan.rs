//! Determines which jobs are due, and which times were missed.
//!
//! Decision: the next time of an expression that is not due is recomputed from the clock, whatever
//! the file says. So manual edits and clocks that were set back need no special case. A time that
//! occurs twice as a result runs once, because times are claimed.

use chrono::{DateTime, TimeDelta, Utc};

use crate::job::{Catchup, Job, Jobs, Overlap, RunRecord, RunStatus, RunningJob};
use crate::zone::Zone;
use crate::{CronSettings, JobHost, Schedule};

/// Maximum delay of a run that does not count as missed.
const ON_TIME: TimeDelta = TimeDelta::minutes(1);
/// Age at which a single run is no longer useful and is skipped.
const STALE: TimeDelta = TimeDelta::hours(24);
/// Maximum number of missed times that run.
const MAX_RUNS_AT_ONCE: usize = 24;
/// Maximum number of missed times that are enumerated.
const MAX_MISSED: usize = 100_000;

/// Enters jobs of `host` that are due at `now` as running, and computes their next due times. `zone`
/// is the assistant's time zone.
pub(crate) fn begin_due(
    jobs: &mut Jobs,
    host: &JobHost,
    now: DateTime<Utc>,
    settings: CronSettings,
    zone: Zone,
) {
    jobs.iter_mut()
        .filter(|job| job.enabled && host.can_fire(job))
        .for_each(|job| begin(job, now, settings, zone));
}

fn begin(job: &mut Job, now: DateTime<Utc>, settings: CronSettings, zone: Zone) {
    let Ok(schedule) = job.schedule.schedule(zone) else {
        job.state.next_run_at_ms = None;
        return;
    };
    if let Schedule::At(at) = schedule {
        return begin_one_shot(job, at, now);
    }
    let stored = job
        .state
        .next_run_at_ms
        .and_then(DateTime::from_timestamp_millis);
    let Some(first) = stored.filter(|next| *next <= now) else {
        job.state.next_run_at_ms =
            upcoming(&schedule, stored, now).map(|next| next.timestamp_millis());
        return;
    };
    let due = missed(&schedule, first, now);
    let next = due
        .last()
        .and_then(|last| schedule.next_after(now.max(*last), *last));
    job.state.next_run_at_ms = next.map(|next| next.timestamp_millis());
    let wanted = match job.catchup.unwrap_or(settings.catchup) {
        Catchup::All => due.len().min(MAX_RUNS_AT_ONCE),
        Catchup::One => 1,
        Catchup::Skip => usize::from(due.last().is_some_and(|last| now - *last < ON_TIME)),
    };
    let overlaps =
        !job.state.running.is_empty() && job.overlap.unwrap_or(settings.overlap) == Overlap::Skip;
    let from = due.len().saturating_sub(if overlaps { 0 } else { wanted });
    if let Some(last) = due.get(..from).and_then(<[_]>::last) {
        let why = if overlaps {
            "the previous run was still in progress"
        } else {
            "missed"
        };
        skip(job, *last, why);
    }
    due.get(from..)
        .unwrap_or_default()
        .iter()
        .for_each(|at| run(job, *at, now));
}

/// Returns the next due time of a repeating job that is not due.
fn upcoming(
    schedule: &Schedule,
    stored: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    match schedule {
        // The stored time sets the phase of the interval, unless it is more than one interval away.
        Schedule::Every(interval) => stored
            .filter(|next| *next - now <= *interval)
            .or_else(|| schedule.next_after(now, now)),
        _ => schedule.next_after(now, now),
    }
}

fn missed(schedule: &Schedule, first: DateTime<Utc>, now: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let mut due = vec![first];
    // For an interval, skip to its last few times: a short one over years has too many.
    if let Schedule::Every(interval) = schedule {
        let beats = (now - first).num_milliseconds() / interval.num_milliseconds().max(1);
        let past = i64::try_from(MAX_RUNS_AT_ONCE)
            .map_or(0, |most| beats - most)
            .max(0);
        let skipped = interval
            .num_milliseconds()
            .checked_mul(past)
            .and_then(TimeDelta::try_milliseconds);
        due = vec![
            skipped
                .and_then(|skipped| first.checked_add_signed(skipped))
                .unwrap_or(first),
        ];
    }
    while let Some(next) = due
        .last()
        .and_then(|last| schedule.next_after(*last, *last))
        .filter(|next| *next <= now)
    {
        due.push(next);
        if due.len() > MAX_MISSED {
            // Too many to run one by one: continue from now.
            return vec![first, now];
        }
    }
    due
}

fn begin_one_shot(job: &mut Job, at: DateTime<Utc>, now: DateTime<Utc>) {
    job.state.next_run_at_ms = Some(at.timestamp_millis());
    if at > now {
        return;
    }
    job.enabled = false;
    job.state.next_run_at_ms = None;
    if now - at < STALE {
        run(job, at, now);
    } else {
        skip(job, at, "missed by more than a day");
    }
}

fn run(job: &mut Job, at: DateTime<Utc>, now: DateTime<Utc>) {
    let running = RunningJob {
        at_ms: at.timestamp_millis(),
        fired_at_ms: now.timestamp_millis(),
        message: None,
        in_memory: false,
    };
    job.state.running.push(running);
}

fn skip(job: &mut Job, at: DateTime<Utc>, why: &str) {
    let (run_at_ms, error) = (at.timestamp_millis(), Some(why.to_owned()));
    job.state.record(RunRecord {
        run_at_ms,
        status: RunStatus::Skipped,
        duration_ms: 0,
        error,
    });
}
