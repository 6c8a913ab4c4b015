//! Statements that read or change the rows of the ledger.
//!
//! Decision: [`EntryProgress`] decides which state follows which outcome; this module only loads
//! and stores it. A row whose message cannot be parsed is settled as failed when its turn comes, so
//! that it does not block the rows after it.

use nanobot_bus::{
    BusError, DeliveryProgress, EntryProgress, EntryState, Handout, Queue, Queued, SettleOutcome,
};
use nanobot_types::ChannelName;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};

use crate::clock::Millis;

/// The consumer of an entry: a queue and, for the outbound one, a channel.
#[derive(Clone, Debug)]
pub(super) struct QueueKey {
    queue: &'static str,
    consumer: String,
}

impl QueueKey {
    pub(super) fn of<T: Queued>(channel: Option<&ChannelName>) -> Self {
        Self {
            queue: queue_name(T::QUEUE),
            consumer: channel.map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// Returns the name of a queue in the rows.
pub(super) fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::Inbound => "inbound",
        Queue::Outbound => "outbound",
    }
}

/// Limits the delays that an earlier process set, and returns the number of the newest entry.
pub(super) fn resume(connection: &Connection, latest_due: Millis) -> rusqlite::Result<u64> {
    connection.execute(
        "UPDATE ledger SET due_at = ?1 WHERE due_at > 0 AND due_at > ?1",
        [latest_due],
    )?;
    connection.query_row("SELECT coalesce(max(id), 0) FROM ledger", [], |row| {
        row.get(0)
    })
}

/// Adds an entry and returns its number; `None` if an entry of this name exists.
pub(super) fn accept(
    connection: &Connection,
    place: &QueueKey,
    name: &str,
    body: &str,
) -> rusqlite::Result<Option<u64>> {
    let accepted_at = chrono::Local::now().to_rfc3339();
    // Without `RETURNING`, for which SQLite opens a temporary table each time.
    let inserted = connection
        .prepare_cached(
            "INSERT INTO ledger (queue, consumer, name, state, accepted_at, body)
             VALUES (?1, ?2, ?3, 'pending', ?4, ?5) ON CONFLICT (queue, name) DO NOTHING",
        )?
        .execute(params![
            place.queue,
            place.consumer,
            name,
            accepted_at,
            body
        ])?;
    Ok((inserted > 0).then(|| connection.last_insert_rowid().cast_unsigned()))
}

/// Value of `out` for a deferred row, until it is due.
const DEFERRED: i64 = -1;

/// Takes back all entries that are in flight to one consumer; deliveries that were begun are in
/// doubt. Entries deferred by an earlier consumer become due at once.
pub(super) fn take_back_all(connection: &Connection, place: &QueueKey) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE ledger SET in_doubt = in_doubt OR state = 'sending', state = 'pending', out = 0
             WHERE queue = ?1 AND consumer = ?2 AND out > 0 AND state IN ('pending', 'sending')",
        )?
        .execute(params![place.queue, place.consumer])?;
    connection
        .prepare_cached(
            "UPDATE ledger SET out = 0, due_at = 0 WHERE queue = ?1 AND consumer = ?2 AND due_at > 0 AND out = ?3",
        )?
        .execute(params![place.queue, place.consumer, DEFERRED])?;
    Ok(())
}

/// Takes one handout back, to be due again at `due`. Does nothing if it is no longer in flight.
pub(super) fn take_back(
    connection: &Connection,
    handout: Handout,
    due: Millis,
) -> rusqlite::Result<()> {
    if let Some(mut row) = load(connection, handout.entry)?
        && row.is_in_flight(handout)
        && row.progress.state.is_open()
    {
        row.progress.give_back();
        row.out = 0;
        row.due_at = due;
        store(connection, handout.entry, &row)?;
    }
    Ok(())
}

/// A message that was handed out.
pub(super) type TakenRow<T> = (Handout, T, DeliveryProgress);

