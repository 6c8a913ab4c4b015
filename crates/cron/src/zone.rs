//! Time zones by their IANA names.

use chrono::{DateTime, NaiveDateTime, TimeDelta, TimeZone as _, Utc};
use chrono::{LocalResult, Offset as _};
pub use chrono_tz::Tz;

use crate::ScheduleError;

/// The zone of that name.
///
/// # Errors
/// [`ScheduleError::Zone`] when there is none.
pub fn zone_named(name: &str) -> Result<Tz, ScheduleError> {
    name.trim().parse().map_err(|_unknown| ScheduleError::Zone { name: name.to_owned() })
}

/// The zone of this process: the one that `TZ` names, otherwise that of the computer; UTC where neither
/// can be told. A container has no zone but `TZ`.
#[must_use]
pub fn host_zone() -> Tz {
    let said = std::env::var("TZ").ok().and_then(|value| zone_of_variable(&value));
    let computers = || iana_time_zone::get_timezone().ok().and_then(|name| name.parse().ok());
    said.or_else(computers).unwrap_or(Tz::UTC)
}

/// The zone that a value of `TZ` names, as tzset(3) reads it; `None` where it gives rules instead.
fn zone_of_variable(value: &str) -> Option<Tz> {
    let file = value.strip_prefix(':').unwrap_or(value);
    file.strip_prefix("/usr/share/zoneinfo/").unwrap_or(file).parse().ok()
}

/// When a wall clock in `zone` shows `civil`: for the first time where it does so twice, and when
/// it goes on where it leaves that time out.
pub(crate) fn instant_of(civil: NaiveDateTime, zone: Tz) -> Option<DateTime<Utc>> {
    match zone.from_local_datetime(&civil) {
        LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => Some(at.to_utc()),
        LocalResult::None => end_of_gap(civil, zone),
    }
}

/// The moment at which the clock jumps over `civil`. No jump is longer than a day.
fn end_of_gap(civil: NaiveDateTime, zone: Tz) -> Option<DateTime<Utc>> {
    let offset = |at: DateTime<Utc>| zone.offset_from_utc_datetime(&at.naive_utc()).fix();
    // No offset is more than 15 hours, so the one of then lies before the jump.
    let mut before = civil.and_utc().checked_sub_signed(TimeDelta::hours(40))?;
    let old = offset(before);
    let mut after = civil.and_utc().checked_sub_signed(TimeDelta::seconds(old.local_minus_utc().into()))?;
    while after - before > TimeDelta::seconds(1) {
        let middle = before + TimeDelta::seconds((after - before).num_seconds() / 2);
        if offset(middle) == old {
            before = middle;
        } else {
            after = middle;
        }
    }
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_a_zone_in_three_ways() {
        for (value, expected) in [
            ("Asia/Tokyo", Some(Tz::Asia__Tokyo)),
            (":Europe/Berlin", Some(Tz::Europe__Berlin)),
            (":/usr/share/zoneinfo/Europe/Berlin", Some(Tz::Europe__Berlin)),
            ("UTC", Some(Tz::UTC)),
            ("CET-1CEST,M3.5.0,M10.5.0/3", None),
            ("", None),
        ] {
            assert_eq!(zone_of_variable(value), expected, "{value:?}");
        }
    }
}
