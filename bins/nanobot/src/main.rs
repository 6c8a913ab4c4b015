//! The shipped program: all commands, with the shipped channels, tools and providers.

use std::process::ExitCode;

fn main() -> ExitCode {
    nanobot_cli::run(|runtime| runtime)
}
