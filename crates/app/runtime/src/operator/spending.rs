//! What model requests cost, for `nanobot usage`.

use nanobot_state::read_spending;
pub use nanobot_state::{SpendGroup, SpendRow};

use crate::assembly::spending::days_ago;
use crate::{Runtime, RuntimeError};

/// Returns what was spent on the last `days` calendar days, today included. Reads the state database
/// only, also while a gateway writes it. Blocks.
///
/// # Errors
/// Returns [`RuntimeError::State`] if the database cannot be read, [`RuntimeError::Config`] or
/// [`RuntimeError::Zone`] if the time zone cannot be used.
pub fn spending(
    runtime: &Runtime,
    group: SpendGroup,
    days: u32,
) -> Result<Vec<SpendRow>, RuntimeError> {
    let config = runtime.config();
    let since = days_ago(config, days.saturating_sub(1))?;
    Ok(read_spending(&config.paths().state_db, group, &since)?)
}
