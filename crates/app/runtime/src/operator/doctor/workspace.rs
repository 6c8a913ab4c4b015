//! Checks the workspace: prompts, conversations, skills, the heartbeat's tasks.

use std::io;
use std::io::BufRead as _;
use std::path::Path;

use nanobot_skills::SkillStatus;

use super::{FindingLevel, FindingList, check_writable, counted, write_failure};
use crate::assembly::assistant::prepare;
use crate::assembly::skills::skills;
use crate::error::{MAKE_ROOM, chain, disk_failure};
use crate::operator::backlogs::Backlogs;
use crate::{Runtime, session_store};

/// Files that are part of every prompt.
const PROMPT_FILES: [&str; 5] = [
    "AGENTS.md",
    "SOUL.md",
    "USER.md",
    "TOOLS.md",
    "memory/MEMORY.md",
];
/// Size from which a file of the prompt is reported, in bytes: it makes every request expensive.
const LARGE_FILE: u64 = 64 << 10;

pub(super) fn examine(list: &mut FindingList, runtime: &Runtime) {
    let workspace = match runtime.config().workspace() {
        Ok(workspace) => workspace,
        Err(error) => return list.fault("workspace.usable", chain(&error), error.remedy()),
    };
    if !workspace.exists() {
        let what = format!("{}: there is no such folder", workspace.display());
        let remedy = format!("mkdir -p {}", workspace.display());
        let repair = || prepare(&workspace).map(drop).map_err(io::Error::other);
        return list.fixable(
            FindingLevel::Warning,
            ("workspace.usable", what),
            remedy,
            repair,
        );
    }
    match check_writable(&workspace) {
        Ok(()) => list.good(
            "workspace.usable",
            format!("{} takes files", workspace.display()),
        ),
        Err(error) => {
            let what = format!("{}: {}", workspace.display(), write_failure(&error));
            let remedy = match disk_failure(&error) {
                Some(_) => MAKE_ROOM,
                None => {
                    "Give agents.defaults.workspace the path of a folder that the user of nanobot may write to."
                }
            };
            return list.fault("workspace.usable", what, remedy);
        }
    }
    prompts(list, &workspace);
    heartbeat(list, &workspace);
    conversations(list, &workspace.join("sessions"));
    skills_of(list, runtime);
}

/// Reports messages that wait for consent to be summarised.
pub(super) async fn backlogs(list: &mut FindingList, runtime: &Runtime) {
    let Ok(store) = session_store(runtime.config()) else {
        return;
    };
    let backlogs = Backlogs::of(&store.list().await.unwrap_or_default());
    if backlogs.is_empty() {
        return;
    }
    let sessions = backlogs.largest.iter().map(ToString::to_string);
    let sessions: Vec<String> = sessions.chain(backlogs.unlisted()).collect();
    let what = format!("Not summarised: {backlogs}: {}", sessions.join("; "));
    let remedy = Some(backlogs.remedy());
    list.note(FindingLevel::Note, "sessions.summarised", what, remedy);
}

fn prompts(list: &mut FindingList, workspace: &Path) {
    for name in PROMPT_FILES {
        let path = workspace.join(name);
        match std::fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => list.fault(
                "workspace.prompts",
                format!("{}: cannot be read: {error}", path.display()),
                "Make it a file that the user of nanobot may read, or remove it: it is written anew.",
            ),
            Ok(bytes) if std::str::from_utf8(&bytes).is_err() => list.fault(
                "workspace.prompts",
                format!("{}: is not UTF-8", path.display()),
                "Save the file as UTF-8 in your editor; `nanobot memory restore` has earlier versions of the memory.",
            ),
            Ok(bytes) if bytes.len() as u64 > LARGE_FILE => list.warn(
                "workspace.prompts",
                format!("{}: {} KiB go along with every request", path.display(), bytes.len() >> 10),
                "Shorten it: move what is seldom needed into other files, which can be searched.",
            ),
            Ok(_) => {}
        }
    }
}

fn heartbeat(list: &mut FindingList, workspace: &Path) {
    let path = workspace.join("HEARTBEAT.md");
    let Ok(metadata) = std::fs::metadata(&path) else {
        return;
    };
    if metadata.len() > nanobot_heartbeat::MAX_FILE_BYTES {
        let what = format!(
            "{}: is too long for a list of tasks and is not read",
            path.display()
        );
        return list.fault(
            "heartbeat.list",
            what,
            "Keep the tasks in it, and move everything else away.",
        );
    }
    let Ok(text) = std::fs::read_to_string(&path) else {
        return;
    };
    match nanobot_heartbeat::active_tasks(&text) {
        Some(tasks) => {
            let lines = counted(tasks.lines().count(), "line");
            list.note(
                FindingLevel::Note,
                "heartbeat.list",
                format!("HEARTBEAT.md has {lines} of tasks"),
                None,
            );
        }
        None => list.good(
            "heartbeat.list",
            "HEARTBEAT.md asks for nothing, and costs nothing",
        ),
    }
}

/// Reports unreadable lines of conversations, which the assistant skips.
fn conversations(list: &mut FindingList, folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut files = 0;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        files += 1;
        match unreadable_lines(&path) {
            Ok(0) => {}
            Ok(count) => list.warn(
                "sessions.readable",
                format!("{}: {} cannot be read", path.display(), counted(count, "line")),
                "Nothing has to be done: what cannot be read is passed over, and stays in the file.",
            ),
            Err(error) => list.fault(
                "sessions.readable",
                format!("{}: cannot be read: {error}", path.display()),
                "Make it a file that the user of nanobot may read, or move it away.",
            ),
        }
    }
    list.good(
        "sessions.readable",
        format!("{} looked at", counted(files, "conversation")),
    );
}

/// Counts the lines that are not JSON objects; an incomplete last line is not counted.
fn unreadable_lines(path: &Path) -> io::Result<usize> {
    let mut reader = io::BufReader::new(std::fs::File::open(path)?);
    let (mut line, mut bad) = (Vec::new(), 0);
    while reader.read_until(b'\n', &mut line)? > 0 {
        let is_complete = line.ends_with(b"\n");
        let text = line.trim_ascii();
        let is_object =
            serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(text).is_ok();
        bad += usize::from(is_complete && !text.is_empty() && !is_object);
        line.clear();
    }
    Ok(bad)
}

fn skills_of(list: &mut FindingList, runtime: &Runtime) {
    let Ok(skills) = skills(runtime) else { return };
    let found = skills.scan();
    let count = found.len();
    for skill in found {
        if let Some(missing) = skill.missing_consent_remark() {
            list.warn(
                "skills.consent",
                format!("{}: {missing}", skill.location.display()),
                format!(
                    "Look at it, then run `nanobot skills agree \"{}\"`.",
                    skill.name
                ),
            );
        }
        let refused = match &skill.status {
            SkillStatus::Refused(why) => Some(format!("no skill is made of it: {why}")),
            _ => None,
        };
        for remark in refused.iter().chain(&skill.notes) {
            list.warn(
                "skills.usable",
                format!("{}: {remark}", skill.location.display()),
                format!("See `nanobot skills check {}`.", skill.name),
            );
        }
    }
    list.good(
        "skills.usable",
        format!("{} looked at", counted(count, "skill")),
    );
}
