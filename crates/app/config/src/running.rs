//! Detects a running Python program that uses the same home.
//!
//! Best effort, for a warning: it reads Linux's process table in `/proc`. Without that directory
//! nothing is found.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Paths;

/// A process that looks like the Python program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningProgram {
    /// Its process id.
    pub pid: u32,
    /// Its subcommand: `gateway` or `agent`.
    pub command: String,
}

/// Finds a process under `proc_root` (`/proc`) that runs the Python program's `gateway` or `agent`
/// on the home of `paths`, other than process `own_pid`.
///
/// A process that names another configuration file, or whose home directory is known and differs,
/// does not count; one whose home directory cannot be read does.
#[must_use]
pub fn running_python_program(
    proc_root: &Path,
    own_pid: u32,
    paths: &Paths,
) -> Option<RunningProgram> {
    let mut processes: Vec<(u32, PathBuf)> = fs::read_dir(proc_root)
        .ok()?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let pid = path.file_name()?.to_str()?.parse().ok()?;
            Some((pid, path))
        })
        .filter(|(pid, _)| *pid != own_pid)
        .collect();
    processes.sort();
    processes.into_iter().find_map(|(pid, process)| {
        let arguments = texts(&process.join("cmdline"))?;
        let command = python_command(&arguments)?;
        is_on_home(&process, &arguments, paths).then(|| RunningProgram {
            pid,
            command: command.to_owned(),
        })
    })
}

/// Reads the NUL-terminated strings of a file.
fn texts(file: &Path) -> Option<Vec<String>> {
    let bytes = fs::read(file).ok()?;
    let texts = bytes.split(|byte| *byte == 0);
    Some(
        texts
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .collect(),
    )
}

/// Returns the subcommand, if these are the arguments of a Python interpreter that runs nanobot.
fn python_command(arguments: &[String]) -> Option<&str> {
    let (interpreter, rest) = arguments.split_first()?;
    let name = |text: &str| {
        let name = Path::new(text).file_name().and_then(OsStr::to_str);
        name.unwrap_or_default().to_lowercase()
    };
    if !name(interpreter).starts_with("python") {
        return None;
    }
    let script = rest
        .iter()
        .position(|argument| name(argument) == "nanobot")?;
    rest.iter()
        .skip(script + 1)
        .map(String::as_str)
        .find(|argument| matches!(*argument, "gateway" | "agent"))
}

fn is_on_home(process: &Path, arguments: &[String], paths: &Paths) -> bool {
    let mut after_flag = false;
    for argument in arguments {
        let named = match argument.split_once('=') {
            Some(("--config", value)) => Some(value),
            _ if after_flag => Some(argument.as_str()),
            _ => None,
        };
        if let Some(file) = named {
            let file = if file.starts_with('~') {
                paths.expand(file)
            } else {
                let cwd = fs::read_link(process.join("cwd")).unwrap_or_default();
                cwd.join(file)
            };
            return file == paths.config_file;
        }
        after_flag = matches!(argument.as_str(), "--config" | "-c");
    }
    let environment = texts(&process.join("environ")).unwrap_or_default();
    let home = environment
        .iter()
        .find_map(|variable| variable.strip_prefix("HOME="));
    home.is_none_or(|home| {
        Path::new(home).join(".nanobot").join("config.json") == paths.config_file
    })
}
