//! Schedules compared with a model that checks one second after the other.
//!
//! The model knows nothing of expressions: it holds the values that a random schedule matches. It
//! steps through elapsed time and asks another implementation of time zones (`chrono-tz`) what the
//! clock shows. Hours on days that cannot match are skipped.

use std::collections::BTreeSet;

use chrono::{
    DateTime, Datelike as _, NaiveDate, NaiveDateTime, TimeDelta, TimeZone as _, Timelike as _, Utc,
};
use chrono_tz::Tz;
use nanobot_cron::{Schedule, zone_named};

/// Environment variable for testing more schedules than by default.
const COUNT_VARIABLE: &str = "NANOBOT_CRON_SCHEDULES";
const COUNT: u64 = 2_000;
const ZONES: [Tz; 10] = [
    Tz::UTC,
    Tz::Europe__Berlin,
    Tz::America__New_York,
    Tz::America__Sao_Paulo,
    Tz::Asia__Kathmandu,
    Tz::Asia__Shanghai,
    Tz::Australia__Lord_Howe,
    Tz::Pacific__Apia,
    Tz::Africa__Cairo,
    Tz::Pacific__Chatham,
];
/// Days that the model searches.
const DAYS: i64 = 400;

/// A deterministic random number generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(bound)).unwrap()
    }

    /// Returns a field and the values that it matches; `None` for all.
    fn field(&mut self, lowest: u32, highest: u32) -> (String, Option<BTreeSet<u32>>) {
        let span = highest - lowest + 1;
        let value = lowest + self.below(span);
        match self.below(5) {
            0 => ("*".to_owned(), None),
            1 => {
                let step = 2 + self.below(span);
                (
                    format!("*/{step}"),
                    Some((lowest..=highest).step_by(step as usize).collect()),
                )
            }
            2 => {
                let last = value + self.below(highest - value + 1);
                (format!("{value}-{last}"), Some((value..=last).collect()))
            }
            3 => {
                let other = lowest + self.below(span);
                (format!("{value},{other}"), Some([value, other].into()))
            }
            _ => (value.to_string(), Some([value].into())),
        }
    }
}

struct Model {
    text: String,
    zone: Tz,
    names_hours: bool,
    second: Option<BTreeSet<u32>>,
    minute: Option<BTreeSet<u32>>,
    hour: Option<BTreeSet<u32>>,
    day: Option<BTreeSet<u32>>,
    month: Option<BTreeSet<u32>>,
    weekday: Option<BTreeSet<u32>>,
}

fn admits(field: &Option<BTreeSet<u32>>, value: u32) -> bool {
    field.as_ref().is_none_or(|values| values.contains(&value))
}

impl Model {
    fn random(dice: &mut Dice) -> Self {
        let zone = *ZONES.get(dice.below(10) as usize).unwrap();
        let (minute, hour) = (dice.field(0, 59), dice.field(0, 23));
        let (day, month, weekday) = (dice.field(1, 31), dice.field(1, 12), dice.field(0, 6));
        let mut text = format!(
            "{} {} {} {} {}",
            minute.0, hour.0, day.0, month.0, weekday.0
        );
        let second = if dice.below(4) == 0 {
            let second = dice.field(0, 59);
            text = format!("{text} {}", second.0);
            second.1
        } else {
            Some([0].into())
        };
        let has_one_hour = hour.1.as_ref().is_some_and(|hours| hours.len() == 1);
        let names_hours = !hour.0.starts_with('*') || has_one_hour;
        Self {
            text,
            zone,
            names_hours,
            second,
            minute: minute.1,
            hour: hour.1,
            day: day.1,
            month: month.1,
            weekday: weekday.1,
        }
    }

    fn admits_date(&self, date: NaiveDate) -> bool {
        let day = admits(&self.day, date.day());
        let weekday = admits(&self.weekday, date.weekday().num_days_from_sunday());
        let either = if self.day.is_some() && self.weekday.is_some() {
            day || weekday
        } else {
            day && weekday
        };
        either && admits(&self.month, date.month())
    }

    fn admits_minute(&self, civil: NaiveDateTime) -> bool {
        self.admits_date(civil.date())
            && admits(&self.hour, civil.hour())
            && admits(&self.minute, civil.minute())
    }

