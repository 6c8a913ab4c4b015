//! Parser for the time of a single run.
//!
//! Decision: a time that the clock skips means the end of the gap. A time that the clock shows twice
//! is an error in [`due_time`], because an hour is too much to guess.

use chrono::{
    DateTime, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone as _, Utc,
};

use crate::job::format_time;
use crate::zone::{Zone, instant_of};
use crate::{ScheduleError, interval_seconds};

/// Accepted formats of local times.
const LOCAL_TIMES: [&str; 4] = [
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
];
/// Accepted formats of a time of day.
const TIMES_OF_DAY: [&str; 6] = [
    "%H:%M",
    "%H:%M:%S",
    "%I:%M%p",
    "%I:%M %p",
    "%I:%M:%S%p",
    "%I:%M:%S %p",
];
/// Maximum length of a time, in bytes.
const MAX_LENGTH: usize = 100;

/// A parsed time.
enum Moment {
    Instant(DateTime<Utc>),
    /// A time of the clock of a zone.
    Local(NaiveDateTime),
}

/// Parses a time in ISO 8601. A time without an offset is local in `zone`, and a date alone means
/// its midnight. Returns the first of two times that the clock shows twice.
///
/// # Errors
/// Returns [`ScheduleError::Time`] if the text is not a time.
pub fn time_in(text: &str, zone: Zone) -> Result<DateTime<Utc>, ScheduleError> {
    let instant = match iso_time(text.trim()) {
        Some(Moment::Instant(at)) => Some(at),
        Some(Moment::Local(local)) => instant_of(local, zone),
        None => None,
    };
    instant.ok_or_else(|| unreadable(text))
}

/// Parses the time of a single run: ISO 8601 as in [`time_in`], a time of day such as `18:00` or
/// `6:30pm` with or without `today` or `tomorrow`, or `in` and an interval. Words mean days of
/// `zone` at the time `now`.
///
/// # Errors
/// Returns [`ScheduleError::Time`] if the text is not a time, [`ScheduleError::Past`] if the time is
/// not after `now`, [`ScheduleError::Ambiguous`] if the clock shows it twice after `now`,
/// and the errors of [`time_after`] if the interval is invalid.
pub fn due_time(
    text: &str,
    now: DateTime<Utc>,
    zone: Zone,
) -> Result<DateTime<Utc>, ScheduleError> {
    let words = text.trim();
    if words.len() > MAX_LENGTH {
        return Err(unreadable(words));
    }
    let lower = words.to_ascii_lowercase();
    if let Some(interval) = lower.strip_prefix("in ") {
        return time_after(interval, now);
    }
    let moment = match local_time(&lower, now, zone) {
        Some(local) => Some(Moment::Local(local)),
        None => iso_time(words),
    };
    let at = match moment.ok_or_else(|| unreadable(words))? {
        Moment::Instant(at) => at,
        Moment::Local(local) => future_instant(local, now, zone, words)?,
    };
    if at > now {
        Ok(at)
    } else {
        Err(ScheduleError::Past {
            at: format_time(at, zone),
            now: format_time(now, zone),
        })
    }
}

/// Returns the time after an interval such as `20m`, counted from `now`.
///
/// # Errors
/// Returns [`ScheduleError::Words`] if the text is not an interval, [`ScheduleError::Interval`] if
/// it is less than a second, and [`ScheduleError::IntervalTooLong`] if it is too long for the
/// calendar.
pub fn time_after(interval: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, ScheduleError> {
    let seconds = interval_seconds(interval)?;
    if seconds <= 0 {
        return Err(ScheduleError::Interval);
    }
    TimeDelta::try_seconds(seconds)
        .and_then(|interval| now.checked_add_signed(interval))
        .ok_or(ScheduleError::IntervalTooLong)
}

/// Parses a time of day after an optional day in words.
fn local_time(words: &str, now: DateTime<Utc>, zone: Zone) -> Option<NaiveDateTime> {
    let today = now.with_timezone(&zone).date_naive();
    let (day, clock) = match words.split_once(char::is_whitespace) {
        Some(("today", clock)) => (today, clock),
        Some(("tomorrow", clock)) => (today.succ_opt()?, clock),
        _ => (today, words),
    };
    let clock = clock.trim();
    let clock = clock.strip_prefix("at ").unwrap_or(clock).trim();
    TIMES_OF_DAY
        .into_iter()
        .find_map(|format| NaiveTime::parse_from_str(clock, format).ok())
        .map(|time| day.and_time(time))
}

fn iso_time(text: &str) -> Option<Moment> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(Moment::Instant(at.to_utc()));
    }
    // ISO 8601 allows leaving out the seconds.
    let with_offset = |format| DateTime::parse_from_str(text, &format!("{format}%#z")).ok();
    if let Some(at) = LOCAL_TIMES.into_iter().find_map(with_offset) {
        return Some(Moment::Instant(at.to_utc()));
    }
    let local = LOCAL_TIMES
        .into_iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let date = || {
        NaiveDate::parse_from_str(text, "%Y-%m-%d")
            .ok()
            .map(|date| date.and_time(NaiveTime::MIN))
    };
    local.or_else(date).map(Moment::Local)
}

