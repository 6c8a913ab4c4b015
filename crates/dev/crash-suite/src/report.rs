//! The results of checks, and their display.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A property that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Property {
    /// Earlier records are a prefix of later ones, on disk and in requests.
    PrefixContinuation,
    /// A recorded effect is never repeated; one without a record is reported as unknown.
    EffectOnce,
    /// If processes race for a home, a turn is still processed once.
    ConsumeOnce,
    /// Everything on disk loads, and the request built from it is valid.
    CheckpointValidity,
    /// The same files lead to the same next request, byte for byte.
    RecoveryDeterminism,
    /// Copies of a home all continue identically.
    ForkDeterminism,
    /// Every acknowledged message is recorded once and ends visibly, or is listed with a reason.
    NothingLost,
}

impl Property {
    /// All properties, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::PrefixContinuation,
        Self::EffectOnce,
        Self::ConsumeOnce,
        Self::CheckpointValidity,
        Self::RecoveryDeterminism,
        Self::ForkDeterminism,
        Self::NothingLost,
    ];
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PrefixContinuation => "prefix continuation",
            Self::EffectOnce => "effect once",
            Self::ConsumeOnce => "consume once",
            Self::CheckpointValidity => "checkpoint validity",
            Self::RecoveryDeterminism => "recovery determinism",
            Self::ForkDeterminism => "fork determinism",
            Self::NothingLost => "nothing lost",
        })
    }
}

/// A property that was violated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteFailure {
    /// The violated property.
    pub property: Property,
    /// The round.
    pub round: u64,
    /// The kill in that round after which it was detected, from 0.
    pub kill: u32,
    /// Description of the violation.
    pub what: String,
}

/// Counts in addition to the properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Processes killed.
    pub kills: u64,
    /// Messages from users.
    pub messages: u64,
    /// Requests to the model.
    pub requests: u64,
    /// Calls whose outcome was reported as unknown.
    pub unknown_outcomes: u64,
    /// Kills between the beginning of a send and its record.
    pub kills_in_send: u64,
    /// Messages seen twice, each after a kill during its first send.
    pub duplicates: u64,
    /// Messages listed as uncertain.
    pub uncertain: u64,
    /// Messages from users listed as failed.
    pub given_up: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.messages += other.messages;
        self.requests += other.requests;
        self.unknown_outcomes += other.unknown_outcomes;
        self.kills_in_send += other.kills_in_send;
        self.duplicates += other.duplicates;
        self.uncertain += other.uncertain;
        self.given_up += other.given_up;
    }
}

/// Result of checking one or more rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuiteReport {
    /// Number of checks of each property, in the order of [`Property::ALL`].
    pub checked: [u64; Property::ALL.len()],
    /// All violations, in order.
    pub failures: Vec<SuiteFailure>,
    /// Other counts.
    pub tally: Tally,
}

impl SuiteReport {
    /// Returns `true` if there are no failures.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }

    /// Returns the number of checks of a property.
    #[must_use]
    pub fn checked(&self, property: Property) -> u64 {
        Property::ALL
            .iter()
            .zip(self.checked)
            .find(|(known, _)| **known == property)
            .map_or(0, |(_, count)| count)
    }

    /// Returns the violations of a property.
    pub fn failures_of(&self, property: Property) -> impl Iterator<Item = &SuiteFailure> {
        self.failures
            .iter()
            .filter(move |failure| failure.property == property)
    }

    /// Adds the results of another check.
    pub fn merge(&mut self, other: Self) {
        for (count, more) in self.checked.iter_mut().zip(other.checked) {
            *count += more;
        }
        self.failures.extend(other.failures);
        self.tally.add(&other.tally);
    }

    pub(crate) fn count(&mut self, property: Property) {
        let place = Property::ALL.iter().position(|known| *known == property);
        if let Some(count) = place.and_then(|place| self.checked.get_mut(place)) {
            *count += 1;
        }
    }
}

impl fmt::Display for SuiteReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| property | checked | failures | first failure |")?;
        writeln!(f, "|---|---:|---:|---|")?;
        for property in Property::ALL {
            let first = self.failures_of(property).next();
            let first = first.map_or_else(
                || "–".to_owned(),
                |it| format!("round {}, kill {}", it.round, it.kill),
            );
            let (checked, failures) = (self.checked(property), self.failures_of(property).count());
            writeln!(
                f,
                "| {property:<20} | {checked:>7} | {failures:>3} | {first} |"
            )?;
        }
        let Tally {
            kills,
            messages,
            requests,
            unknown_outcomes,
            kills_in_send,
            duplicates,
            uncertain,
            given_up,
        } = self.tally;
        writeln!(f)?;
        writeln!(
            f,
            "{kills} kills, {messages} messages, {requests} model requests."
        )?;
        writeln!(
            f,
            "{unknown_outcomes} calls ended as \"outcome unknown\". {kills_in_send} kills fell inside a send: \
             {uncertain} messages are listed as uncertain, {duplicates} were seen twice."
        )?;
        write!(f, "{given_up} messages were given up with a reason.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_reports_show_the_first_failure() {
        let failure = |round, kill| SuiteFailure {
            property: Property::EffectOnce,
            round,
            kill,
            what: "twice".to_owned(),
        };
        let mut sum = SuiteReport::default();
        for (round, kill) in [(3, 7), (4, 1)] {
            let mut report = SuiteReport {
                failures: vec![failure(round, kill)],
                ..SuiteReport::default()
            };
            report.count(Property::EffectOnce);
            report.tally.kills = 25;
            sum.merge(report);
        }
        assert!(!sum.is_clean());
        assert_eq!(
            (
                sum.checked(Property::EffectOnce),
                sum.checked(Property::NothingLost)
            ),
            (2, 0)
        );
        let table = sum.to_string();
        assert!(
            table.contains("| effect once          |       2 |   2 | round 3, kill 7 |"),
            "{table}"
        );
        assert!(table.contains("50 kills"), "{table}");
    }
}
