//! A program that only runs the helper.

use std::process::ExitCode;

fn main() -> ExitCode {
    nanobot_extract::enter().unwrap_or(ExitCode::FAILURE)
}
