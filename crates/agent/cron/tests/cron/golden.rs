//! Times of expressions, as the Python program computed them.

use chrono::{DateTime, Utc};
use nanobot_cron::{Schedule, time_in, zone_named};

fn utc(text: &str) -> DateTime<Utc> {
    format!("{text}:00Z")
        .parse()
        .or_else(|_| format!("{text}Z").parse())
        .unwrap()
}

fn next(expression: &str, zone: &str, after: &str) -> Option<DateTime<Utc>> {
    let after = utc(after);
    Schedule::cron(expression, zone_named(zone).unwrap())
        .ok()?
        .next_after(after, after)
}

#[test]
fn cron_expressions_match_golden_times() {
    for (expression, zone, expected) in [
        ("0 9 * * *", "UTC", Some("2026-01-01T09:00")),
        ("0 9 * * 1-5", "America/Vancouver", Some("2026-01-01T17:00")),
        ("0 0 13 * 5", "UTC", Some("2026-01-02T00:00")),
        ("*/15 * * * *", "UTC", Some("2026-01-01T00:15")),
        ("0 9 * * 0", "UTC", Some("2026-01-04T09:00")),
        ("0 9 * * 7", "UTC", Some("2026-01-04T09:00")),
        ("0 9 * * mon", "UTC", Some("2026-01-05T09:00")),
        ("@daily", "UTC", Some("2026-01-02T00:00")),
        ("0 0 L * *", "UTC", Some("2026-01-31T00:00")),
        ("0 9 * * 1#2", "UTC", Some("2026-01-12T09:00")),
        ("*/5 * * * * 30", "UTC", Some("2026-01-01T00:00:30")),
        ("0 9 ? * *", "UTC", Some("2026-01-01T09:00")),
        ("0 9 1-7 * 1", "UTC", Some("2026-01-01T09:00")),
        ("30 2 8 3 *", "America/New_York", Some("2026-03-08T07:00")),
        ("0 0 1 1 * 0 2027", "UTC", Some("2027-01-01T00:00")),
        ("0 9 * * 5L", "UTC", None),
        ("61 * * * *", "UTC", None),
        ("bad bad", "UTC", None),
        // Not from the Python program: extensions of the dialect.
        ("0 9 * * L5", "UTC", Some("2026-01-30T09:00")),
        ("0 9 * * fri-mon", "UTC", Some("2026-01-02T09:00")),
        ("5/20 * * * *", "UTC", Some("2026-01-01T00:05")),
        ("0 0 1 JAN,Jul *", "UTC", Some("2026-07-01T00:00")),
        ("0 9 * * Mon#2", "UTC", Some("2026-01-12T09:00")),
        ("0 0 30 2 *", "UTC", None),
        ("*/0 * * * *", "UTC", None),
        ("0 9 15W * *", "UTC", None),
        ("0 9 1 * +1", "UTC", None),
        ("", "UTC", None),
    ] {
        assert_eq!(
            next(expression, zone, "2026-01-01T00:00"),
            expected.map(utc),
            "{expression}"
        );
    }
}

#[test]
fn named_times_fire_once_across_clock_changes() {
    for (expression, zone, after, expected) in [
        // New York goes back at 06:00 UTC on 1 November 2026: 01:30 occurs twice.
        (
            "30 1 * * *",
            "America/New_York",
            "2026-11-01T05:00",
            "2026-11-01T05:30",
        ),
        (
            "30 1 * * *",
            "America/New_York",
            "2026-11-01T05:30",
            "2026-11-02T06:30",
        ),
        (
            "0,30 1 * * *",
            "America/New_York",
            "2026-11-01T05:30",
            "2026-11-02T06:00",
        ),
        // An expression without fixed hours follows elapsed time.
        (
            "30 * * * *",
            "America/New_York",
            "2026-11-01T05:30",
            "2026-11-01T06:30",
        ),
        // Berlin goes forward at 01:00 UTC on 29 March 2026: 02:00 to 02:59 are skipped.
        (
            "0,30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T00:30",
            "2026-03-29T01:00",
        ),
        (
            "0,30 2 * * *",
            "Europe/Berlin",
            "2026-03-29T01:00",
            "2026-03-30T00:00",
        ),
        (
            "15 * * * *",
            "Europe/Berlin",
            "2026-03-29T00:20",
            "2026-03-29T01:15",
        ),
        (
            "0 9 * * *",
            "Europe/Berlin",
            "2026-03-28T09:00",
            "2026-03-29T07:00",
        ),
        // Cairo skips the hour after midnight, the only hour that a step of more than a day
        // matches.
        (
            "24 */25 * * *",
            "Africa/Cairo",
            "2023-04-27T19:52",
            "2023-04-27T22:00",
        ),
        (
            "0,30 */24 * * *",
            "Africa/Cairo",
            "2023-04-27T19:52",
            "2023-04-27T22:00",
        ),
        // Lord Howe Island changes its clocks by half an hour.
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03T12:00",
            "2026-10-03T15:30",
        ),
        // Samoa skipped a whole day, 30 December 2011.
        (
            "0 9 30 12 *",
            "Pacific/Apia",
            "2011-12-29T00:00",
            "2011-12-30T10:00",
        ),
    ] {
        assert_eq!(
            next(expression, zone, after),
            Some(utc(expected)),
            "{expression} in {zone} after {after}"
        );
    }
}

#[test]
fn interval_stays_aligned_to_its_anchor() {
    let every = Schedule::every_ms(60_000).unwrap();
    let anchor = utc("2026-01-01T00:00");
    for (after, expected) in [
        ("2026-01-01T00:00", "2026-01-01T00:01"),
        ("2026-01-01T00:00:59", "2026-01-01T00:01"),
        ("2026-01-01T03:00", "2026-01-01T03:01"),
        ("2025-12-31T23:00", "2026-01-01T00:00"),
    ] {
        assert_eq!(
            every.next_after(utc(after), anchor),
            Some(utc(expected)),
            "{after}"
        );
    }
    assert!(Schedule::every_ms(999).is_err());
    assert!(
        Schedule::every_ms(i64::MAX).is_ok_and(|every| every.next_after(anchor, anchor).is_none())
    );
}

#[test]
fn parses_times_with_and_without_seconds_and_offsets() {
    let tokyo = zone_named("Asia/Tokyo").unwrap();
    for (text, expected) in [
        ("2026-12-24T18:00", "2026-12-24T09:00:00Z"),
        ("2026-12-24 18:00:30", "2026-12-24T09:00:30Z"),
        ("2026-12-24", "2026-12-23T15:00:00Z"),
        ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00Z"),
        ("2026-12-24T18:00+01:00", "2026-12-24T17:00:00Z"),
        ("2026-12-24T18:00Z", "2026-12-24T18:00:00Z"),
        ("2026-12-24 18:00:30-0530", "2026-12-24T23:30:30Z"),
    ] {
        assert_eq!(
            time_in(text, tokyo),
            Ok(expected.parse().unwrap()),
            "{text}"
        );
    }
    for text in [
        "",
        "18:00",
        "tomorrow",
        "2027-02-29",
        "2026-12-24T25:00",
        "2026-12-24T18:00+25:00:00",
    ] {
        assert!(time_in(text, tokyo).is_err(), "{text}");
    }
}
