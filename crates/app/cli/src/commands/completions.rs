//! `nanobot completions`: prints the script that completes commands and options in a shell.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::CommandFailure;
use crate::output;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// Shell to print the script for
    shell: Shell,
}

/// Prints the script for `program`.
///
/// # Errors
/// Returns an error if standard output cannot be written.
pub(crate) fn completions(
    mut program: Command,
    arguments: &CompletionsArguments,
) -> Result<ExitCode, CommandFailure> {
    let name = program.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, name, &mut script);
    output::write(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
