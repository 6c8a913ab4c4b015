//! `nanobot gateway`.

use std::process::ExitCode;

use nanobot_runtime::LoadOptions;

use crate::arguments::GatewayArguments;
use crate::failure::Failure;
use crate::logs::Detail;
use crate::serve::{ServeOptions, serve};

/// Runs the gateway until it is told to end.
///
/// # Errors
/// As [`serve`].
pub(crate) fn gateway(load: LoadOptions, arguments: &GatewayArguments) -> Result<ExitCode, Failure> {
    let mut load = load;
    load.overrides.extend(arguments.port.map(|port| ("gateway.port".to_owned(), port.to_string())));
    let detail = if arguments.verbose { Detail::Full } else { Detail::Usual };
    serve(&ServeOptions { load, detail, json_logs: arguments.json_logs })
}
