//! `nanobot usage`: what model requests cost, by day, session, model or job.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use nanobot_runtime::{RuntimeBuilder, SpendGroup, SpendRow, spending};
use serde_json::json;

use crate::failure::CommandFailure;
use crate::output::{self, sanitize};
use crate::serve;

/// Headings of the columns after the key.
const HEADINGS: [&str; 6] = ["REQUESTS", "IN", "CACHED", "OUT", "USD", "UNPRICED"];

/// Options of `usage`.
#[derive(Debug, Args)]
pub(crate) struct UsageArguments {
    /// Sum up by day, session, model, or scheduled job
    #[arg(long, value_enum, default_value_t = UsageKey::Day)]
    by: UsageKey,
    /// Number of calendar days, today included
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    days: u32,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// The key by which usage is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UsageKey {
    Day,
    Session,
    Model,
    Job,
}

impl UsageKey {
    fn group(self) -> SpendGroup {
        match self {
            Self::Day => SpendGroup::Day,
            Self::Session => SpendGroup::Session,
            Self::Model => SpendGroup::Model,
            Self::Job => SpendGroup::Job,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Session => "session",
            Self::Model => "model",
            Self::Job => "job",
        }
    }
}

/// Prints what was spent. Needs no gateway, and may run beside one.
///
/// # Errors
/// Returns an error if the state database cannot be read.
pub(crate) fn usage(
    program: &RuntimeBuilder,
    arguments: &UsageArguments,
) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    serve::warn_of_findings(runtime.config());
    let rows = spending(&runtime, arguments.by.group(), arguments.days)?;
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(|row| entry(arguments.by, row)).collect();
        let report = json!({ "days": arguments.days, "by": arguments.by.name(), "rows": rows });
        output::line(&super::json(&report).map_err(std::io::Error::from)?)?;
    } else if rows.is_empty() {
        output::line("No model requests are recorded for these days.")?;
    } else {
        output::write(&table(arguments.by, &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn entry(by: UsageKey, row: &SpendRow) -> serde_json::Value {
    json!({
        by.name(): row.key,
        "requests": row.requests,
        "failed": row.failed,
        "estimated": row.estimated,
        "promptTokens": row.prompt_tokens,
        "cachedTokens": row.cached_tokens,
        "cacheWriteTokens": row.cache_write_tokens,
        "completionTokens": row.completion_tokens,
        "reasoningTokens": row.reasoning_tokens,
        "cachePercent": row.cache_percent(),
        "microUsd": row.micro_usd,
        "unpricedTokens": row.unpriced_tokens,
    })
}

fn table(by: UsageKey, rows: &[SpendRow]) -> String {
    let name = |row: &SpendRow| match row.key.as_str() {
        "" => "–".to_owned(),
        key => sanitize(key),
    };
    let mut lines = vec![(by.name().to_uppercase(), HEADINGS.map(str::to_owned))];
    lines.extend(rows.iter().map(|row| (name(row), cells(row))));
    let mut sum = SpendRow::default();
    for row in rows {
        sum.add(row);
    }
    if rows.len() > 1 {
        lines.push(("total".to_owned(), cells(&sum)));
    }
    let first = lines.iter().map(|(key, _)| key.chars().count()).max();
    let mut widths = [0; HEADINGS.len()];
    for (_, cells) in &lines {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.len().max(*width);
        }
    }
    let mut text = String::new();
    for (key, cells) in &lines {
        text.push_str(&format!("{key:<0$}", first.unwrap_or_default()));
        for (width, cell) in widths.iter().zip(cells) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        text.push('\n');
    }
    text
}

fn cells(row: &SpendRow) -> [String; 6] {
    [
        row.requests.to_string(),
        row.prompt_tokens.to_string(),
        format!("{} %", row.cache_percent()),
        row.completion_tokens.to_string(),
        row.usd(),
        row.unpriced_tokens.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_aligned_and_has_a_total() {
        let row = |key: &str, prompt_tokens, micro_usd| SpendRow {
            key: key.to_owned(),
            requests: 1,
            prompt_tokens,
            cached_tokens: prompt_tokens / 2,
            micro_usd,
            ..SpendRow::default()
        };
        let rows = [row("cron:a", 1000, 1_230_000), row("", 10, 0)];
        assert_eq!(
            table(UsageKey::Job, &rows),
            "JOB     REQUESTS    IN  CACHED  OUT   USD  UNPRICED\n\
             cron:a         1  1000    50 %    0  1.23         0\n\
             –              1    10    50 %    0  0.00         0\n\
             total          2  1010    50 %    0  1.23         0\n"
        );
    }
}
