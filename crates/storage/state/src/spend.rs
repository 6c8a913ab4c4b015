//! The spend ledger: what model requests cost, by day, and the caps on it.
//!
//! Decision: charges are rolled up per day, session, model, provider, purpose and job, and added to
//! the totals of their turn, session, job and day in the same transaction. A verdict is made on the
//! thread of the database from those totals, from charges that are not written yet, and from the
//! estimates of requests in flight, so that concurrent turns and other processes share a cap. An
//! attempt waits for its commit and not for the disk: the end of the process loses at most the
//! attempt in flight, a power cut the charges since the bus was last synced.

mod caps;
mod open_charges;
mod query;
mod report;
mod rows;
mod settings;

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use nanobot_provider::{CallPurpose, ModelPrice, SpendAttempt, SpendLedger, SpendVerdict, Spent};
use nanobot_types::SessionKey;
use rusqlite::Connection;

use crate::database::{Durability, JobError};
use crate::{StateDb, StateError};
use caps::{CapState, Decision, Request, Scope, Unit, decide};
use open_charges::{Admission, Batch, Charge, OpenCharges, Period, Reservation, lock};
pub use query::{SpendGroup, SpendRow, read_spending};
pub use settings::{BudgetSettings, OnLimit};

/// Maximum number of charges that wait for the database. If it is reached, because the database
/// cannot be written, nothing more is sent.
const MAX_QUEUED: usize = 4096;

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
            let may_ask = {
                let open = lock(&open);
                for cap in &mut caps {
                    let more = open.amount(&period, cap.scope, unit);
                    cap.used = cap.used.saturating_add(more);
                }
                is_attended && !is_known && !open.knows_turn(&period)
            };
            let request = Request { estimate, may_ask };
            let decision = decide(&caps, request, settings.on_limit, &day.zone);
            if !is_read_only {
                remember(connection, &period, &caps, &decision)?;
            }
            let is_admitted = matches!(decision.verdict, SpendVerdict::Admitted { .. });
            let admission = is_admitted.then(|| {
                let reservation = Reservation {
                    attempt,
                    period,
                    unit,
                    amount: estimate,
                };
                Admission::reserve(open, reservation)
            });
            Ok((decision.verdict, admission))
        };
        let (verdict, admission) = self.db.write(Durability::Process, work).await?;
        if let Some(admission) = admission {
            admission.keep();
        }
        Ok(verdict)
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
            open.release(attempt);
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
