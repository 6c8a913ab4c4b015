//! `nanobot gateway`: runs the gateway, and manages a running one.

mod log_file;
mod remote;
mod service;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use nanobot_runtime::RuntimeBuilder;

use self::service::ServiceManager;
use crate::failure::CommandFailure;
use crate::logs::Detail;
use crate::serve::{ServeOptions, serve, with_port};

/// Options of `gateway`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct GatewayArguments {
    /// Port of the health endpoint, instead of the configured one
    #[arg(short, long)]
    port: Option<u16>,
    /// Log in detail
    #[arg(short, long)]
    verbose: bool,
    /// Log to standard error as JSON, one object a line
    #[arg(long)]
    json_logs: bool,
    /// What to do about a gateway, instead of running one
    #[command(subcommand)]
    command: Option<GatewayCommand>,
}

/// Subcommands of `nanobot gateway`.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Show the state of the gateway and its channels; exit code 1 if it does not run
    Status {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Show the last lines of the gateway's log
    Logs {
        /// How many
        #[arg(short = 'n', long, default_value_t = 50)]
        lines: usize,
        /// Print new lines as they are written, until Ctrl-C
        #[arg(short, long)]
        follow: bool,
    },
    /// Stop the gateway gracefully
    Stop,
    /// Restart the gateway with the present configuration and program
    Restart,
    /// Run the gateway as a service of this user (systemd, launchd)
    InstallService {
        /// Print what would be written and run, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Print the systemd unit for a program at this path, for packages
        #[arg(long, value_name = "PROGRAM", hide = true, conflicts_with = "dry_run")]
        unit_for: Option<PathBuf>,
        /// Print the launchd agent for a program at this path, for packages
        #[arg(long, value_name = "PROGRAM", hide = true, conflicts_with_all = ["dry_run", "unit_for"])]
        agent_for: Option<PathBuf>,
    },
    /// Remove the service
    UninstallService {
        /// Only show what would be removed and run
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs the gateway until it is stopped, or runs a subcommand on a running one.
///
/// # Errors
/// Returns the errors of [`serve`], and an error if the running gateway does not comply.
pub(crate) fn gateway(
    program: &RuntimeBuilder,
    arguments: &GatewayArguments,
) -> Result<ExitCode, CommandFailure> {
    match &arguments.command {
        None => run(program, arguments),
        Some(GatewayCommand::Status { json }) => remote::status(program, *json),
        Some(GatewayCommand::Logs { lines, follow }) => log_file::logs(program, *lines, *follow),
        Some(GatewayCommand::Stop) => remote::stop(program),
        Some(GatewayCommand::Restart) => remote::restart(program),
        Some(GatewayCommand::InstallService {
            unit_for: Some(executable),
            ..
        }) => service::print_for_packages(ServiceManager::Systemd, executable),
        Some(GatewayCommand::InstallService {
            agent_for: Some(executable),
            ..
        }) => service::print_for_packages(ServiceManager::Launchd, executable),
        Some(GatewayCommand::InstallService { dry_run, .. }) => service::install(program, *dry_run),
        Some(GatewayCommand::UninstallService { dry_run }) => service::uninstall(program, *dry_run),
    }
}

/// Installs the gateway as a service of this user.
///
/// # Errors
/// Returns an error if the service cannot be written, or its manager refuses it.
pub(crate) fn install_service(program: &RuntimeBuilder) -> Result<ExitCode, CommandFailure> {
    service::install(program, false)
}

fn run(program: &RuntimeBuilder, arguments: &GatewayArguments) -> Result<ExitCode, CommandFailure> {
    let program = with_port(program.clone(), arguments.port);
    let detail = if arguments.verbose {
        Detail::Full
    } else {
        Detail::Usual
    };
    serve(&ServeOptions {
        program,
        detail,
        json_logs: arguments.json_logs,
    })
}
