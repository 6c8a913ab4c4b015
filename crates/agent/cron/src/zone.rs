//! Time zones by their IANA names.
//!
//! Decision: the rules are those that `jiff` brings along, as bytes that are read when a zone is asked
//! for. Tables of them in the program would be changed by the loader at every start, whatever is run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{LazyLock, Mutex, PoisonError};

use chrono::{
    DateTime, Datelike as _, FixedOffset, LocalResult, NaiveDate, NaiveDateTime, NaiveTime,
    Offset as _, Timelike as _, Utc,
};
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

use crate::ScheduleError;

static UTC_RULES: TimeZone = TimeZone::UTC;

/// Whose rules were read already. There are some six hundred zones, so they are kept for good.
static KNOWN: LazyLock<Mutex<BTreeMap<String, Zone>>> = LazyLock::new(Mutex::default);

/// A time zone with the rules of its clocks, as the time zone database tells them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Zone(&'static TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(&UTC_RULES);

    /// Its IANA name, in the letters of the database.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.iana_name().unwrap_or("UTC")
    }

    fn named(name: &str) -> Option<Self> {
        let rules = TimeZoneDatabase::bundled().get(name).ok()?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let name = rules.iana_name()?.to_owned();
        Some(
            *known
                .entry(name)
                .or_insert_with(|| Self(Box::leak(Box::new(rules)))),
        )
    }

    fn local(self, offset: Offset) -> LocalOffset {
        let fixed = FixedOffset::east_opt(offset.seconds()).unwrap_or_else(|| Utc.fix());
        LocalOffset { zone: self, fixed }
    }

    /// What a clock that shows `civil` is away from UTC; `None` in years that nobody counts.
    fn offset_of(self, civil: NaiveDateTime) -> Option<AmbiguousOffset> {
        let (date, time) = (civil.date(), civil.time());
        let part = |number: u32| i8::try_from(number).ok();
        let date = civil::Date::new(
            i16::try_from(date.year()).ok()?,
            part(date.month())?,
            part(date.day())?,
        )
        .ok()?;
        let time = civil::Time::new(
            part(time.hour())?,
            part(time.minute())?,
            part(time.second())?,
            0,
        )
        .ok()?;
        Some(
            self.0
                .to_ambiguous_timestamp(date.to_datetime(time))
                .offset(),
        )
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// How far a zone's clock is from UTC at some time.
#[derive(Clone, Copy, Debug)]
pub struct LocalOffset {
    zone: Zone,
    fixed: FixedOffset,
}

impl chrono::Offset for LocalOffset {
    fn fix(&self) -> FixedOffset {
        self.fixed
    }
}

impl chrono::TimeZone for Zone {
    type Offset = LocalOffset;

    fn from_offset(offset: &LocalOffset) -> Self {
        offset.zone
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> LocalResult<LocalOffset> {
        self.offset_from_local_datetime(&local.and_time(NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> LocalResult<LocalOffset> {
        match self.offset_of(*local) {
            Some(AmbiguousOffset::Unambiguous { offset }) => {
                LocalResult::Single(self.local(offset))
            }
            Some(AmbiguousOffset::Fold { before, after }) => {
                LocalResult::Ambiguous(self.local(before), self.local(after))
            }
            Some(AmbiguousOffset::Gap { .. }) | None => LocalResult::None,
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> LocalOffset {
        self.offset_from_utc_datetime(&utc.and_time(NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> LocalOffset {
        let at = Timestamp::from_second(utc.and_utc().timestamp());
        self.local(at.map_or(Offset::UTC, |at| self.0.to_offset(at)))
    }
}

/// The zone of that name, in letters of either case.
///
/// # Errors
/// [`ScheduleError::Zone`] when there is none.
pub fn zone_named(name: &str) -> Result<Zone, ScheduleError> {
    Zone::named(name.trim()).ok_or_else(|| ScheduleError::Zone {
        name: name.to_owned(),
    })
}

/// The zone of this process: the one that `TZ` names, otherwise that of the computer; UTC where neither
/// can be told. A container has no zone but `TZ`.
#[must_use]
pub fn host_zone() -> Zone {
    let said = std::env::var("TZ")
        .ok()
        .and_then(|value| zone_of_variable(&value));
    let computers = || {
        iana_time_zone::get_timezone()
            .ok()
            .and_then(|name| Zone::named(&name))
    };
    said.or_else(computers).unwrap_or(Zone::UTC)
}

/// The zone that a value of `TZ` names, as tzset(3) reads it; `None` where it gives rules instead.
fn zone_of_variable(value: &str) -> Option<Zone> {
    let file = value.strip_prefix(':').unwrap_or(value);
    Zone::named(file.strip_prefix("/usr/share/zoneinfo/").unwrap_or(file))
}

/// When a wall clock in `zone` shows `civil`: for the first time where it does so twice, and when
/// it goes on where it leaves that time out.
pub(crate) fn instant_of(civil: NaiveDateTime, zone: Zone) -> Option<DateTime<Utc>> {
    let at = |offset: Offset| civil.and_utc().timestamp() - i64::from(offset.seconds());
    let seconds = match zone.offset_of(civil)? {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            at(offset)
        }
        AmbiguousOffset::Gap { before, .. } => {
            // By the old offset it is after the jump, and no later one lies between.
            let behind = Timestamp::from_second(at(before) + 1).ok()?;
            zone.0.preceding(behind).next()?.timestamp().as_second()
        }
    };
    DateTime::from_timestamp(seconds, civil.and_utc().timestamp_subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_a_zone_in_three_ways() {
        for (value, expected) in [
            ("Asia/Tokyo", Some("Asia/Tokyo")),
            (":Europe/Berlin", Some("Europe/Berlin")),
            (":/usr/share/zoneinfo/Europe/Berlin", Some("Europe/Berlin")),
            ("UTC", Some("UTC")),
            ("CET-1CEST,M3.5.0,M10.5.0/3", None),
            ("", None),
        ] {
            assert_eq!(
                zone_of_variable(value).map(Zone::name),
                expected,
                "{value:?}"
            );
        }
    }
}
