//! The last step before a command: this program, started again inside the sandbox, sets limits and
//! filters on itself and becomes the shell.

use std::{
    env, io,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use serde::{Deserialize, Serialize};

use crate::{Limits, probe, view::View};

/// Hidden argument that makes a program run as the launcher.
pub(crate) const ARGUMENT: &str = "__run-command";

/// Set by [`enter`]. Without that call, starting this program again would not start a launcher but
/// run the whole program a second time. This is global because it is a property of `main`.
static HAS_ENTRY: AtomicBool = AtomicBool::new(false);

/// Returns this program, as the launcher of its commands.
///
/// # Errors
/// Returns an error if its `main` does not call [`enter`], or if its path is not known.
pub fn this_program() -> io::Result<PathBuf> {
    if !HAS_ENTRY.load(Ordering::Relaxed) {
        return Err(io::Error::other(
            "this program cannot confine commands: its main does not call nanobot_sandbox::enter",
        ));
    }
    env::current_exe()
}

/// What the launcher has to do before it becomes the shell.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) limits: Limits,
    /// The view that Landlock has to enforce; `None` inside bubblewrap.
    pub(crate) landlock: Option<View>,
    pub(crate) task: Task,
}

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// A script, with the system's shell.
    Script(String),
    /// Attempts to do what the view forbids.
    Probe(probe::Attempts),
}

/// Runs the launcher if this process was started as one. Call this first in `main`, before
/// arguments are parsed and threads are started.
///
/// In the launcher this becomes the shell and does not return; if that fails, it returns the exit
/// code for `main`, 126. In any other process it returns `None`.
#[must_use]
pub fn enter() -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != ARGUMENT) {
        HAS_ENTRY.store(true, Ordering::Relaxed);
        return None;
    }
    let plan = arguments.next().and_then(|plan| plan.into_string().ok());
    Some(launch(&plan.unwrap_or_default()))
}

#[cfg(target_os = "linux")]
fn launch(plan: &str) -> ExitCode {
    use std::io::Write as _;

    let failure = match serde_json::from_str::<Plan>(plan) {
        Ok(plan) => linux::run(plan),
        Err(error) => Err(error.to_string()),
    };
    match failure {
        Ok(code) => code,
        Err(reason) => {
            let message = format!("nanobot: the command was not started: {reason}\n");
            // If this cannot be written, the exit code alone tells.
            drop(io::stderr().write_all(message.as_bytes()));
            ExitCode::from(126)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn launch(_plan: &str) -> ExitCode {
    ExitCode::from(126)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        env,
        os::unix::process::CommandExt as _,
        path::Path,
        process::{Command, ExitCode},
    };

    use super::{Plan, Task};
    use crate::{
        landlock_rules, probe,
        seccomp::{self, Sockets},
    };

    pub(super) fn run(plan: Plan) -> Result<ExitCode, String> {
        let limits = |error| format!("a limit cannot be set: {error}");
        plan.limits.set(plan.landlock.is_some()).map_err(limits)?;
        let sockets = match &plan.landlock {
            None => Sockets::All,
            Some(view) => {
                let scratch = env::var_os("TMPDIR").ok_or("TMPDIR is not set")?;
                landlock_rules::confine(view, Path::new(&scratch))?;
                if view.has_network() {
                    Sockets::Internet
                } else {
                    Sockets::None
                }
            }
        };
        seccomp::confine(sockets)?;
        match plan.task {
            Task::Script(script) => {
                let error = Command::new("/bin/sh").arg("-c").arg(script).exec();
                Err(format!("/bin/sh: {error}"))
            }
            Task::Probe(attempts) => probe::attempt(&attempts).map_err(|error| error.to_string()),
        }
    }
}
