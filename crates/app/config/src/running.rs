//! Whether the Python program seems to be at work on a home.
//!
//! Best effort, for a warning: it reads process tables as Linux shows them under `/proc`. Where
//! there is no such directory nothing is found.

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
    /// What it runs: `gateway` or `agent`.
    pub command: String,
}

/// A process under `proc_root` (`/proc`) that runs the Python program's `gateway` or `agent` on
/// the home of `paths`, other than process `own_pid`.
///
/// A process that names another configuration file, or whose home directory is known and is
/// another one, does not count; one whose home cannot be read does.
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

/// The strings of a file in which each ends with a zero byte.
fn texts(file: &Path) -> Option<Vec<String>> {
    let bytes = fs::read(file).ok()?;
    let texts = bytes.split(|byte| *byte == 0);
    Some(
        texts
            .map(|text| String::from_utf8_lossy(text).into_owned())
            .collect(),
    )
}

/// The subcommand, if these are the arguments of a Python interpreter that runs nanobot.
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
