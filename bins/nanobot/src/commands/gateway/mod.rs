//! `nanobot gateway`: runs it, and looks after one that runs.

mod log_file;
mod remote;
mod service;

use std::process::ExitCode;

use nanobot_runtime::LoadOptions;

use crate::arguments::{GatewayArguments, GatewayCommand};
use crate::failure::Failure;
use crate::logs::Detail;
use crate::serve::{ServeOptions, serve};

/// Runs the gateway until it is told to end, or does something about one that runs.
///
/// # Errors
/// As [`serve`], and when the gateway that runs does not do what it is told.
pub(crate) fn gateway(load: LoadOptions, arguments: &GatewayArguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        None => run(load, arguments),
        Some(GatewayCommand::Status { json }) => remote::status(&load, *json),
        Some(GatewayCommand::Logs { lines, follow }) => log_file::logs(&load, *lines, *follow),
        Some(GatewayCommand::Stop) => remote::stop(&load),
        Some(GatewayCommand::Restart) => remote::restart(&load),
        Some(GatewayCommand::InstallService { dry_run }) => service::install(&load, *dry_run),
        Some(GatewayCommand::UninstallService { dry_run }) => service::uninstall(&load, *dry_run),
    }
}

fn run(load: LoadOptions, arguments: &GatewayArguments) -> Result<ExitCode, Failure> {
    let mut load = load;
    load.overrides.extend(arguments.port.map(|port| ("gateway.port".to_owned(), port.to_string())));
    let detail = if arguments.verbose { Detail::Full } else { Detail::Usual };
    serve(&ServeOptions { load, detail, json_logs: arguments.json_logs })
}
