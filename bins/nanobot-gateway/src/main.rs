//! The gateway alone, for service managers: `nanobot gateway` without the terminal.
//!
//! Decision: both programs compile the same few modules rather than sharing a library, because crates
//! of the top floor do not use each other, and this one needs no line editor and no Markdown.

#[path = "../../nanobot/src/failure.rs"]
mod failure;
#[path = "../../nanobot/src/logs.rs"]
mod logs;
#[path = "../../nanobot/src/output.rs"]
#[expect(dead_code, reason = "the rest is for the program with a terminal")]
mod output;
#[path = "../../nanobot/src/serve.rs"]
mod serve;
#[path = "../../nanobot/src/signals.rs"]
mod signals;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use failure::{Failure, USAGE};
use logs::Detail;
use nanobot_runtime::LoadOptions;
use serve::ServeOptions;

/// Runs the nanobot gateway: channels, health endpoint, assistant.
#[derive(Debug, Parser)]
#[command(name = "nanobot-gateway", version)]
struct Arguments {
    /// Configuration file; its directory holds state, logs and media
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Workspace directory, instead of the configured one
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<String>,
    /// Port of the health endpoint, instead of the configured one
    #[arg(short, long)]
    port: Option<u16>,
    /// Log in detail
    #[arg(short, long)]
    verbose: bool,
    /// Log to standard error as JSON, one object a line
    #[arg(long)]
    json_logs: bool,
}

fn main() -> ExitCode {
    nanobot_runtime::harden_process();
    if let Some(code) = nanobot_runtime::enter() {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
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
    let overrides = arguments
        .port
        .map(|port| ("gateway.port".to_owned(), port.to_string()));
    let options = ServeOptions {
        load: LoadOptions {
            config: arguments.config,
            workspace: arguments.workspace,
            overrides: overrides.into_iter().collect(),
            ..LoadOptions::default()
        },
        detail: if arguments.verbose {
            Detail::Full
        } else {
            Detail::Usual
        },
        json_logs: arguments.json_logs,
    };
    serve::serve(&options).unwrap_or_else(|failure| {
        if let Failure::Said { .. } = failure {
            output::note(&failure.to_string());
        }
        failure.exit_code()
    })
}
