//! A program that only runs the helper.

use std::process::ExitCode;

fn main() -> ExitCode {
    nanobot_extract::enter(nanobot_formats::read).unwrap_or(ExitCode::FAILURE)
}
