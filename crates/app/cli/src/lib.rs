//! The command line of nanobot, for any program that is built from its runtime.
//!
//! Parses the arguments, dispatches, and turns failures into messages and exit codes. Nothing is
//! built before the arguments are parsed: no async runtime, no TLS, no log. A program of your own
//! adds its parts:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     // Every command and the gateway, with one more library of skills.
//!     nanobot_cli::run(|runtime| runtime.skills("/usr/share/my-assistant/skills"))
//! }
//! ```

mod arguments;
mod ask;
mod commands;
mod failure;
mod gateway_program;
mod logs;
mod output;
mod serve;
mod sign_in;
mod signals;
mod terminal;
mod version;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use arguments::{Cli, Command, Places};
use failure::{CommandFailure, USAGE};
pub use gateway_program::run_gateway;
pub use nanobot_runtime::RuntimeBuilder;
use nanobot_runtime::{LoadOptions, Runtime};

/// Runs the command that the arguments of this process name. `extend` adds the channels, tools and
/// providers of the program; it is called once, after the arguments are parsed.
///
/// Call it first in `main`: it hardens the process, and in a process that was started to confine a
/// command it does that instead.
pub fn run(extend: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> ExitCode {
    program(|cli: Cli| dispatch(cli, extend))
}

/// Parses the arguments of this process, runs it, and reports a failure.
fn program<A: Parser>(run: impl FnOnce(A) -> Result<ExitCode, CommandFailure>) -> ExitCode {
    nanobot_runtime::harden_process();
    if let Some(code) = nanobot_runtime::enter() {
        return code;
    }
    output::report_panics();
    let arguments = match A::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // If this cannot be written, there is no place left to report it.
            drop(error.print());
            return if error.use_stderr() {
                ExitCode::from(USAGE)
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    run(arguments).unwrap_or_else(|failure| {
        if let CommandFailure::Said { .. } = failure {
            output::note(&failure.to_string());
        }
        failure.exit_code()
    })
}

fn dispatch(
    cli: Cli,
    extend: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder,
) -> Result<ExitCode, CommandFailure> {
    if cli.version > 0 {
        output::line(&match cli.version {
            1 => version::version(),
            _ => version::build_facts(),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(command) = cli.command else {
        output::write(&Cli::command().render_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    };
    let program = &extend(Runtime::builder(load_options(cli.places)));
    match command {
        Command::Onboard(arguments) => commands::onboard(program, &arguments),
        Command::Agent(arguments) => commands::agent(program, arguments),
        Command::Gateway(arguments) => commands::gateway(program, &arguments),
        Command::Doctor(arguments) => commands::doctor(program, &arguments),
        Command::Status(arguments) => commands::status(program, &arguments),
        Command::Inbox(arguments) => commands::inbox(program, &arguments),
        Command::Audit(arguments) => commands::audit(program, &arguments),
        Command::Replay(arguments) => commands::replay(program, &arguments),
        Command::Sessions(command) => commands::sessions(program, command),
        Command::Skills(command) => commands::skills(program, &command),
        Command::Mcp(command) => commands::mcp(program, command),
        Command::Models(command) => commands::models(program, command),
        Command::Provider(command) => commands::provider(program, command),
        Command::Tools(command) => commands::tools(program, command),
        Command::Memory(command) => commands::memory(program, command),
        Command::Cron(command) => commands::cron(program, command),
        Command::Approvals(command) => commands::approvals(program, command),
        Command::Pairing(command) => commands::pairing(program, command),
        Command::Channels(command) => commands::channels(program, command),
        Command::Config(command) => commands::config(program, &command),
        Command::Usage(arguments) => commands::usage(program, &arguments),
        Command::Update(arguments) => commands::update(program, &arguments),
        Command::Completions(arguments) => commands::completions(Cli::command(), &arguments),
        Command::Man(arguments) => commands::manual(Cli::command(), &arguments),
    }
}

fn load_options(places: Places) -> LoadOptions {
    LoadOptions {
        config: places.config,
        workspace: places.workspace,
        ..LoadOptions::default()
    }
}
