//! The spend ledger of a configuration: its caps, prices and day.
//!
//! Decision: every process that calls models opens the state database of the home, a terminal as
//! well as the gateway, so that all of them share the caps.

use std::sync::Arc;

use chrono::Utc;
use nanobot_config::Config;
use nanobot_providers::model_price;
use nanobot_state::{BudgetSettings, SpendDay, SqliteSpendLedger, StateDb};

use crate::assembly::cron::JobScheduling;
use crate::{ModelChoice, RuntimeError, ledger_durability};

/// A model and the ledger to which its requests are charged.
#[derive(Debug)]
pub(crate) struct ChargedModel {
    pub(crate) model: ModelChoice,
    pub(crate) ledger: Arc<SqliteSpendLedger>,
}

/// Returns the ledger in `database`.
///
/// # Errors
/// Returns [`RuntimeError::Config`] if `budget` cannot be used, [`RuntimeError::Zone`] if there is
/// no such time zone.
pub(crate) fn ledger(
    config: &Config,
    database: StateDb,
) -> Result<Arc<SqliteSpendLedger>, RuntimeError> {
    let settings: BudgetSettings = config.section("budget")?;
    let zone = JobScheduling::of(config)?.zone;
    let own = settings.prices.clone();
    let price = move |provider: &str, model: &str| model_price(provider, model, &own);
    let today = move || SpendDay {
        date: Utc::now().with_timezone(&zone).date_naive().to_string(),
        zone: zone.name().to_owned(),
    };
    let ledger = SqliteSpendLedger::new(database, settings, Arc::new(price), Arc::new(today));
    Ok(Arc::new(ledger))
}

/// Returns the ledger of a process that is no gateway. Its owner closes it. The database is opened by
/// the first request, so that commands without one need none.
///
/// # Errors
/// Returns the errors of [`ledger`], and [`RuntimeError::State`] if the system is out of threads.
pub(crate) fn open(config: &Config) -> Result<Arc<SqliteSpendLedger>, RuntimeError> {
    let path = &config.paths().state_db;
    ledger(
        config,
        StateDb::open_on_use(path, ledger_durability(config)?)?,
    )
}

/// Returns the date of the day that began so many days before today, as the ledger writes it.
///
/// # Errors
/// Returns [`RuntimeError::Config`] or [`RuntimeError::Zone`] if the time zone cannot be used.
pub(crate) fn days_ago(config: &Config, days: u32) -> Result<String, RuntimeError> {
    let zone = JobScheduling::of(config)?.zone;
    let today = Utc::now().with_timezone(&zone).date_naive();
    let first = today.checked_sub_days(chrono::Days::new(days.into()));
    Ok(first.unwrap_or(today).to_string())
}