/// Hands out the first entries of a consumer that are pending, due and not in flight, at most
/// `most` of them.
pub(super) fn hand_out<T: Queued>(
    connection: &Connection,
    place: &QueueKey,
    now: Millis,
    most: usize,
    serial: impl Fn() -> u64,
) -> rusqlite::Result<Vec<TakenRow<T>>> {
    connection
        .prepare_cached(
            "UPDATE ledger SET due_at = 0, out = 0
             WHERE queue = ?1 AND consumer = ?2 AND due_at > 0 AND due_at <= ?3",
        )?
        .execute(params![place.queue, place.consumer, now])?;
    let mut taken = Vec::new();
    while taken.len() < most {
        let ready = ready_entries(connection, place, most - taken.len())?;
        if ready.is_empty() {
            break;
        }
        for (entry, body, mut row) in ready {
            let message = match serde_json::from_str(&body) {
                Ok(message) => message,
                Err(error) if close_unreadable::<T>(connection, entry, &mut row, &error, now)? => {
                    continue;
                }
                Err(_) => return Ok(taken),
            };
            let progress = row.progress.hand_out();
            let handout = Handout {
                entry,
                serial: serial(),
                attempt: progress.attempt,
            };
            connection
                .prepare_cached("UPDATE ledger SET out = ?1 WHERE id = ?2")?
                .execute(params![handout.serial.cast_signed(), entry])?;
            taken.push((handout, message, progress));
        }
    }
    Ok(taken)
}

/// Settles an entry as failed whose message cannot be read. `false` if that does not apply.
fn close_unreadable<T: Queued>(
    connection: &Connection,
    entry: u64,
    row: &mut EntryRow,
    error: &serde_json::Error,
    now: Millis,
) -> rusqlite::Result<bool> {
    tracing::error!(
        entry,
        error = error as &dyn std::error::Error,
        "a stored message cannot be read"
    );
    let why = SettleOutcome::Fail(format!("the stored message cannot be read: {error}"));
    let DeliveryProgress { attempt, .. } = row.progress.hand_out();
    if !row.progress.settle(T::QUEUE, &why, attempt) {
        return Ok(false);
    }
    row.close(now);
    store(connection, entry, row)?;
    Ok(true)
}

/// Returns the first entries of a consumer that are pending, due and not in flight, at most `most`
/// of them: their numbers, bodies and other columns.
fn ready_entries(
    connection: &Connection,
    place: &QueueKey,
    most: usize,
) -> rusqlite::Result<Vec<(u64, String, EntryRow)>> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    connection
        .prepare_cached(
            "SELECT state, why, attempts, parts_sent, in_doubt, out, due_at, settled_at, id, body FROM ledger
             WHERE queue = ?1 AND consumer = ?2 AND state = 'pending' AND out = 0 AND due_at = 0 ORDER BY id LIMIT ?3",
        )?
        .query_map(params![place.queue, place.consumer, most], |row| {
            Ok((row.get(8)?, row.get(9)?, entry_row(row)?))
        })?
        .collect()
}

/// Returns the time at which a consumer's next waiting entry is due.
pub(super) fn next_due(
    connection: &Connection,
    place: &QueueKey,
) -> rusqlite::Result<Option<Millis>> {
    connection
        .prepare_cached(
            "SELECT min(due_at) FROM ledger WHERE queue = ?1 AND consumer = ?2 AND due_at > 0",
        )?
        .query_row(params![place.queue, place.consumer], |row| row.get(0))
}

/// Records an outcome. The inner error says why it does not apply.
pub(super) fn settle(
    connection: &Connection,
    queue: Queue,
    handout: Handout,
    outcome: &SettleOutcome,
    due: Option<Millis>,
    now: Millis,
) -> rusqlite::Result<Result<(), BusError>> {
    let entry = handout.entry;
    let Some(mut row) = load(connection, entry)? else {
        return Ok(Err(BusError::Unknown {
            id: entry.to_string(),
        }));
    };
    let before = row.clone();
    let stale = !row.is_in_flight(handout);
    if (stale && !outcome.is_terminal()) || !row.progress.settle(queue, outcome, handout.attempt) {
        return Ok(Err(conflict(entry, row.progress.state)));
    }
    if let Some(due) = due {
        row.out = if let SettleOutcome::PutOff(_) = outcome {
            DEFERRED
        } else {
            0
        };
        row.due_at = due;
    }
    if !row.progress.state.is_open() {
        row.close(now);
    }
    if row != before {
        store(connection, entry, &row)?;
    }
    Ok(Ok(()))
}

