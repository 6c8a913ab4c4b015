//! Finds and runs Node.js and npm.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nanobot_programs::find_in_path;
use nanobot_sandbox::ProcessGroup;
use tokio::process::Command;
use tokio::time::timeout;

use crate::BridgeError;
use crate::environment::Environment;
use crate::output::{Output, Pipe};

/// Oldest version of Node.js on which the bridge runs.
const OLDEST_NODE: u32 = 20;
/// Time limit of `node --version`. It takes tens of milliseconds.
const VERSION_TIME: Duration = Duration::from_secs(20);

/// Returns the program `node` after a check of its version.
pub(crate) async fn find_node(environment: &Environment) -> Result<PathBuf, BridgeError> {
    let Some(node) = find_in_path(environment.search_path(), "node") else {
        return Err(BridgeError::Install(format!(
            "Node.js is missing, which the WhatsApp bridge needs: install version {OLDEST_NODE} \
             or later (https://nodejs.org), so that `node` and `npm` are in PATH"
        )));
    };
    let mut command = Command::new(&node);
    command
        .arg("--version")
        .env_clear()
        .envs(environment.for_bridge());
    let output = Output::new("node", environment.secrets());
    let shown = node.display();
    let failed = |why: String| BridgeError::Install(format!("cannot run {shown}: {why}"));
    let status = run(command, VERSION_TIME, &output, |_| ())
        .await
        .map_err(&failed)?;
    if !status.success() {
        return Err(failed(output.explain(&status.to_string())));
    }
    let lines = output.lines();
    let found = lines.iter().find_map(|line| Some((line, major(line)?)));
    match found {
        Some((_, number)) if number >= OLDEST_NODE => Ok(node),
        Some((version, _)) => Err(BridgeError::Install(format!(
            "Node.js is too old for the WhatsApp bridge: {shown} is {version}; install version \
             {OLDEST_NODE} or later (https://nodejs.org)"
        ))),
        None => Err(failed(output.explain("it does not tell its version"))),
    }
}

/// Returns the program `npm`.
pub(crate) fn find_npm(environment: &Environment) -> Result<PathBuf, BridgeError> {
    find_in_path(environment.search_path(), "npm").ok_or_else(|| {
        BridgeError::Install(
            "npm is missing, which installs the WhatsApp bridge: install it so that `npm` is in \
             PATH (it comes with Node.js from https://nodejs.org; Debian and Ubuntu have a \
             package `npm`)"
                .to_owned(),
        )
    })
}

/// Runs a command to its end. `on_start` gets its process id. Its output goes to `output`. The
/// command and everything that it started is killed after `limit`, and if the returned future is
/// dropped.
///
/// # Errors
/// Returns a text for a person if the command cannot be started, or exceeds the limit.
pub(crate) async fn run(
    mut command: Command,
    limit: Duration,
    output: &Output,
    on_start: impl FnOnce(u32),
) -> Result<ExitStatus, String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    ProcessGroup::lead(command.as_std_mut());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // Declared after `child`, so that it is dropped while the process id is still in use.
    let mut group = ProcessGroup::of(child.id());
    if let Some(pid) = child.id() {
        on_start(pid);
    }
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("it has no pipes".to_owned());
    };
    let waiting = async {
        let status = child.wait().await;
        // What it left running would keep the pipes open.
        group.kill();
        status
    };
    let whole = async {
        let reading = (
            output.follow(Pipe::Output, stdout),
            output.follow(Pipe::Errors, stderr),
        );
        tokio::join!(waiting, reading.0, reading.1).0
    };
    match timeout(limit, whole).await {
        Ok(status) => status.map_err(|error| error.to_string()),
        Err(_elapsed) => Err(format!("it took more than {} seconds", limit.as_secs())),
    }
}

/// Returns the number `20` of `v20.1.0`.
fn major(version: &str) -> Option<u32> {
    version
        .trim()
        .strip_prefix('v')?
        .split('.')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_is_read() {
        let cases = [
            ("v20.20.2", Some(20)),
            ("v8", Some(8)),
            (" v22.0.0-nightly ", Some(22)),
            ("20.1.0", None),
            ("v", None),
            ("v99999999999.1", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(major(text), expected, "{text:?}");
        }
    }
}
