//! Parser for cron expressions in the dialect of the Python program.
//!
//! Decision: each field is parsed here into the values that it matches, and `croner` is given only
//! those, so that no other dialect can slip in. The fields are the usual five, then seconds, then a
//! year. Sunday is 0 or 7. If both a day of the month and a day of the week are given, either may
//! match. At a clock change, a job with fixed hours runs once for each of its times, and any other
//! job follows elapsed time.

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::parser::CronParser;

use crate::zone::{Zone, instant_of};

/// Maximum number of wall-clock times that are skipped because they turn out to have passed. More
/// than an hour has seconds.
const MAX_PAST: u32 = 10_000;

/// Maximum length of an expression, in bytes. A list of all minutes and all seconds fits. Each item
/// may expand to a hundred values.
const LENGTH_LIMIT: usize = 1000;

/// Names and limits of one field.
struct Field {
    name: &'static str,
    lowest: u32,
    highest: u32,
    names: &'static [&'static str],
}

const MINUTE: Field = Field {
    name: "minute",
    lowest: 0,
    highest: 59,
    names: &[],
};
const HOUR: Field = Field {
    name: "hour",
    lowest: 0,
    highest: 23,
    names: &[],
};
const DAY: Field = Field {
    name: "day of month",
    lowest: 1,
    highest: 31,
    names: &[],
};
const MONTH: Field = Field {
    name: "month",
    lowest: 1,
    highest: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAY: Field = Field {
    name: "day of week",
    lowest: 0,
    highest: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};
const SECOND: Field = Field {
    name: "second",
    lowest: 0,
    highest: 59,
    names: &[],
};
const YEAR: Field = Field {
    name: "year",
    lowest: 1970,
    highest: 2099,
    names: &[],
};

/// A parsed expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expression {
    cron: Cron,
    names_hours: bool,
}

impl Expression {
    /// Parses an expression. The error is a message for its author.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LENGTH_LIMIT {
            return Err(format!("it is longer than {LENGTH_LIMIT} bytes"));
        }
        let text = text.trim().to_ascii_lowercase();
        let text = match text.as_str() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let parts: Vec<&str> = text.split_whitespace().collect();
        let (minute, hour, day, month, weekday, second, year) = match *parts.as_slice() {
            [minute, hour, day, month, weekday] => (minute, hour, day, month, weekday, "0", "*"),
            [minute, hour, day, month, weekday, second] => {
                (minute, hour, day, month, weekday, second, "*")
            }
            [minute, hour, day, month, weekday, second, year] => {
                (minute, hour, day, month, weekday, second, year)
            }
            _ => {
                return Err(format!(
                    "it has {} fields instead of 5 (or 6 with seconds at the end)",
                    parts.len()
                ));
            }
        };
        let hours = HOUR.read(hour)?;
        // `*/24` and larger steps match one hour a day.
        let has_many_hours = hours == "*" || hours.contains(',');
        let names_hours = !(hour.starts_with('*') && has_many_hours);
        let canonical = [
            SECOND.read(second)?,
            MINUTE.read(minute)?,
            hours,
            DAY.read(day)?,
            MONTH.read(month)?,
            WEEKDAY.read(weekday)?,
            // Without an end, a day that never occurs would be searched for over thousands of
            // years.
            YEAR.read(if year == "*" { "1970-2099" } else { year })?,
        ];
        let cron = CronParser::new()
            .parse(&canonical.join(" "))
            .map_err(|error| error.to_string())?;
        Ok(Self { cron, names_hours })
    }

    /// Returns the first matching time after `after` by a clock in `zone`; `None` if there is none
    /// before the year 2100.
    pub(crate) fn next_after(&self, after: DateTime<Utc>, zone: Zone) -> Option<DateTime<Utc>> {
        let local = after.with_timezone(&zone);
        if !self.names_hours {
            return Some(self.cron.find_next_occurrence(&local, false).ok()?.to_utc());
        }
        let mut civil = local.naive_local();
        for _ in 0..MAX_PAST {
            civil = self
                .cron
                .find_next_occurrence(&civil.and_utc(), false)
                .ok()?
                .naive_utc();
            let at = instant_of(civil, zone)?;
            if at > after {
                return Some(at);
            }
        }
        None
    }
}

impl Field {
    /// Expands the field to a list of its values, or `*`.
    fn read(&self, text: &str) -> Result<String, String> {
        let is_day = matches!(self.name, "day of month" | "day of week");
        if matches!(text, "*" | "*/1") || (text == "?" && is_day) {
            return Ok("*".to_owned());
        }
        let mut values: Vec<String> = Vec::new();
        for item in text.split(',') {
            values.extend(
                self.item(item)
                    .ok_or_else(|| format!("{item:?} is not a valid {}", self.name))?,
            );
        }
        Ok(values.join(","))
    }

    fn item(&self, item: &str) -> Option<Vec<String>> {
        match self.name {
            "day of month" if item == "l" => return Some(vec!["L".to_owned()]),
            "day of week" => {
                if let Some((day, nth)) = item.split_once('#') {
                    let nth: u32 = nth.parse().ok().filter(|nth| (1..=5).contains(nth))?;
                    return Some(vec![format!("{}#{nth}", self.value(day)? % 7)]);
                }
                if let Some(day) = item.strip_prefix('l').filter(|day| !day.is_empty()) {
                    return Some(vec![format!("{}#L", self.value(day)? % 7)]);
                }
            }
            _ => {}
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, step.parse::<u32>().ok().filter(|step| *step > 0)?),
            None => (item, 1),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.lowest, self.highest),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            None if item.contains('/') => (self.value(range)?, self.highest),
            None => (self.value(range)?, self.value(range)?),
        };
        let step = usize::try_from(step).ok()?;
        let values: Vec<u32> = if first <= last {
            (first..=last).step_by(step).collect()
        } else {
            // A range that wraps around, such as Friday to Monday. It includes Sunday only once.
            let highest = if self.name == WEEKDAY.name {
                6
            } else {
                self.highest
            };
            (first..=highest)
                .chain(self.lowest..=last)
                .step_by(step)
                .collect()
        };
        let shown = |value: u32| {
            if self.name == WEEKDAY.name {
                value % 7
            } else {
                value
            }
        };
        Some(
            values
                .into_iter()
                .map(|value| shown(value).to_string())
                .collect(),
        )
    }

    fn value(&self, text: &str) -> Option<u32> {
        if let Some(position) = self.names.iter().position(|name| *name == text) {
            return self.lowest.checked_add(u32::try_from(position).ok()?);
        }
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse()
            .ok()
            .filter(|value| is_number && (self.lowest..=self.highest).contains(value))
    }
}
