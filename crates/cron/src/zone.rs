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

/// The zone of this computer; UTC where that cannot be told.
#[must_use]
pub fn host_zone() -> Tz {
    iana_time_zone::get_timezone().ok().and_then(|name| name.parse().ok()).unwrap_or(Tz::UTC)
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
