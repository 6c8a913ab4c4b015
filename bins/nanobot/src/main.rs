//! The command line of nanobot.
//!
//! Parses, dispatches, and turns failures into messages and exit codes. Nothing is built before the
//! arguments are understood: no async runtime, no TLS, no log.

mod arguments;
mod ask;
mod commands;
mod failure;
mod logs;
mod output;
mod serve;
mod signals;
mod terminal;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Cli, Command, Places};
use failure::{Failure, USAGE};
use nanobot_runtime::LoadOptions;

fn main() -> ExitCode {
    nanobot_runtime::harden_process();
    if let Some(code) = nanobot_runtime::enter() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Where this cannot be written nobody reads it.
            drop(error.print());
            return if error.use_stderr() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match run(cli) {
        Ok(code) => code,
        Err(failure) => {
            if let Failure::Said { .. } = failure {
                output::note(&failure.to_string());
            }
            failure.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode, Failure> {
    if cli.version {
        output::line(&format!("🐈 nanobot v{}", env!("CARGO_PKG_VERSION")))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(command) = cli.command else {
        output::write(&Cli::command().render_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    };
    let load = load_options(cli.places);
    match command {
        Command::Onboard(arguments) => commands::onboard(&load, &arguments),
        Command::Agent(arguments) => commands::agent(&load, arguments),
        Command::Gateway(arguments) => commands::gateway(load, &arguments),
        Command::Doctor(arguments) => commands::doctor(&load, &arguments),
        Command::Status(arguments) => commands::status(&load, &arguments),
        Command::Inbox(arguments) => commands::inbox(&load, &arguments),
        Command::Replay(arguments) => commands::replay(&load, &arguments),
        Command::Sessions(command) => commands::sessions(&load, command),
        Command::Skills(command) => commands::skills(&load, &command),
        Command::Memory(command) => commands::memory(&load, command),
        Command::Cron(command) => commands::cron(&load, command),
        Command::Pairing(command) => commands::pairing(&load, command),
        Command::Channels(command) => commands::channels(&load, command),
        Command::Config(command) => commands::config(&load, &command),
    }
}

fn load_options(places: Places) -> LoadOptions {
    LoadOptions {
        config: places.config,
        workspace: places.workspace,
        ..LoadOptions::default()
    }
}
