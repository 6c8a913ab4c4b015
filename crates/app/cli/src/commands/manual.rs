//! `nanobot man`: prints the manual page, or writes those of all commands into a folder, for
//! packages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::failure::CommandFailure;
use crate::output;
use crate::version::VERSION;

/// Options of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManualArguments {
    /// Write the pages of all commands into this folder, and print their names
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Prints the page of `program`, or writes all pages.
///
/// # Errors
/// Returns an error if a page cannot be written.
pub(crate) fn manual(
    program: Command,
    arguments: &ManualArguments,
) -> Result<ExitCode, CommandFailure> {
    let mut program = program.version(VERSION);
    program.build();
    let Some(folder) = &arguments.to else {
        let mut page = Vec::new();
        Man::new(program).render(&mut page)?;
        output::write(&String::from_utf8_lossy(&page))?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut names = Vec::new();
    write_pages(&program, folder, &mut names).map_err(|error| {
        let remedy = "Give a folder that exists and that you may write to.";
        CommandFailure::unwritable(folder, &error, remedy)
    })?;
    for name in names {
        output::line(&name)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command, and those of its subcommands, and appends their names.
fn write_pages(command: &Command, folder: &Path, names: &mut Vec<String>) -> io::Result<()> {
    let parts = command
        .get_subcommands()
        .filter(|part| !part.is_hide_set() && part.get_name() != "help");
    for part in parts {
        write_pages(part, folder, names)?;
    }
    let page = Man::new(command.clone());
    let name = page.get_filename();
    let mut text = Vec::new();
    page.render(&mut text)?;
    fs::write(folder.join(&name), text)?;
    names.push(name);
    Ok(())
}
