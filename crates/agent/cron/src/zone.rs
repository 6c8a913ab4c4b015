//! Time zones by their IANA names.
//!
//! Decision: the rules are those bundled with `jiff`, as bytes that are parsed when a zone is
//! requested. Tables of parsed rules in the binary would have to be relocated by the loader at each
//! start, whichever command runs.

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

/// Zones whose rules were already loaded. There are about six hundred, so they are never freed.
static KNOWN: LazyLock<Mutex<BTreeMap<String, Zone>>> = LazyLock::new(Mutex::default);

/// A time zone with its rules from the time zone database.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Zone(&'static TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(&UTC_RULES);

    /// Returns its IANA name, in the spelling of the database.
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

    /// Returns the offset of a wall clock that shows `civil`; `None` for years outside the
    /// supported range.
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

/// A zone's offset from UTC at some time.
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

/// Returns the zone of a name, ignoring case.
///
/// # Errors
/// Returns [`ScheduleError::Zone`] if there is none.
pub fn zone_named(name: &str) -> Result<Zone, ScheduleError> {
    Zone::named(name.trim()).ok_or_else(|| ScheduleError::Zone {
        name: name.to_owned(),
    })
}

/// Returns the zone of this process: the one in `TZ`, otherwise the computer's, or UTC if neither
/// is known. A container has no zone but `TZ`.
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

/// Returns the zone that a value of `TZ` names, as tzset(3) reads it; `None` if it gives rules
/// instead.
fn zone_of_variable(value: &str) -> Option<Zone> {
    let file = value.strip_prefix(':').unwrap_or(value);
    Zone::named(file.strip_prefix("/usr/share/zoneinfo/").unwrap_or(file))
}

/// Returns the time at which a wall clock in `zone` shows `civil`: the first one if it does so
/// twice, and the end of the gap if the clock skips `civil`.
pub(crate) fn instant_of(civil: NaiveDateTime, zone: Zone) -> Option<DateTime<Utc>> {
    let at = |offset: Offset| civil.and_utc().timestamp() - i64::from(offset.seconds());
    let seconds = match zone.offset_of(civil)? {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            at(offset)
        }
        AmbiguousOffset::Gap { before, .. } => {
            // With the old offset, the result is after the jump, and no other transition lies in
            // between.
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
    fn tz_variable_has_three_forms() {
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
