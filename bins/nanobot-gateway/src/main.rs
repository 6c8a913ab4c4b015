//! The shipped gateway program, for service managers.

use std::process::ExitCode;

fn main() -> ExitCode {
    nanobot_cli::run_gateway(|runtime| runtime)
}
