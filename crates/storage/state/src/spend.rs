//! The spend ledger: what model requests cost, by day, and the caps on it.
//!
//! Decision: charges are rolled up per day, session, model, provider, purpose and job, and added to
//! the totals of their turn, session, job and day in the same transaction. A verdict is made on the
//! thread of the database from those totals, from charges that are not written yet, and from the
//! estimates of requests in flight, so that concurrent turns and other processes share a cap. An
//! attempt waits for its commit and not for the disk: the end of the process loses at most the
//! attempt in flight, a power cut the charges since the bus was last synced.

mod caps;
mod query;
mod report;
mod rows;
mod settings;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use nanobot_provider::{CallPurpose, ModelPrice, SpendAttempt, SpendLedger, SpendVerdict, Spent};
use nanobot_types::{SessionKey, TraceId};
use rusqlite::Connection;

use crate::database::{Durability, JobError};
use crate::{StateDb, StateError};
use caps::{CapState, Decision, Request, Scope, Unit, decide};
pub use query::{SpendGroup, SpendRow, read_spending};
pub use settings::{BudgetSettings, OnLimit};

/// Maximum number of charges that wait for the database. If it is reached, because the database
/// cannot be written, nothing more is sent.
const MAX_QUEUED: usize = 4096;

/// Maximum number of sessions whose last turn is remembered.
const MAX_SESSIONS: usize = 1024;

/// Returns the price of a model of a provider, by their names; `None` if it is unknown.
pub type PriceLookup = Arc<dyn Fn(&str, &str) -> Option<ModelPrice> + Send + Sync>;

/// Returns the current day.
pub type Today = Arc<dyn Fn() -> SpendDay + Send + Sync>;

/// A calendar day in the assistant's time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendDay {
    /// The date, as `2026-11-25`.
    pub date: String,
    /// Name of the time zone.
    pub zone: String,
}

/// The spend ledger in a state database. Clones share it.
#[derive(Clone)]
pub struct SqliteSpendLedger {
    db: StateDb,
    settings: Arc<BudgetSettings>,
    price: PriceLookup,
    today: Today,
    open: Arc<Mutex<OpenCharges>>,
}

/// Charges that are not in the database yet.
#[derive(Debug, Default)]
struct OpenCharges {
    /// Estimates of admitted attempts.
    in_flight: Vec<Reservation>,
    /// Charges that wait for the database.
    queued: Vec<Charge>,
    /// The day on which old rows were deleted last.
    pruned: String,
    /// The last turns of sessions since the start.
    last_turns: HashMap<SessionKey, LastTurn>,
}

/// What a turn cost.
#[derive(Clone, Debug)]
struct LastTurn {
    turn: TraceId,
    /// Amounts in US dollars and in tokens.
    amounts: [u64; Unit::ALL.len()],
}

/// An estimate of an attempt in flight.
#[derive(Debug)]
struct Reservation {
    attempt: SpendAttempt,
    period: Period,
    unit: Unit,
    amount: u64,
}

/// A charge to store.
#[derive(Clone, Debug)]
struct Charge {
    attempt: SpendAttempt,
    spent: Spent,
    period: Period,
    unit: Unit,
    amount: u64,
}

/// The periods of the scopes to which something is charged.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Period {
    day: String,
    session: Option<String>,
    job: Option<String>,
    turn: Option<String>,
}

impl Period {
    fn of(day: String, attempt: &SpendAttempt) -> Self {
        let text = |key: &Option<SessionKey>| key.as_ref().map(ToString::to_string);
        // The traces of summaries and judgements are names that every one of them has.
        let is_in_turn = match attempt.account.purpose {
            CallPurpose::Turn | CallPurpose::Subagent => true,
            CallPurpose::Summary | CallPurpose::Judgement => false,
        };
        Self {
            session: text(&attempt.account.session),
            job: text(&attempt.account.job),
            turn: is_in_turn.then(|| attempt.turn.to_string()),
            day,
        }
    }

