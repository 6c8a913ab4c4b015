//! Lets the user inspect and change the ledger.

use async_trait::async_trait;
use nanobot_bus::{BusError, EntryState, Ledger, LedgerEntry, LedgerFilter, Queue, Queued};
use nanobot_types::{ChannelName, InboundMessage, OutboundMessage};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::{SqliteBus, rows};
use crate::database::Durability;

/// Columns of a listed row, in the order that [`show`] reads them.
const COLUMNS: &str = "id, queue, state, why, attempts, accepted_at, body";

#[async_trait]
impl Ledger for SqliteBus {
    async fn list(
        &self,
        queue: Queue,
        filter: LedgerFilter,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, BusError> {
        self.db
            .write(Durability::Process, move |connection| {
                list(connection, queue, filter, limit)
            })
            .await
            .map_err(|refusal| refusal.bus("list the ledger"))
    }

    async fn show(&self, id: &str) -> Result<LedgerEntry, BusError> {
        let entry = number(id)?;
        self.db
            .write(Durability::Process, move |connection| {
                connection
                    .prepare_cached(&format!("SELECT {COLUMNS} FROM ledger WHERE id = ?1"))?
                    .query_row([entry], show)
                    .optional()
            })
            .await
            .map_err(|refusal| refusal.bus("show a ledger entry"))?
            .ok_or_else(|| BusError::Unknown { id: id.to_owned() })
    }

    async fn retry(&self, id: &str) -> Result<(), BusError> {
        let entry = number(id)?;
        let consumers = std::sync::Arc::clone(&self.consumers);
        self.db
            .write_then(
                Durability::Power,
                move |connection| match place(connection, entry)? {
                    Some((_, channel)) => Ok(rows::retry(connection, entry)?.map(|()| channel)),
                    None => Ok(Err(BusError::Unknown {
                        id: entry.to_string(),
                    })),
                },
                move |retried| {
                    if let Ok(channel) = retried {
                        consumers.wake(channel.as_ref());
                    }
                },
            )
            .await
            .map_err(|refusal| refusal.bus("retry a ledger entry"))?
            .map(drop)
    }

    async fn discard(&self, id: &str) -> Result<(), BusError> {
        let entry = number(id)?;
        let now = self.db.clock().now();
        self.db
            .write(Durability::Power, move |connection| {
                match place(connection, entry)? {
                    Some((queue, _)) => rows::discard(connection, queue, entry, now),
                    None => Ok(Err(BusError::Unknown {
                        id: entry.to_string(),
                    })),
                }
            })
            .await
            .map_err(|refusal| refusal.bus("discard a ledger entry"))?
    }
}

/// Parses a ledger id into the number of its row.
fn number(id: &str) -> Result<u64, BusError> {
    id.parse()
        .map_err(|_not_a_number| BusError::Unknown { id: id.to_owned() })
}

/// Returns the queue of an entry, and its channel if the queue is the outbound one.
fn place(
    connection: &Connection,
    entry: u64,
) -> rusqlite::Result<Option<(Queue, Option<ChannelName>)>> {
    connection
        .prepare_cached("SELECT queue, consumer FROM ledger WHERE id = ?1")?
        .query_row([entry], |row| {
            let consumer: String = row.get(1)?;
            let queue = queue(row, 0)?;
            Ok((queue, (queue == Queue::Outbound).then(|| consumer.into())))
        })
        .optional()
}

fn list(
    connection: &Connection,
    queue: Queue,
    filter: LedgerFilter,
    limit: usize,
) -> rusqlite::Result<Vec<LedgerEntry>> {
    let states: Vec<_> = EntryState::ALL
        .into_iter()
        .filter(|state| filter.admits(*state))
        .map(|state| format!("'{state}'"))
        .collect();
    // The plus keeps SQLite from using the index on names: rows are read from the newest down, so
    // nothing has to be sorted.
    let statement = format!(
        "SELECT {COLUMNS} FROM ledger WHERE +queue = ?1 AND state IN ({}) ORDER BY id DESC LIMIT ?2",
        states.join(", ")
    );
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    connection
        .prepare_cached(&statement)?
        .query_map((rows::queue_name(queue), limit), show)?
        .collect()
}

fn show(row: &Row<'_>) -> rusqlite::Result<LedgerEntry> {
    let accepted_at: String = row.get(5)?;
    let accepted_at =
        chrono::DateTime::parse_from_rfc3339(&accepted_at).map_err(|error| unreadable(5, error))?;
    let id: u64 = row.get(0)?;
    let mut entry = LedgerEntry {
        id: id.to_string(),
        state: rows::state(row, 2)?,
        why: row.get(3)?,
        attempts: row.get(4)?,
        accepted_at,
        inbound: None,
        outbound: None,
    };
    let body: String = row.get(6)?;
    match queue(row, 1)? {
        Queue::Inbound => fill::<InboundMessage>(&mut entry, &body),
        Queue::Outbound => fill::<OutboundMessage>(&mut entry, &body),
    }
    Ok(entry)
}

/// Adds the message to the entry. If it cannot be parsed, the entry's reason says so.
fn fill<T: Queued>(entry: &mut LedgerEntry, body: &str) {
    match serde_json::from_str::<T>(body) {
        Ok(message) => message.show_in(entry),
        Err(error) => {
            entry
                .why
                .get_or_insert_with(|| format!("the stored message cannot be read: {error}"));
        }
    }
}

fn queue(row: &Row<'_>, column: usize) -> rusqlite::Result<Queue> {
    let word: String = row.get(column)?;
    [Queue::Inbound, Queue::Outbound]
        .into_iter()
        .find(|queue| rows::queue_name(*queue) == word)
        .ok_or_else(|| unreadable(column, format!("no queue is called {word:?}")))
}

fn unreadable(
    column: usize,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}
