//! Time zones compared with those of `chrono-tz`, which parses the same database in its own way.

use chrono::{DateTime, Offset as _, TimeDelta, TimeZone, Utc};
use chrono_tz::{TZ_VARIANTS, Tz};
use nanobot_cron::zone_named;

/// Zones whose clocks change by an hour, half an hour, two hours, at odd times, or changed by a
/// whole day.
const CHANGING: [Tz; 8] = [
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::America__Sao_Paulo,
    Tz::Australia__Lord_Howe,
    Tz::Pacific__Chatham,
    Tz::Pacific__Apia,
    Tz::Asia__Tehran,
    Tz::Antarctica__Troll,
];

/// Returns times at varying hours from 2000 to 2025. Both databases cover these years, and their
/// history no longer changes.
fn times(days_apart: i64) -> impl Iterator<Item = DateTime<Utc>> {
    let first: DateTime<Utc> = "2000-01-01T00:00:00Z".parse().unwrap();
    (0..9_000 / days_apart)
        .map(move |step| first + TimeDelta::minutes(step * (days_apart * 1_440 + 67)))
}

fn seconds<Z: TimeZone>(zone: &Z, at: DateTime<Utc>) -> i32 {
    zone.offset_from_utc_datetime(&at.naive_utc())
        .fix()
        .local_minus_utc()
}

#[test]
fn every_zone_agrees_with_the_reference() {
    for other in TZ_VARIANTS {
        let zone = zone_named(other.name()).unwrap();
        assert_eq!(zone.name(), other.name());
        for at in times(101) {
            assert_eq!(seconds(&zone, at), seconds(&other, at), "{other} at {at}");
        }
    }
}

#[test]
fn local_times_around_clock_changes_agree_with_the_reference() {
    for other in CHANGING {
        let zone = zone_named(other.name()).unwrap();
        let changes = times(7).zip(times(7).skip(1));
        for (before, after) in
            changes.filter(|(before, after)| seconds(&other, *before) != seconds(&other, *after))
        {
            for quarter in 0..(after - before).num_minutes() / 15 {
                let civil = (before + TimeDelta::minutes(15 * quarter)).naive_utc();
                let read = zone.from_local_datetime(&civil).map(|at| at.to_utc());
                let expected = other.from_local_datetime(&civil).map(|at| at.to_utc());
                assert_eq!(read, expected, "{civil} in {other}");
            }
        }
    }
}

#[test]
fn zone_names_are_case_insensitive() {
    assert_eq!(
        zone_named(" europe/BERLIN ").unwrap().to_string(),
        "Europe/Berlin"
    );
    assert_eq!(
        zone_named("Mars/Olympus").unwrap_err().to_string(),
        "unknown timezone 'Mars/Olympus'"
    );
}
