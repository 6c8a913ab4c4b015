//! The shipped gateway alone, for service managers.

use std::process::ExitCode;

fn main() -> ExitCode {
    nanobot_cli::run_gateway(|runtime| runtime)
}