    /// Returns the name of a scope's total; `None` if nothing is charged to it.
    fn name(&self, scope: Scope) -> Option<String> {
        match scope {
            Scope::Turn => self.turn.clone(),
            Scope::Session => self.session.clone(),
            Scope::Job => self.job.as_ref().map(|job| format!("{} {job}", self.day)),
            Scope::Day => Some(self.day.clone()),
        }
    }

    /// `true` if both charge the same total of this scope.
    fn shares(&self, other: &Self, scope: Scope) -> bool {
        let name = self.name(scope);
        name.is_some() && name == other.name(scope)
    }
}

impl OpenCharges {
    /// Returns what counts towards a total and is not in the database.
    fn amount(&self, period: &Period, scope: Scope, unit: Unit) -> u64 {
        let in_flight = self
            .in_flight
            .iter()
            .map(|open| (&open.period, open.unit, open.amount));
        let queued = self
            .queued
            .iter()
            .map(|open| (&open.period, open.unit, open.amount));
        let shared = in_flight
            .chain(queued)
            .filter(|(other, of, _)| *of == unit && other.shares(period, scope));
        shared.fold(0, |sum, (.., amount)| sum.saturating_add(amount))
    }

    /// Adds to what the last turn of a session cost.
    fn count_turn(&mut self, attempt: &SpendAttempt, unit: Unit, amount: u64) {
        let Some(session) = &attempt.account.session else {
            return;
        };
        let is_turn = attempt.account.purpose == CallPurpose::Turn;
        let has_room =
            self.last_turns.len() < MAX_SESSIONS || self.last_turns.contains_key(session);
        if !is_turn || !has_room {
            return;
        }
        let fresh = LastTurn {
            turn: attempt.turn.clone(),
            amounts: Default::default(),
        };
        let last = self
            .last_turns
            .entry(session.clone())
            .or_insert(fresh.clone());
        if last.turn != attempt.turn {
            *last = fresh;
        }
        for (of, sum) in Unit::ALL.into_iter().zip(&mut last.amounts) {
            if of == unit {
                *sum = sum.saturating_add(amount);
            }
        }
    }

    fn knows_turn(&self, period: &Period) -> bool {
        let in_flight = self.in_flight.iter().map(|open| &open.period);
        let mut all = in_flight.chain(self.queued.iter().map(|open| &open.period));
        all.any(|other| other.shares(period, Scope::Turn))
    }
}

impl SqliteSpendLedger {
    /// Creates the ledger in `db`, and deletes rows beyond their retention.
    #[must_use]
    pub fn new(db: StateDb, settings: BudgetSettings, price: PriceLookup, today: Today) -> Self {
        Self {
            db,
            settings: Arc::new(settings),
            price,
            today,
            open: Arc::default(),
        }
    }

    /// Stores what is still open and closes the database.
    pub async fn close(&self) {
        let is_queued = !self.lock().queued.is_empty();
        if is_queued {
            self.flush().await;
        }
        self.db.close().await;
    }

    /// Raises the caps of the current day, of this session, and of every job that has used up most
    /// of its own: in US dollars, or in tokens of models without a known price.
    ///
    /// # Errors
    /// Returns [`StateError::Database`] or [`StateError::Closed`]; nothing is raised then.
    pub async fn raise(&self, session: &SessionKey, raise: BudgetRaise) -> Result<(), StateError> {
        let (unit, amount) = match raise {
            BudgetRaise::Usd(dollars) => (Unit::Usd, settings::micros(dollars)),
            BudgetRaise::Tokens(tokens) => (Unit::Tokens, tokens),
        };
        let (period, settings) = (self.period_of(session), self.settings.clone());
        let work = move |connection: &Connection| {
            rows::raise(connection, Scope::Day, &period, unit, amount)?;
            rows::raise(connection, Scope::Session, &period, unit, amount)?;
            let Some(cap) = settings.cap(Scope::Job, unit) else {
                return Ok(());
            };
            for job in rows::exhausted_jobs(connection, &period.day, unit, cap)? {
                rows::raise_job(connection, &job, &period.day, unit, amount)?;
            }
            Ok(())
        };
        let written = self.db.write(Durability::Power, work).await;
        written.map_err(|error| error.state(self.db.path(), "raise a budget"))
    }

