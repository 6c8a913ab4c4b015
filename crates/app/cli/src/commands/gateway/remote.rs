//! Shows, stops or restarts a running gateway.

use std::process::ExitCode;
use std::time::Duration;

use nanobot_runtime::{ChannelState, RemoteGateway, RuntimeBuilder};
use serde_json::json;

use crate::commands::block_on;
use crate::failure::CommandFailure;
use crate::output;

/// Maximum time for a gateway to end: turns have a grace period, and replies are still sent.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn status(program: &RuntimeBuilder, json: bool) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    block_on(async {
        let gateway = RemoteGateway::reach(config).await?;
        let channels = match &gateway {
            Some(gateway) => gateway.channels().await?,
            None => Vec::new(),
        };
        let about = gateway.as_ref().map(RemoteGateway::about);
        if json {
            let shown =
                json!({ "running": about.is_some(), "gateway": about, "channels": channels });
            output::line(&crate::commands::json(&shown).map_err(std::io::Error::from)?)?;
        } else {
            match about {
                Some(about) => {
                    output::line(&format!(
                        "The gateway runs: process {}, version {}",
                        about.pid, about.version
                    ))?;
                    if let Some(began) = about.started_at {
                        output::line(&format!("Since: {}", began.format("%Y-%m-%d %H:%M:%S")))?;
                    }
                    output::line(&format!("Model: {}", about.model))?;
                }
                None => output::line("The gateway does not run. Start it with `nanobot gateway`.")?,
            }
            for channel in &channels {
                output::line(&channel_line(channel))?;
            }
        }
        Ok(if about.is_some() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    })
}

fn channel_line(
    ChannelState {
        name, state, why, ..
    }: &ChannelState,
) -> String {
    let why = why
        .as_ref()
        .map(|why| format!(" ({why})"))
        .unwrap_or_default();
    format!("Channel {name}: {state}{why}")
}

pub(super) fn stop(program: &RuntimeBuilder) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    block_on(async {
        let Some(gateway) = RemoteGateway::reach(config).await? else {
            output::line("The gateway does not run.")?;
            return Ok(ExitCode::SUCCESS);
        };
        output::note("Waiting for its turns to end…");
        if gateway.stop(STOP_TIMEOUT).await? {
            output::line("The gateway has stopped.")?;
            return Ok(ExitCode::SUCCESS);
        }
        Err(timed_out("stopped", gateway.about().pid))
    })
}

pub(super) fn restart(program: &RuntimeBuilder) -> Result<ExitCode, CommandFailure> {
    let runtime = program.build()?;
    let config = runtime.config();
    block_on(async {
        let Some(gateway) = RemoteGateway::reach(config).await? else {
            let remedy = "Start it with `nanobot gateway`.";
            return Err(CommandFailure::new(
                "the gateway does not run, so it cannot be restarted",
                remedy,
            ));
        };
        output::note("Waiting for its turns to end…");
        match gateway.restart(STOP_TIMEOUT).await? {
            Some(about) => {
                output::line(&format!(
                    "The gateway runs again: process {}, version {}",
                    about.pid, about.version
                ))?;
                Ok(ExitCode::SUCCESS)
            }
            None => Err(timed_out("come back", gateway.about().pid)),
        }
    })
}

fn timed_out(what: &str, pid: u32) -> CommandFailure {
    CommandFailure::new(
        format!(
            "the gateway (process {pid}) has not {what} within {} s",
            STOP_TIMEOUT.as_secs()
        ),
        "See `nanobot gateway logs`; a second stop by its process id ends it at once.",
    )
}