/// Discards an entry at the user's request.
pub(super) fn discard(
    connection: &Connection,
    queue: Queue,
    entry: u64,
    now: Millis,
) -> rusqlite::Result<Result<(), BusError>> {
    let Some(mut row) = load(connection, entry)? else {
        return Ok(Err(BusError::Unknown {
            id: entry.to_string(),
        }));
    };
    if !row.progress.discard(queue) {
        return Ok(Err(conflict(entry, row.progress.state)));
    }
    row.close(now);
    store(connection, entry, &row)?;
    Ok(Ok(()))
}

/// Reopens a settled entry at the user's request.
pub(super) fn retry(connection: &Connection, entry: u64) -> rusqlite::Result<Result<(), BusError>> {
    let Some(mut row) = load(connection, entry)? else {
        return Ok(Err(BusError::Unknown {
            id: entry.to_string(),
        }));
    };
    if !row.progress.retry() {
        return Ok(Err(conflict(entry, row.progress.state)));
    }
    row.settled_at = None;
    store(connection, entry, &row)?;
    Ok(Ok(()))
}

/// Deletes up to `limit` entries that were settled before a time.
pub(super) fn prune(
    connection: &Connection,
    before: Millis,
    limit: usize,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "DELETE FROM ledger WHERE id IN (
                 SELECT id FROM ledger WHERE settled_at IS NOT NULL AND settled_at < ?1 ORDER BY settled_at LIMIT ?2)",
        )?
        .execute(params![before, limit])
}

/// The columns of a row that change.
#[derive(Clone, Debug, PartialEq)]
struct EntryRow {
    progress: EntryProgress,
    /// Serial of the handout in flight; 0 if there is none, [`DEFERRED`] if the entry was deferred.
    out: i64,
    /// The time at which it is due; 0 for now.
    due_at: Millis,
    settled_at: Option<Millis>,
}

impl EntryRow {
    fn is_in_flight(&self, handout: Handout) -> bool {
        self.out == handout.serial.cast_signed()
    }

    fn close(&mut self, now: Millis) {
        self.out = 0;
        self.due_at = 0;
        self.settled_at = Some(now);
    }
}

fn load(connection: &Connection, entry: u64) -> rusqlite::Result<Option<EntryRow>> {
    connection
        .prepare_cached(
            "SELECT state, why, attempts, parts_sent, in_doubt, out, due_at, settled_at FROM ledger WHERE id = ?1",
        )?
        .query_row([entry], entry_row)
        .optional()
}

/// Reads the columns that change, which are the first ones of the row.
fn entry_row(row: &Row<'_>) -> rusqlite::Result<EntryRow> {
    Ok(EntryRow {
        progress: EntryProgress {
            state: state(row, 0)?,
            why: row.get(1)?,
            attempts: row.get(2)?,
            parts_sent: row.get(3)?,
            in_doubt: row.get(4)?,
        },
        out: row.get(5)?,
        due_at: row.get(6)?,
        settled_at: row.get(7)?,
    })
}

fn store(connection: &Connection, entry: u64, row: &EntryRow) -> rusqlite::Result<()> {
    let EntryRow {
        progress,
        out,
        due_at,
        settled_at,
    } = row;
    connection
        .prepare_cached(
            "UPDATE ledger SET state = :state, why = :why, attempts = :attempts, parts_sent = :parts_sent,
                 in_doubt = :in_doubt, out = :out, due_at = :due_at, settled_at = :settled_at WHERE id = :id",
        )?
        .execute(named_params! {
            ":state": progress.state.as_str(), ":why": progress.why, ":attempts": progress.attempts,
            ":parts_sent": progress.parts_sent, ":in_doubt": progress.in_doubt,
            ":out": out, ":due_at": due_at, ":settled_at": settled_at, ":id": entry,
        })?;
    Ok(())
}

/// Reads a state by its name.
pub(super) fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<EntryState> {
    let word: String = row.get(column)?;
    EntryState::parse(&word).ok_or_else(|| {
        let unknown = format!("no ledger entry can be {word:?}");
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            unknown.into(),
        )
    })
}

fn conflict(entry: u64, state: EntryState) -> BusError {
    BusError::Conflict {
        id: entry.to_string(),
        state,
    }
}
