//! Reads what was spent, also while another process writes.

use std::path::Path;

use rusqlite::{Connection, params};

use crate::StateError;
use crate::database::open_read_only;

/// The key by which spending is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpendGroup {
    /// By calendar day.
    Day,
    /// By session.
    Session,
    /// By provider and model.
    Model,
    /// By scheduled job, or the heartbeat; empty for everything else.
    Job,
}

/// A sum of spending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendRow {
    /// The day, session, `provider/model` or job; empty if there is none.
    pub key: String,
    /// Number of requests.
    pub requests: u64,
    /// Number of those that gave no complete answer.
    pub failed: u64,
    /// Number of requests whose tokens were estimated.
    pub estimated: u64,
    /// Prompt tokens, with cached ones.
    pub prompt_tokens: u64,
    /// Prompt tokens from the vendor's cache.
    pub cached_tokens: u64,
    /// Prompt tokens written to the vendor's cache.
    pub cache_write_tokens: u64,
    /// Tokens of answers, with reasoning.
    pub completion_tokens: u64,
    /// Tokens of reasoning.
    pub reasoning_tokens: u64,
    /// Cost in millionths of a US dollar.
    pub micro_usd: u64,
    /// Tokens of models without a known price.
    pub unpriced_tokens: u64,
}

impl SpendRow {
    /// Returns the share of prompt tokens that came from the cache, in percent.
    #[must_use]
    pub fn cache_percent(&self) -> u64 {
        (self.cached_tokens * 100)
            .checked_div(self.prompt_tokens)
            .unwrap_or(0)
    }

    /// Adds another sum; the key stays.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.estimated += other.estimated;
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.completion_tokens += other.completion_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.micro_usd += other.micro_usd;
        self.unpriced_tokens += other.unpriced_tokens;
    }

    /// Formats its cost in US dollars.
    #[must_use]
    pub fn usd(&self) -> String {
        super::caps::show_usd(self.micro_usd)
    }
}

impl SpendGroup {
    fn column(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Session => "session",
            Self::Model => "provider || '/' || model",
            Self::Job => "job",
        }
    }

    /// Days from the newest, everything else from the most expensive.
    fn order(self) -> &'static str {
        match self {
            Self::Day => "1 DESC",
            Self::Session | Self::Model | Self::Job => {
                "sum(micros) DESC, sum(prompt + completion) DESC"
            }
        }
    }
}

/// Returns what was spent from `since` on, a date as `2026-11-25`. Needs no lock and changes
/// nothing. A file that does not exist, or of an older version, holds nothing. Blocks.
///
/// # Errors
/// Returns [`StateError::Newer`], [`StateError::Foreign`] or [`StateError::Database`].
pub fn read_spending(
    path: &Path,
    group: SpendGroup,
    since: &str,
) -> Result<Vec<SpendRow>, StateError> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    open_read_only(path, |connection| {
        sums(connection, group, "day >= ?1", since)
    })
}

/// Returns the sums of the rows that fulfil a condition on `?1`.
pub(super) fn sums(
    connection: &Connection,
    group: SpendGroup,
    condition: &str,
    value: &str,
) -> rusqlite::Result<Vec<SpendRow>> {
    let has_table = connection
        .prepare("SELECT 1 FROM sqlite_schema WHERE name = 'spend'")?
        .exists([])?;
    if !has_table {
        return Ok(Vec::new());
    }
    let (column, order) = (group.column(), group.order());
    let statement = format!(
        "SELECT {column}, sum(requests), sum(failed), sum(estimated), sum(prompt), sum(cached), sum(cache_write),
            sum(completion), sum(reasoning), sum(micros), sum(unpriced)
         FROM spend WHERE {condition} GROUP BY 1 ORDER BY {order}"
    );
    connection
        .prepare(&statement)?
        .query_map(params![value], |row| {
            let count = |column| -> rusqlite::Result<u64> {
                Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
            };
            Ok(SpendRow {
                key: row.get(0)?,
                requests: count(1)?,
                failed: count(2)?,
                estimated: count(3)?,
                prompt_tokens: count(4)?,
                cached_tokens: count(5)?,
                cache_write_tokens: count(6)?,
                completion_tokens: count(7)?,
                reasoning_tokens: count(8)?,
                micro_usd: count(9)?,
                unpriced_tokens: count(10)?,
            })
        })?
        .collect()
}