    fn civil(&self, at: DateTime<Utc>) -> NaiveDateTime {
        self.zone.from_utc_datetime(&at.naive_utc()).naive_local()
    }

    /// Returns the times that the clock skipped right before `at`, by the minute.
    fn left_out(&self, at: DateTime<Utc>) -> Vec<NaiveDateTime> {
        let (before, now) = (self.civil(at - TimeDelta::minutes(1)), self.civil(at));
        let minutes = (now - before).num_minutes();
        (1..minutes)
            .map(|minute| before + TimeDelta::minutes(minute))
            .collect()
    }

    /// Returns `true` if the clock showed this time before.
    fn is_repeated(&self, at: DateTime<Utc>) -> bool {
        let now = self.civil(at);
        (1..=8).any(|quarters| self.civil(at - TimeDelta::minutes(15 * quarters)) == now)
    }

    /// Returns the first second of a minute that is due and after `after`.
    fn first_in(&self, minute: DateTime<Utc>, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut due = BTreeSet::new();
        if self.admits_minute(self.civil(minute)) && !(self.names_hours && self.is_repeated(minute))
        {
            due.extend(self.second.clone().unwrap_or_else(|| (0..60).collect()));
        }
        // Clocks change on quarters of an hour.
        let may_jump = self.names_hours && minute.minute().is_multiple_of(15);
        if may_jump
            && self
                .left_out(minute)
                .into_iter()
                .any(|civil| self.admits_minute(civil))
        {
            due.insert(0);
        }
        due.into_iter()
            .map(|second| minute + TimeDelta::seconds(second.into()))
            .find(|at| *at > after)
    }

    fn next_after(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let end = after + TimeDelta::days(DAYS);
        let mut hour = after.with_minute(0).unwrap().with_second(0).unwrap();
        while hour < end {
            // Whatever the clock does within this hour, it shows or skips one of these dates. It
            // once skipped a whole day (Apia, 2011-12-30).
            let [first, last] =
                [-26, 2].map(|hours| self.civil(hour + TimeDelta::hours(hours)).date());
            if first
                .iter_days()
                .take_while(|date| *date <= last)
                .any(|date| self.admits_date(date))
            {
                let minutes = (0..60).map(|minute| hour + TimeDelta::minutes(minute));
                let found = minutes
                    .filter_map(|minute| self.first_in(minute, after))
                    .next();
                if found.is_some() {
                    return found;
                }
            }
            hour += TimeDelta::hours(1);
        }
        None
    }
}

#[test]
fn schedules_agree_with_a_brute_force_model() {
    let count = std::env::var(COUNT_VARIABLE)
        .ok()
        .map_or(COUNT, |count| count.parse().unwrap());
    let first: DateTime<Utc> = "2010-01-01T00:00:00Z".parse().unwrap();
    for seed in 0..count {
        let mut dice = Dice(seed);
        dice.below(2);
        let model = Model::random(&mut dice);
        let schedule = Schedule::cron(&model.text, zone_named(model.zone.name()).unwrap()).unwrap();
        let mut at = first
            + TimeDelta::days(dice.below(8_000).into())
            + TimeDelta::seconds(dice.below(86_400).into());
        if dice.below(2) == 0 {
            at = before_change(model.zone, at).unwrap_or(at);
        }
        for _ in 0..3 {
            let found = schedule.next_after(at, at);
            let expected = model.next_after(at);
            match expected {
                Some(_) => assert_eq!(
                    found, expected,
                    "seed {seed}: {} in {} after {at}",
                    model.text, model.zone
                ),
                None => {
                    let far = found.is_none_or(|found| found >= at + TimeDelta::days(DAYS));
                    assert!(
                        far,
                        "seed {seed}: {} in {} after {at}: {found:?}",
                        model.text, model.zone
                    );
                    break;
                }
            }
            at = found.unwrap();
        }
    }
}

/// Returns a time up to three hours before the next change of a zone's clock.
fn before_change(zone: Tz, from: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let shown =
        |at: DateTime<Utc>| zone.from_utc_datetime(&at.naive_utc()).naive_local() - at.naive_utc();
    (0..400 * 24)
        .map(|hours| from + TimeDelta::hours(hours))
        .find(|at| shown(*at) != shown(*at + TimeDelta::hours(3)))
}
