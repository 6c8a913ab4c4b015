//! The commands, one file each. Each loads the configuration, does one thing and says how it went.

mod agent;
mod channels;
mod config;
mod cron;
mod doctor;
mod gateway;
mod inbox;
mod memory;
mod onboard;
mod pairing;
mod replay;
mod sessions;
mod skills;
mod status;
mod transcript;

pub(crate) use agent::agent;
pub(crate) use channels::channels;
pub(crate) use config::config;
pub(crate) use cron::cron;
pub(crate) use doctor::doctor;
pub(crate) use gateway::gateway;
pub(crate) use inbox::inbox;
pub(crate) use memory::memory;
pub(crate) use onboard::onboard;
pub(crate) use pairing::pairing;
pub(crate) use replay::replay;
pub(crate) use sessions::sessions;
pub(crate) use skills::skills;
pub(crate) use status::status;

use crate::failure::Failure;

/// Runs a command's async part on this thread.
fn block_on<T>(future: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(format!("cannot start: {error}"), "Check the limits of this process (ulimit -a).")
    })?;
    let outcome = runtime.block_on(future);
    // A tool that does not end must not keep the process from ending.
    runtime.shutdown_background();
    outcome
}