/// Returns the instant of a local time, and an error if two instants after `now` have it.
fn future_instant(
    local: NaiveDateTime,
    now: DateTime<Utc>,
    zone: Zone,
    text: &str,
) -> Result<DateTime<Utc>, ScheduleError> {
    match zone.from_local_datetime(&local) {
        LocalResult::Ambiguous(first, second) if first.to_utc() > now => {
            Err(ScheduleError::Ambiguous {
                text: text.to_owned(),
                zone: zone.to_string(),
                first: first.to_rfc3339(),
                second: second.to_rfc3339(),
            })
        }
        LocalResult::Ambiguous(_, second) => Ok(second.to_utc()),
        LocalResult::Single(_) | LocalResult::None => {
            instant_of(local, zone).ok_or_else(|| unreadable(text))
        }
    }
}

fn unreadable(text: &str) -> ScheduleError {
    ScheduleError::Time {
        text: text.chars().take(MAX_LENGTH).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone_named;

    fn at(text: &str) -> Result<String, ScheduleError> {
        let now = "2026-11-23T12:00:00Z".parse().unwrap();
        let zone = zone_named("Europe/Berlin").unwrap();
        due_time(text, now, zone).map(|at| format_time(at, Zone::UTC))
    }

    #[test]
    fn times_in_words_are_local() {
        for (text, expected) in [
            ("18:00", "Mon 2026-11-23 17:00 UTC"),
            ("today 18:00", "Mon 2026-11-23 17:00 UTC"),
            (" Tomorrow  9:00 ", "Tue 2026-11-24 08:00 UTC"),
            ("tomorrow at 9:30 PM", "Tue 2026-11-24 20:30 UTC"),
            ("6:15pm", "Mon 2026-11-23 17:15 UTC"),
            ("in 20m", "Mon 2026-11-23 12:20 UTC"),
            ("In 2 hours", "Mon 2026-11-23 14:00 UTC"),
            ("2026-12-24 18:00", "Thu 2026-12-24 17:00 UTC"),
            ("2026-12-24T18:00+00:00", "Thu 2026-12-24 18:00 UTC"),
            // The clock jumps from 2:00 to 3:00.
            ("2027-03-28 02:30", "Sun 2027-03-28 01:00 UTC"),
        ] {
            assert_eq!(at(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn invalid_times_are_explained() {
        let huge = format!("tomorrow {}", "9".repeat(100_000));
        for (text, part) in [
            (
                "13:00",
                "has passed: it is now Mon 2026-11-23 13:00 Europe/Berlin",
            ),
            (
                "2020-01-01T00:00",
                "Wed 2020-01-01 00:00 Europe/Berlin has passed",
            ),
            (
                "2027-10-31 02:30",
                "write 2027-10-31T02:30:00+02:00 or 2027-10-31T02:30:00+01:00",
            ),
            ("in -5", "at least one second"),
            ("in a while", "is not an interval"),
            ("in 9223372036854775807s", "too long"),
            ("in 999999999999d", "too long"),
            ("25:00", "is not a time"),
            ("tomorrow", "is not a time"),
            ("tomorrow ä:00", "is not a time"),
            ("", "is not a time"),
            (&huge, "is not a time"),
        ] {
            let error = at(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:.40}: {error}");
            assert!(error.len() < 400, "{error}");
        }
    }

    #[test]
    fn second_of_two_times_is_used_after_the_first() {
        let now = "2026-10-25T00:45:00Z".parse().unwrap();
        let zone = zone_named("Europe/Berlin").unwrap();
        let at = due_time("2:30", now, zone).unwrap();
        assert_eq!(at.to_rfc3339(), "2026-10-25T01:30:00+00:00");
    }
}
