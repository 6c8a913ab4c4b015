//! The gateway program for service managers: `nanobot gateway` without the other commands.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nanobot_runtime::{LoadOptions, Runtime, RuntimeBuilder};

use crate::logs::Detail;
use crate::serve::{self, ServeOptions};

/// Runs the nanobot gateway: channels, health endpoint, assistant.
#[derive(Debug, Parser)]
#[command(name = "nanobot-gateway", version)]
struct GatewayProgramArguments {
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

/// Runs the gateway with the arguments of this process. `extend` adds the channels, tools and
/// providers of the program. Call it first in `main`, like [`run`](crate::run).
pub fn run_gateway(extend: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> ExitCode {
    crate::program(|arguments: GatewayProgramArguments| {
        let load = LoadOptions {
            config: arguments.config,
            workspace: arguments.workspace,
            ..LoadOptions::default()
        };
        let program = extend(Runtime::builder(load));
        serve::serve(&ServeOptions {
            program: serve::with_port(program, arguments.port),
            detail: match arguments.verbose {
                true => Detail::Full,
                false => Detail::Usual,
            },
            json_logs: arguments.json_logs,
        })
    })
}
