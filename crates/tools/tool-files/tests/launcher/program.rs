//! A program that is only a launcher of confined processes.

use std::process::ExitCode;

fn main() -> ExitCode {
    nanobot_sandbox::enter().unwrap_or(ExitCode::FAILURE)
}