    /// Records that a person agrees to use the rest of the caps of the day and of this session.
    ///
    /// # Errors
    /// Returns [`StateError::Database`] or [`StateError::Closed`].
    pub async fn agree(&self, session: &SessionKey) -> Result<(), StateError> {
        let (period, settings) = (self.period_of(session), self.settings.clone());
        let work = move |connection: &Connection| {
            for unit in Unit::ALL {
                for cap in stored_caps(connection, &settings, &period, unit)? {
                    rows::mark(connection, "agreed", &period, &cap)?;
                }
            }
            Ok(())
        };
        let written = self.db.write(Durability::Power, work).await;
        written.map_err(|error| error.state(self.db.path(), "go on with a budget"))
    }

    fn period_of(&self, session: &SessionKey) -> Period {
        Period {
            day: (self.today)().date,
            session: Some(session.to_string()),
            job: None,
            turn: None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenCharges> {
        lock(&self.open)
    }

    /// Returns the unit in which tokens of this attempt are counted, and their amount.
    fn amount(&self, attempt: &SpendAttempt, usage: &nanobot_types::Usage) -> (Unit, u64) {
        match (self.price)(attempt.provider.as_str(), attempt.model.as_str()) {
            Some(price) => (Unit::Usd, price.cost(usage)),
            None => {
                let tokens = usage.prompt_tokens.saturating_add(usage.completion_tokens);
                (Unit::Tokens, tokens)
            }
        }
    }

    /// Judges an attempt on the thread of the database. With `is_read_only`, it stores nothing.
    async fn judge(
        &self,
        attempt: &SpendAttempt,
        is_read_only: bool,
    ) -> Result<SpendVerdict, JobError> {
        let day = (self.today)();
        let (unit, estimate) = self.amount(attempt, &attempt.estimate);
        let period = Period::of(day.date, attempt);
        let (open, settings, attempt) = (self.open.clone(), self.settings.clone(), attempt.clone());
        let is_attended =
            attempt.account.is_attended && attempt.account.purpose == CallPurpose::Turn;
        let work = move |connection: &Connection| {
            let mut caps = stored_caps(connection, &settings, &period, unit)?;
            let is_known = rows::knows_turn(connection, attempt.turn.as_str())?;
            let mut open = lock(&open);
            for cap in &mut caps {
                let more = open.amount(&period, cap.scope, unit);
                cap.used = cap.used.saturating_add(more);
            }
            let request = Request {
                estimate,
                may_ask: is_attended && !is_known && !open.knows_turn(&period),
            };
            let decision = decide(&caps, request, settings.on_limit, &day.zone);
            if !is_read_only {
                remember(connection, &period, &caps, &decision)?;
            }
            if matches!(decision.verdict, SpendVerdict::Admitted { .. }) {
                open.in_flight.push(Reservation {
                    attempt,
                    period,
                    unit,
                    amount: estimate,
                });
            }
            Ok(decision.verdict)
        };
        self.db.write(Durability::Process, work).await
    }
}

/// An amount by which caps are raised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BudgetRaise {
    /// US dollars.
    Usd(f64),
    /// Tokens of models without a known price.
    Tokens(u64),
}

#[async_trait]
impl SpendLedger for SqliteSpendLedger {
    async fn admit(&self, attempt: &SpendAttempt) -> SpendVerdict {
        let admitted = SpendVerdict::Admitted { notice: None };
        let (unit, _) = self.amount(attempt, &attempt.estimate);
        let price = (self.price)(attempt.provider.as_str(), attempt.model.as_str());
        let is_capped = |scope| self.settings.cap(scope, unit).is_some();
        if price == Some(ModelPrice::FREE) || !Scope::ALL.into_iter().any(is_capped) {
            return admitted;
        }
        if self.lock().queued.len() >= MAX_QUEUED {
            return unavailable("what was spent cannot be stored");
        }
        let judged = match self.judge(attempt, false).await {
            // A full disk can still be read.
            Err(JobError::Failed(_)) => self.judge(attempt, true).await,
            judged => judged,
        };
        judged.unwrap_or_else(|error| {
            let error = error.state(self.db.path(), "read what was spent");
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the spend ledger failed"
            );
            unavailable("what was spent cannot be read")
        })
    }

