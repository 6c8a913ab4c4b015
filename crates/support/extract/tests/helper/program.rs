//! A program that is nothing but the helper.

use std::process::ExitCode;

fn main() -> ExitCode {
    nanobot_extract::enter().unwrap_or(ExitCode::FAILURE)
}
