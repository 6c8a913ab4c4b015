//! Checks the computer: its clock, and how far tools are confined.

use std::path::Path;
use std::time::{Duration, SystemTime};

use nanobot_config::Config;
use nanobot_extract::{Extract as _, HelperProcess, PROGRAM};
use nanobot_tools::ToolsConfig;

use super::FindingList;
use crate::Runtime;
use crate::assembly::sandbox::{CommandSandbox, OFF};
use crate::error::chain;

/// Time by which files may be newer than the clock: another computer may have written them.
const CLOCK_TOLERANCE: Duration = Duration::from_hours(1);

pub(super) async fn examine(list: &mut FindingList, runtime: &Runtime) {
    clock(list, runtime.config());
    tools(list, runtime.config());
    sandbox(list, runtime).await;
    documents(list);
}

/// Reports a clock that is earlier than the newest file: it was set back or never set, and
/// reminders would be late.
fn clock(list: &mut FindingList, config: &Config) {
    let now = SystemTime::now();
    let sessions = config
        .workspace()
        .map(|workspace| workspace.join("sessions"))
        .unwrap_or_default();
    let written = [
        config.paths().config_file.clone(),
        config.paths().state_db.clone(),
    ]
    .into_iter()
    .chain(files(&sessions));
    let newest = written
        .filter_map(|path| std::fs::metadata(path).ok()?.modified().ok())
        .max();
    match newest
        .and_then(|newest| newest.duration_since(now).ok())
        .filter(|ahead| *ahead > CLOCK_TOLERANCE)
    {
        Some(ahead) => list.fault(
            "machine.clock",
            format!(
                "the clock is {} hours behind what was written last",
                ahead.as_secs() / 3600
            ),
            "Set the clock (`timedatectl set-ntp true` on many systems): reminders go by it.",
        ),
        None => list.good(
            "machine.clock",
            format!(
                "it is {}",
                chrono::Local::now().format("%Y-%m-%d %H:%M %:z")
            ),
        ),
    }
}

fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect()
}

fn tools(list: &mut FindingList, config: &Config) {
    let Ok(tools) = config.section::<ToolsConfig>("tools") else {
        return;
    };
    if !tools.restrict_to_workspace {
        list.warn(
            "tools.restricted",
            "tools.restrictToWorkspace is false: tools may read and write files everywhere",
            "Set it to true, unless the assistant is meant to work on the whole computer.",
        );
    }
}

/// Reports whether web pages, mails and PDF can be read.
fn documents(list: &mut FindingList) {
    const ID: &str = "tools.documents";
    match HelperProcess::new().check() {
        Ok(()) => list.good(ID, "web pages, mails and PDF can be read"),
        Err(error) => list.warn(
            ID,
            chain(&error),
            format!(
                "Copy {PROGRAM} from the same package or build into the folder of this program."
            ),
        ),
    }
}

/// Reports whether the sandbox of commands holds, by trying it.
async fn sandbox(list: &mut FindingList, runtime: &Runtime) {
    const ID: &str = "tools.sandbox";
    let Ok(sandbox) = CommandSandbox::of_runtime(runtime) else {
        return;
    };
    if matches!(sandbox, CommandSandbox::Off) {
        let remedy = "Remove the key, or run the gateway as a user of its own or in a container.";
        return list.warn(ID, OFF, remedy);
    }
    let described = tokio::task::spawn_blocking(move || sandbox.describe()).await;
    match described.unwrap_or_else(|error| Err(error.to_string())) {
        Ok(Some(what)) => list.good(ID, what),
        Ok(None) => {}
        Err(why) => list.warn(
            ID,
            format!("commands are refused, because they cannot be confined: {why}"),
            "Install bubblewrap (on Debian and Ubuntu: apt install bubblewrap) and allow user \
             namespaces, or set tools.exec.sandbox to \"off\" to run commands without a sandbox.",
        ),
    }
}
