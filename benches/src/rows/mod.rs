//! The rows, one file each, and their shared parts.

mod context;
mod crowd;
mod exchange;
mod history;
mod idle;
mod page;
mod platforms;
mod prompt;
mod rounds;
mod turn;
mod version;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use crate::ProcessUsage;
use crate::programs::Programs;
use crate::table::{ReportRow, ReportTable};

/// Options of the measurement.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "measure",
    about = "Measures nanobot against floor programs and prints a table"
)]
pub struct BenchPlan {
    /// The binary to measure; by default the `nanobot` next to this program
    pub nanobot: Option<PathBuf>,
    /// Run only these measurements
    #[arg(long, value_enum, value_delimiter = ',')]
    pub only: Vec<Measurement>,
    /// Number of runs of each program
    #[arg(long, default_value_t = 21)]
    pub runs: usize,
    /// Seconds to observe the idle gateway
    #[arg(long, default_value_t = 60)]
    pub idle_seconds: u64,
}

/// One measurement, which produces one or more rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Measurement {
    /// `--version` and `--help`
    Version,
    /// One question
    Turn,
    /// Cost of each further tool round
    Rounds,
    /// A long session compared with a short one
    History,
    /// Building a request for a long session
    Context,
    /// A web page in the process that parses untrusted documents
    Page,
    /// An idle gateway
    Idle,
    /// The provider layer
    Exchange,
    /// A hundred sessions at once
    Crowd,
    /// The prompt on a terminal
    Prompt,
    /// The cost of each channel
    Platforms,
}

/// Runs the measurements.
///
/// # Errors
/// Returns an error if a program is missing or fails.
pub async fn measure(plan: &BenchPlan) -> Result<ReportTable> {
    let programs = Programs::find(plan.nanobot.as_deref())?;
    let mut table = ReportTable::default();
    for measurement in Measurement::value_variants() {
        if plan.only.is_empty() || plan.only.contains(measurement) {
            table.extend(rows(*measurement, plan, &programs).await?);
        }
    }
    Ok(table)
}

async fn rows(
    measurement: Measurement,
    plan: &BenchPlan,
    programs: &Programs,
) -> Result<Vec<ReportRow>> {
    match measurement {
        Measurement::Version => version::rows(plan, programs).await,
        Measurement::Turn => turn::rows(plan, programs).await,
        Measurement::Rounds => rounds::rows(plan, programs).await,
        Measurement::History => history::rows(plan, programs).await,
        Measurement::Context => context::rows().await,
        Measurement::Page => page::rows(plan, programs).await,
        Measurement::Idle => idle::rows(plan, programs).await,
        Measurement::Exchange => exchange::rows(plan, programs).await,
        Measurement::Crowd => crowd::rows(programs).await,
        Measurement::Prompt => prompt::rows(plan, programs).await,
        Measurement::Platforms => platforms::rows(programs).await,
    }
}

/// Resource usage of several runs of one program.
#[derive(Debug, Default)]
struct Runs(Vec<ProcessUsage>);

impl Runs {
    fn push(&mut self, usage: ProcessUsage) {
        self.0.push(usage);
    }

    fn cpu_us(&self) -> f64 {
        self.median(|usage| usage.cpu_us)
    }

    fn wall_us(&self) -> f64 {
        self.median(|usage| usage.wall_us)
    }

    fn peak_rss_kib(&self) -> f64 {
        self.median(|usage| usage.peak_rss_kib)
    }

    fn read_bytes(&self) -> f64 {
        self.median(|usage| usage.read_bytes)
    }

    fn median(&self, of: impl Fn(&ProcessUsage) -> u64) -> f64 {
        median(self.0.iter().map(|usage| u128::from(of(usage))))
    }
}

/// Returns the middle value, or the mean of the two middle ones; NaN if there is none.
fn median(values: impl Iterator<Item = u128>) -> f64 {
    let mut values: Vec<u128> = values.collect();
    values.sort_unstable();
    let upper = values.get(values.len() / 2);
    let lower = values.get(values.len().saturating_sub(1) / 2);
    match (lower, upper) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds and bytes of one process are far below 2^53"
        )]
        (Some(lower), Some(upper)) => (*lower as f64 + *upper as f64) / 2.0,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_even_count_is_the_mean_of_both_middles() {
        let runs = |times: &[u64]| {
            let usage = |cpu_us: &u64| ProcessUsage {
                exit_code: 0,
                cpu_us: *cpu_us,
                wall_us: 0,
                peak_rss_kib: 0,
                read_bytes: 0,
            };
            Runs(times.iter().map(usage).collect())
        };
        assert_eq!(runs(&[9, 1, 5]).cpu_us(), 5.0);
        assert_eq!(runs(&[9, 1, 5, 7]).cpu_us(), 6.0);
        assert!(runs(&[]).cpu_us().is_nan());
    }
}