    fn charge(&self, attempt: &SpendAttempt, spent: Spent) {
        let day = (self.today)().date;
        let (unit, amount) = self.amount(attempt, &spent.usage);
        let charge = Charge {
            attempt: attempt.clone(),
            spent,
            period: Period::of(day.clone(), attempt),
            unit,
            amount,
        };
        let is_new_day = {
            let mut open = self.lock();
            let reserved = open
                .in_flight
                .iter()
                .position(|other| other.attempt == *attempt);
            reserved.map(|index| open.in_flight.swap_remove(index));
            open.count_turn(attempt, unit, amount);
            open.queued.push(charge);
            let is_new_day = open.pruned != day;
            open.pruned.clone_from(&day);
            is_new_day
        };
        let open = self.open.clone();
        let work = move |connection: &Connection| Batch::write(open, connection);
        self.db
            .start_write(Durability::Process, work, Batch::written);
        if is_new_day {
            let work = move |connection: &Connection| rows::prune(connection, &day);
            self.db.start_write(Durability::Process, work, |()| {});
        }
    }

    async fn flush(&self) {
        let open = self.open.clone();
        let work = move |connection: &Connection| Batch::write(open, connection);
        let written = self
            .db
            .write_then(Durability::Process, work, Batch::written);
        if let Err(error) = written.await {
            let error = error.state(self.db.path(), "store what was spent");
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the spend ledger failed"
            );
        }
    }

    async fn restart_session(&self, session: &SessionKey) {
        let name = session.to_string();
        let work = move |connection: &Connection| rows::restart_session(connection, &name);
        if let Err(error) = self.db.write(Durability::Process, work).await {
            let error = error.state(self.db.path(), "begin a new period");
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a conversation keeps its budget"
            );
        }
    }

    async fn report(&self, session: &SessionKey) -> Option<String> {
        Some(self.describe(session).await)
    }
}

fn unavailable(why: &str) -> SpendVerdict {
    SpendVerdict::Refused {
        explanation: format!(
            "Stopped: {why}, so the budget cannot be kept. The log says why; `nanobot doctor` checks the state database."
        ),
    }
}

/// Charges that a transaction writes. Unless it is committed, they are queued again.
struct Batch {
    charges: Vec<Charge>,
    open: Arc<Mutex<OpenCharges>>,
    is_committed: AtomicBool,
}

impl Batch {
    /// Writes the queued charges.
    fn write(open: Arc<Mutex<OpenCharges>>, connection: &Connection) -> rusqlite::Result<Self> {
        let charges = std::mem::take(&mut lock(&open).queued);
        let batch = Self {
            charges,
            open,
            is_committed: AtomicBool::new(false),
        };
        for charge in &batch.charges {
            rows::charge(connection, charge)?;
        }
        Ok(batch)
    }

    fn written(batch: &Self) {
        batch.is_committed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.is_committed.load(Ordering::Relaxed) {
            lock(&self.open).queued.append(&mut self.charges);
        }
    }
}

fn lock(open: &Mutex<OpenCharges>) -> MutexGuard<'_, OpenCharges> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the configured caps that apply to this period, with what is stored of them.
fn stored_caps(
    connection: &Connection,
    settings: &BudgetSettings,
    period: &Period,
    unit: Unit,
) -> rusqlite::Result<Vec<CapState>> {
    let mut caps = Vec::new();
    for scope in Scope::ALL {
        if let Some(configured) = settings.cap(scope, unit) {
            caps.extend(rows::cap(connection, scope, period, unit, configured)?);
        }
    }
    Ok(caps)
}

/// Stores which caps were announced.
fn remember(
    connection: &Connection,
    period: &Period,
    caps: &[CapState],
    decision: &Decision,
) -> rusqlite::Result<()> {
    for (column, scopes) in [
        ("warned", &decision.warned),
        ("exceeded", &decision.exceeded),
    ] {
        for cap in caps.iter().filter(|cap| scopes.contains(&cap.scope)) {
            rows::mark(connection, column, period, cap)?;
        }
    }
    Ok(())
}

impl std::fmt::Debug for SqliteSpendLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteSpendLedger")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}
