//! Timestamps in session files: ISO 8601 in local time with microseconds and without an offset.
//!
//! This is the format of the Python program. It loses the offset, so a time in the hour that
//! daylight saving repeats is read as the first of the two. Messages are never ordered by these
//! times.

use chrono::{DateTime, Local, NaiveDateTime, TimeZone as _};
use nanobot_types::Timestamp;

/// Formats the time in local time.
pub(crate) fn render(at: &Timestamp) -> String {
    at.with_timezone(&Local)
        .format("%Y-%m-%dT%H:%M:%S%.6f")
        .to_string()
}

/// Parses the format of [`render`] and those of other programs: any fraction, or an offset.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    if let Ok(at) = DateTime::parse_from_rfc3339(text) {
        return Some(at);
    }
    let naive: NaiveDateTime = text.parse().ok()?;
    let local = Local
        .from_local_datetime(&naive)
        .earliest()
        .unwrap_or_else(|| Local.from_utc_datetime(&naive));
    Some(local.fixed_offset())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_round_trip_and_python_forms_parse() {
        let at = parse("2026-03-15T14:30:00.250000").unwrap();
        assert_eq!(render(&at), "2026-03-15T14:30:00.250000");
        assert_eq!(
            render(&parse("2026-03-15T14:30:00").unwrap()),
            "2026-03-15T14:30:00.000000"
        );
        assert_eq!(
            parse("2026-03-15T14:30:00+02:00").unwrap(),
            DateTime::parse_from_rfc3339("2026-03-15T12:30:00Z").unwrap()
        );
        assert_eq!(parse("yesterday"), None);
    }
}
