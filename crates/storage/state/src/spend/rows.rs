//! Statements of the spend ledger.

use nanobot_provider::CallPurpose;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::caps::{CapState, Scope, Unit};
use super::{Charge, Period};

/// Days that roll-ups are kept, and the totals of conversations that are not used any more.
pub(super) const KEPT_DAYS: i64 = 400;

/// Returns the name of a purpose in the database.
fn purpose_name(purpose: CallPurpose) -> &'static str {
    match purpose {
        CallPurpose::Turn => "turn",
        CallPurpose::Summary => "summary",
        CallPurpose::Subagent => "subagent",
        CallPurpose::Judgement => "judgement",
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Adds a charge to its roll-up and to the totals of its scopes.
pub(super) fn charge(connection: &Connection, charge: &Charge) -> rusqlite::Result<()> {
    let (usage, account) = (&charge.spent.usage, &charge.attempt.account);
    let text = |key: &Option<nanobot_types::SessionKey>| {
        key.as_ref().map_or_else(String::new, ToString::to_string)
    };
    let (session, job) = (text(&account.session), text(&account.job));
    let (micros, unpriced) = match charge.unit {
        Unit::Usd => (charge.amount, 0),
        Unit::Tokens => (0, charge.amount),
    };
    connection
        .prepare_cached(
            "INSERT INTO spend (day, session, provider, model, purpose, job, requests, failed, estimated,
                prompt, cached, cache_write, completion, reasoning, micros, unpriced)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT DO UPDATE SET requests = requests + 1, failed = failed + excluded.failed,
                estimated = estimated + excluded.estimated, prompt = prompt + excluded.prompt,
                cached = cached + excluded.cached, cache_write = cache_write + excluded.cache_write,
                completion = completion + excluded.completion, reasoning = reasoning + excluded.reasoning,
                micros = micros + excluded.micros, unpriced = unpriced + excluded.unpriced",
        )?
        .execute(params![
            charge.period.day,
            session,
            charge.attempt.provider.as_str(),
            charge.attempt.model.as_str(),
            purpose_name(account.purpose),
            job,
            charge.spent.failed,
            charge.spent.is_estimate,
            number(usage.prompt_tokens),
            number(usage.cached_tokens),
            number(usage.cache_write_tokens),
            number(usage.completion_tokens),
            number(usage.reasoning_tokens),
            number(micros),
            number(unpriced),
        ])?;
    for scope in Scope::ALL {
        if let Some(name) = charge.period.name(scope) {
            let add = [("used", charge.amount)];
            change(
                connection,
                scope,
                &name,
                charge.unit,
                &charge.period.day,
                &add,
            )?;
        }
    }
    Ok(())
}

/// Adds to columns of a total, which is created if it is missing.
fn change(
    connection: &Connection,
    scope: Scope,
    name: &str,
    unit: Unit,
    day: &str,
    add: &[(&'static str, u64)],
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO spend_total (scope, name, unit, day) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET day = excluded.day",
        )?
        .execute(params![scope.name(), name, unit.name(), day])?;
    for (column, amount) in add {
        connection
            .prepare_cached(&format!(
                "UPDATE spend_total SET {column} = {column} + ?4 WHERE scope = ?1 AND name = ?2 AND unit = ?3"
            ))?
            .execute(params![scope.name(), name, unit.name(), number(*amount)])?;
    }
    Ok(())
}

/// Raises a total's cap.
pub(super) fn raise(
    connection: &Connection,
    scope: Scope,
    period: &Period,
    unit: Unit,
    amount: u64,
) -> rusqlite::Result<()> {
    match period.name(scope) {
        Some(name) => {
            let add = [("raised", amount)];
            change(connection, scope, &name, unit, &period.day, &add)
        }
        None => Ok(()),
    }
}

/// Stores the limit for which a notice was shown or a person agreed.
pub(super) fn mark(
    connection: &Connection,
    column: &'static str,
    period: &Period,
    cap: &CapState,
) -> rusqlite::Result<()> {
    let Some(name) = period.name(cap.scope) else {
        return Ok(());
    };
    change(connection, cap.scope, &name, cap.unit, &period.day, &[])?;
    connection
        .prepare_cached(&format!(
            "UPDATE spend_total SET {column} = ?4 WHERE scope = ?1 AND name = ?2 AND unit = ?3"
        ))?
        .execute(params![
            cap.scope.name(),
            name,
            cap.unit.name(),
            number(cap.limit)
        ])
        .map(drop)
}

/// Returns the state of a cap.
pub(super) fn cap(
    connection: &Connection,
    scope: Scope,
    period: &Period,
    unit: Unit,
    configured: u64,
) -> rusqlite::Result<Option<CapState>> {
    let Some(name) = period.name(scope) else {
        return Ok(None);
    };
    let columns: Option<[i64; 5]> = connection
        .prepare_cached(
            "SELECT used, raised, warned, exceeded, agreed FROM spend_total
             WHERE scope = ?1 AND name = ?2 AND unit = ?3",
        )?
        .query_row(params![scope.name(), name, unit.name()], |row| {
            Ok([
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ])
        })
        .optional()?;
    let [used, raised, warned, exceeded, agreed] = columns.unwrap_or_default().map(count);
    Ok(Some(CapState {
        scope,
        unit,
        limit: configured.saturating_add(raised),
        used,
        warned,
        exceeded,
        agreed,
    }))
}

/// `true` if something was charged to this turn.
pub(super) fn knows_turn(connection: &Connection, turn: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM spend_total WHERE scope = 'turn' AND name = ?1")?
        .exists([turn])
}

/// Returns the names of the jobs that have used 80 % of their cap today.
pub(super) fn exhausted_jobs(
    connection: &Connection,
    day: &str,
    unit: Unit,
    configured: u64,
) -> rusqlite::Result<Vec<String>> {
    connection
        .prepare_cached(
            "SELECT name FROM spend_total
             WHERE scope = 'job' AND day = ?1 AND unit = ?2 AND used * 10 >= (?3 + raised) * 8",
        )?
        .query_map(params![day, unit.name(), number(configured)], |row| {
            row.get(0)
        })?
        .collect()
}

/// Raises the cap of a job by the name of its total.
pub(super) fn raise_job(
    connection: &Connection,
    name: &str,
    day: &str,
    unit: Unit,
    amount: u64,
) -> rusqlite::Result<()> {
    change(
        connection,
        Scope::Job,
        name,
        unit,
        day,
        &[("raised", amount)],
    )
}

/// Deletes the totals of a session.
pub(super) fn restart_session(connection: &Connection, session: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM spend_total WHERE scope = 'session' AND name = ?1")?
        .execute([session])
        .map(drop)
}

/// Deletes what is older than its retention: roll-ups and unused conversations after
/// [`KEPT_DAYS`], totals of turns, jobs and days after two days.
pub(super) fn prune(connection: &Connection, day: &str) -> rusqlite::Result<()> {
    let old = format!("-{KEPT_DAYS} days");
    connection.execute("DELETE FROM spend WHERE day < date(?1, ?2)", [day, &old])?;
    connection.execute(
        "DELETE FROM spend_total WHERE day < date(?1, CASE scope WHEN 'session' THEN ?2 ELSE '-2 days' END)",
        [day, &old],
    )?;
    Ok(())
}
