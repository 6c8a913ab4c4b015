//! Schedules of jobs.

use chrono::{DateTime, TimeDelta, Utc};

use crate::expression::Expression;
use crate::zone::Zone;

/// Reason why a schedule is invalid, worded for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The time zone is unknown.
    #[error("unknown timezone '{name}'")]
    Zone {
        /// The text as written.
        name: String,
    },
    /// The expression is invalid.
    #[error("the cron expression '{expression}' cannot be used: {why}")]
    Expression {
        /// The expression as written.
        expression: String,
        /// The cause.
        why: String,
    },
    /// The interval is too short.
    #[error("an interval is at least one second")]
    Interval,
    /// The time after the interval is out of range.
    #[error("the interval is too long: no clock shows that time")]
    IntervalTooLong,
    /// The text is not an interval.
    #[error("'{text}' is not an interval; write it like 600, 30m, 1h, or 30 minutes")]
    Words {
        /// The text as written.
        text: String,
    },
    /// The job would run more often than allowed.
    #[error(
        "it would run every {seconds} s, and at most every {allowed} s is allowed here (cron.minIntervalSeconds)"
    )]
    TooOften {
        /// The shortest time between two runs, in seconds.
        seconds: i64,
        /// The shortest allowed time, in seconds.
        allowed: u32,
    },
    /// The text is not a time.
    #[error(
        "'{text}' is not a time; write it like 18:00, tomorrow 9:00, in 20m, or 2026-12-24T18:00"
    )]
    Time {
        /// The text as written.
        text: String,
    },
    /// The time is not in the future.
    #[error("{at} has passed: it is now {now}")]
    Past {
        /// The time, for people.
        at: String,
        /// The current time, for people.
        now: String,
    },
    /// The clock shows the time twice, because it is set back between.
    #[error(
        "the clock of {zone} shows '{text}' twice, because it is set back then; write {first} or {second}"
    )]
    Ambiguous {
        /// The text as written.
        text: String,
        /// The time zone.
        zone: String,
        /// The first time, in RFC 3339.
        first: String,
        /// The second time, in RFC 3339.
        second: String,
    },
    /// The schedule has no due time in the future.
    #[error("it would never run: it has no time in the future")]
    Never,
    /// A value that the kind needs is missing, or the kind is unknown.
    #[error("the schedule of kind '{kind}' is incomplete, or there is no such kind")]
    Incomplete {
        /// The kind.
        kind: String,
    },
}

/// The times at which a job is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// A single time.
    At(DateTime<Utc>),
    /// Repeatedly, with an interval of at least a second.
    Every(TimeDelta),
    /// Each time the clock of a zone matches an expression.
    Cron {
        /// The expression.
        expression: CronExpression,
        /// The time zone of the clock.
        zone: Zone,
    },
}

/// A parsed cron expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronExpression(Box<Expression>);

impl Schedule {
    /// Creates a schedule with an interval in milliseconds.
    ///
    /// # Errors
    /// Returns [`ScheduleError::Interval`] if the interval is less than a second, or too long for
    /// the calendar.
    pub fn every_ms(milliseconds: i64) -> Result<Self, ScheduleError> {
        let interval = TimeDelta::try_milliseconds(milliseconds)
            .filter(|interval| *interval >= TimeDelta::seconds(1));
        interval.map(Self::Every).ok_or(ScheduleError::Interval)
    }

    /// Creates a schedule from a cron expression, by the clock of `zone`.
    ///
    /// # Errors
    /// Returns [`ScheduleError::Expression`] if the expression is invalid.
    pub fn cron(expression: &str, zone: Zone) -> Result<Self, ScheduleError> {
        let read = Expression::parse(expression);
        let read = read.map_err(|why| ScheduleError::Expression {
            expression: expression.to_owned(),
            why,
        })?;
        Ok(Self::Cron {
            expression: CronExpression(Box::new(read)),
            zone,
        })
    }

    /// Returns the shortest time between two runs; `None` for a single run.
    #[must_use]
    pub fn shortest_gap(&self, now: DateTime<Utc>) -> Option<TimeDelta> {
        match self {
            Self::At(_) => None,
            Self::Every(interval) => Some(*interval),
            // Gaps under a minute come from the seconds field, so two of three consecutive times
            // are within one minute.
            Self::Cron { .. } => {
                let first = self.next_after(now, now)?;
                let second = self.next_after(first, now)?;
                let third = self.next_after(second, now);
                Some(third.map_or(second - first, |third| (third - second).min(second - first)))
            }
        }
    }

    /// Returns the first time after `after`, or `None`. An interval is counted from `anchor`.
    #[must_use]
    pub fn next_after(&self, after: DateTime<Utc>, anchor: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            Self::At(at) => Some(*at).filter(|at| *at > after),
            Self::Every(interval) if anchor > after => {
                anchor.checked_add_signed(*interval).map(|_| anchor)
            }
            Self::Every(interval) => {
                let step = interval.num_milliseconds().max(1);
                let steps = (after - anchor).num_milliseconds() / step + 1;
                anchor.checked_add_signed(TimeDelta::try_milliseconds(steps.checked_mul(step)?)?)
            }
            Self::Cron { expression, zone } => expression.0.next_after(after, *zone),
        }
    }
}
