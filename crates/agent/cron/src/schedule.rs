//! When a job is due.

use chrono::{DateTime, TimeDelta, Utc};

use crate::expression::Expression;
use crate::zone::Zone;

/// Why a schedule cannot be one, in words for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// There is no such time zone.
    #[error("unknown timezone '{name}'")]
    Zone {
        /// The text as written.
        name: String,
    },
    /// The expression cannot be read.
    #[error("the cron expression '{expression}' cannot be used: {why}")]
    Expression {
        /// What was written.
        expression: String,
        /// What is wrong with it.
        why: String,
    },
    /// The interval is none.
    #[error("an interval is at least one second")]
    Interval,
    /// The words for an interval cannot be read.
    #[error("'{text}' is no interval; write it like 600, 30m, 1h, or 30 minutes")]
    Words {
        /// What was written.
        text: String,
    },
    /// It runs more often than is allowed.
    #[error(
        "it would run every {seconds} s, and at most every {allowed} s is allowed here (cron.minIntervalSeconds)"
    )]
    TooOften {
        /// The shortest time between two runs.
        seconds: i64,
        /// The shortest that is allowed.
        allowed: u32,
    },
    /// The time cannot be read.
    #[error("'{text}' is no time; write it like 2026-12-24T18:00")]
    Time {
        /// What was written.
        text: String,
    },
    /// It is not due from now on.
    #[error("it would never run: there is no such time any more")]
    Never,
    /// What its kind needs is missing, or there is no such kind.
    #[error("a schedule of the kind '{kind}' needs more, or there is none")]
    Incomplete {
        /// The kind.
        kind: String,
    },
}

/// When a job is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Once.
    At(DateTime<Utc>),
    /// Again and again after an interval, of at least a second.
    Every(TimeDelta),
    /// Whenever the clock of a zone fits an expression.
    Cron {
        /// What is searched.
        expression: CronExpression,
        /// Whose clock.
        zone: Zone,
    },
}

/// An expression that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronExpression(Box<Expression>);

impl Schedule {
    /// Every `seconds`.
    ///
    /// # Errors
    /// [`ScheduleError::Interval`] for less than a second, and for more than the calendar holds.
    pub fn every_ms(milliseconds: i64) -> Result<Self, ScheduleError> {
        let interval = TimeDelta::try_milliseconds(milliseconds)
            .filter(|interval| *interval >= TimeDelta::seconds(1));
        interval.map(Self::Every).ok_or(ScheduleError::Interval)
    }

    /// Whenever the clock of `zone` fits `expression`.
    ///
    /// # Errors
    /// [`ScheduleError::Expression`] when it cannot be read.
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

    /// The shortest time between two runs; `None` for a single run.
    #[must_use]
    pub fn shortest_gap(&self, now: DateTime<Utc>) -> Option<TimeDelta> {
        match self {
            Self::At(_) => None,
            Self::Every(interval) => Some(*interval),
            // Gaps under a minute come from seconds, and three times hold two of one minute then.
            Self::Cron { .. } => {
                let first = self.next_after(now, now)?;
                let second = self.next_after(first, now)?;
                let third = self.next_after(second, now);
                Some(third.map_or(second - first, |third| (third - second).min(second - first)))
            }
        }
    }

    /// The first time after `after`; an interval is counted from `anchor`. `None` when there is none.
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
