//! Charges that are not in the database yet, and the amounts that requests in flight have reserved.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_provider::{CallPurpose, SpendAttempt, Spent};
use nanobot_types::{SessionKey, TraceId};
use rusqlite::Connection;

use super::caps::{Scope, Unit};
use super::rows;

/// Maximum number of sessions whose last turn is remembered.
const MAX_SESSIONS: usize = 1024;

/// Charges that are not in the database yet.
#[derive(Debug, Default)]
pub(super) struct OpenCharges {
    /// Estimates of admitted attempts.
    pub(super) in_flight: Vec<Reservation>,
    /// Charges that wait for the database.
    pub(super) queued: Vec<Charge>,
    /// The day on which old rows were deleted last.
    pub(super) pruned: String,
    /// The last turns of sessions since the start.
    pub(super) last_turns: HashMap<SessionKey, LastTurn>,
}

/// What a turn cost.
#[derive(Clone, Debug)]
pub(super) struct LastTurn {
    turn: TraceId,
    /// Amounts in US dollars and in tokens.
    pub(super) amounts: [u64; Unit::ALL.len()],
}

/// An estimate of an attempt in flight.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) attempt: SpendAttempt,
    pub(super) period: Period,
    pub(super) unit: Unit,
    pub(super) amount: u64,
}

/// A charge to store.
#[derive(Clone, Debug)]
pub(super) struct Charge {
    pub(super) attempt: SpendAttempt,
    pub(super) spent: Spent,
    pub(super) period: Period,
    pub(super) unit: Unit,
    pub(super) amount: u64,
}

/// The periods of the scopes to which something is charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Period {
    pub(super) day: String,
    pub(super) session: Option<String>,
    pub(super) job: Option<String>,
    pub(super) turn: Option<String>,
}

impl Period {
    pub(super) fn of(day: String, attempt: &SpendAttempt) -> Self {
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
    pub(super) fn name(&self, scope: Scope) -> Option<String> {
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
    pub(super) fn amount(&self, period: &Period, scope: Scope, unit: Unit) -> u64 {
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
    pub(super) fn count_turn(&mut self, attempt: &SpendAttempt, unit: Unit, amount: u64) {
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

    /// Frees what an attempt has reserved.
    pub(super) fn release(&mut self, attempt: &SpendAttempt) {
        let mut reserved = self.in_flight.iter();
        if let Some(index) = reserved.position(|open| open.attempt == *attempt) {
            self.in_flight.swap_remove(index);
        }
    }

    pub(super) fn knows_turn(&self, period: &Period) -> bool {
        let in_flight = self.in_flight.iter().map(|open| &open.period);
        let mut all = in_flight.chain(self.queued.iter().map(|open| &open.period));
        all.any(|other| other.shares(period, Scope::Turn))
    }
}

/// What an admitted attempt has reserved, on its way to the caller. It is freed if the caller no
/// longer waits for the verdict, or the transaction fails.
#[derive(Debug)]
pub(super) struct Admission {
    open: Arc<Mutex<OpenCharges>>,
    attempt: SpendAttempt,
    is_kept: bool,
}

impl Admission {
    /// Reserves an amount.
    pub(super) fn reserve(open: Arc<Mutex<OpenCharges>>, reservation: Reservation) -> Self {
        let attempt = reservation.attempt.clone();
        lock(&open).in_flight.push(reservation);
        Self {
            open,
            attempt,
            is_kept: false,
        }
    }

    /// Leaves the amount reserved until the attempt is charged.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if !self.is_kept {
            lock(&self.open).release(&self.attempt);
        }
    }
}

/// Charges that a transaction writes. Unless it is committed, they are queued again.
pub(super) struct Batch {
    charges: Vec<Charge>,
    open: Arc<Mutex<OpenCharges>>,
    is_committed: AtomicBool,
}

impl Batch {
    /// Writes the queued charges.
    pub(super) fn write(
        open: Arc<Mutex<OpenCharges>>,
        connection: &Connection,
    ) -> rusqlite::Result<Self> {
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

    pub(super) fn written(batch: &Self) {
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

pub(super) fn lock(open: &Mutex<OpenCharges>) -> MutexGuard<'_, OpenCharges> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}
