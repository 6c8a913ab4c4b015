//! Checks the home: the ledger, undelivered messages, jobs, pairings, logs, free disk space.

use std::path::Path;

use nanobot_bus::LedgerFilter;
use nanobot_channels::PairingStore;
use nanobot_config::{Config, running_python_program};
use nanobot_cron::RunStatus;
use nanobot_state::StateDb;

use super::{
    FindingLevel, FindingList, GatewayReached, check_writable, counted, data_dir, write_failure,
};
use crate::Inbox;
use crate::assembly::cron::JobScheduling;
use crate::error::{MAKE_ROOM, chain, disk_failure};

/// Free space below which the disk is reported as nearly full, in bytes.
const LOW_SPACE: u64 = 1 << 30;
/// Free space below which the disk is reported as full, in bytes.
const NO_SPACE: u64 = 100 << 20;
/// Free space below which the ledger is not opened, in bytes. Opening it takes up to 100 KiB.
const LEDGER_SPACE: u64 = 1 << 20;
/// Maximum number of messages to count.
const MAX_COUNTED: usize = 10_000;

pub(super) async fn examine(list: &mut FindingList, config: &Config, gateway: &GatewayReached) {
    let home = data_dir(config);
    let mut is_writable = true;
    if home.exists() {
        match check_writable(home) {
            Ok(()) => list.good("home.writable", format!("{} takes files", home.display())),
            Err(error) => {
                is_writable = false;
                let remedy = match disk_failure(&error) {
                    Some(_) => MAKE_ROOM,
                    None => "Give the folder to the user that runs nanobot.",
                };
                let what = format!("{}: {}", home.display(), write_failure(&error));
                list.fault("home.writable", what, remedy);
            }
        }
    }
    // The home of a fresh installation will be on the disk of its nearest existing ancestor.
    let folder = home.ancestors().find(|folder| folder.exists());
    let free = folder.and_then(free_space);
    if let Some((folder, free)) = folder.zip(free) {
        disk_space(list, folder, free);
    }
    let has_room = free.is_none_or(|free| free >= LEDGER_SPACE);
    logs(list, &config.paths().logs);
    other_program(list, config);
    state(list, config, gateway, is_writable && has_room).await;
    jobs(list, config);
    pairings(list, home);
}

/// Returns the space on the disk of a folder that is free for this user, in bytes.
#[cfg(unix)]
#[cfg_attr(
    target_os = "linux",
    expect(
        clippy::useless_conversion,
        reason = "blocks are counted in 32 bits on macOS"
    )
)]
fn free_space(folder: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(folder).ok()?;
    Some(u64::from(disk.blocks_available()).saturating_mul(disk.fragment_size()))
}

#[cfg(not(unix))]
fn free_space(_folder: &Path) -> Option<u64> {
    None
}

fn disk_space(list: &mut FindingList, home: &Path, free: u64) {
    let what = format!(
        "{} MiB are free on the disk of {}",
        free >> 20,
        home.display()
    );
    let remedy = "Make room: `nanobot status` says what the home takes, `retention` in the configuration what it keeps.";
    match free {
        0..NO_SPACE => list.fault("disk.room", what, remedy),
        NO_SPACE..LOW_SPACE => list.warn("disk.room", what, remedy),
        _ => list.good("disk.room", what),
    }
}

fn logs(list: &mut FindingList, folder: &Path) {
    if !folder.exists() {
        return;
    }
    if let Err(error) = check_writable(folder) {
        let words = disk_failure(&error).map_or_else(
            || format!("no log can be written there: {error}"),
            str::to_owned,
        );
        let what = format!("{}: {words}", folder.display());
        let remedy = match disk_failure(&error) {
            Some(_) => MAKE_ROOM,
            None => "Make it a folder that the user of nanobot may write to, or remove it.",
        };
        list.fault("logs.writable", what, remedy);
    }
}

fn other_program(list: &mut FindingList, config: &Config) {
    let Some(program) =
        running_python_program(Path::new("/proc"), std::process::id(), config.paths())
    else {
        return;
    };
    list.fault(
        "home.shared",
        format!(
            "the Python program runs on this home, too (process {})",
            program.pid
        ),
        "Stop one of them: two assistants on one home answer everything twice.",
    );
}

/// Checks the ledger, if files can be created next to it: reading it may need some, and they would
/// remain on a full disk.
async fn state(list: &mut FindingList, config: &Config, gateway: &GatewayReached, can_write: bool) {
    let path = &config.paths().state_db;
    if !path.exists() {
        return;
    }
    if !can_write {
        let why = "while nothing can be written next to it";
        return unchecked(list, path, why);
    }
    match StateDb::examine(path) {
        Err(error) if error.is_io() => return unchecked(list, path, &format!("now: {}", chain(&error))),
        Ok(None) => list.good("state.whole", format!("{} is whole", path.display())),
        Ok(Some(damage)) => list.fault(
            "state.whole",
            format!("{} is damaged: {damage}", path.display()),
            "Start the gateway: it moves the file aside and begins a new one. Messages that waited in the old one are \
             in it; conversations are not.",
        ),
        Err(error) => list.fault(
            "state.whole",
            chain(&error),
            "Use the version of nanobot that wrote it, or move the file away.",
        ),
    }
    if let Some((uncertain, failed)) = count_unsettled(config, gateway).await
        && uncertain + failed > 0
    {
        list.warn(
            "inbox.settled",
            unsettled(uncertain, failed),
            "Look at them with `nanobot inbox`, then retry or drop them.",
        );
    }
}

/// Returns the line about messages that a person has to decide about.
fn unsettled(uncertain: usize, failed: usize) -> String {
    let counts = [(uncertain, "uncertain"), (failed, "given up")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts
        .map(|(count, state)| format!("{count} {state}"))
        .collect();
    format!("messages in the inbox: {}", counts.join(", "))
}

/// Reports that the ledger cannot be read for a reason outside of it.
fn unchecked(list: &mut FindingList, path: &Path, why: &str) {
    list.warn(
        "state.whole",
        format!("{} cannot be checked {why}", path.display()),
        "Leave it where it is: it holds the messages that wait. Make its folder writable or make room, then check \
         again.",
    );
}

async fn count_unsettled(config: &Config, gateway: &GatewayReached) -> Option<(usize, usize)> {
    let gateway = gateway.as_ref().ok()?.clone();
    let inbox = Inbox::through(config, gateway).await.ok()?;
    let uncertain = inbox
        .entries(&[LedgerFilter::Uncertain], MAX_COUNTED)
        .await
        .ok()?
        .len();
    let failed = inbox
        .entries(&[LedgerFilter::Failed], MAX_COUNTED)
        .await
        .ok()?
        .len();
    inbox.close().await;
    Some((uncertain, failed))
}

fn jobs(list: &mut FindingList, config: &Config) {
    let scheduling = match JobScheduling::of(config) {
        Ok(scheduling) => scheduling,
        Err(error) => {
            let remedy = "Write an IANA name such as Europe/Berlin, or remove the key to use the zone of this computer.";
            return list.fault("cron.timezone", chain(&error), remedy);
        }
    };
    list.good(
        "cron.timezone",
        format!("times of jobs are in {}", scheduling.zone),
    );
    let path = scheduling.store.path().display().to_string();
    match scheduling.store.read() {
        Err(error) => list.fault(
            "cron.jobs",
            chain(&error),
            format!("Correct {path} or move it away: no job runs until then, and the file is left as it is."),
        ),
        Ok(jobs) => {
            if jobs.unreadable() > 0 {
                list.warn(
                    "cron.jobs",
                    format!("{path}: {} cannot be read and will not run", counted(jobs.unreadable(), "job")),
                    format!("Correct {path}: it needs an id and a schedule, and times are whole numbers."),
                );
            }
            let enabled = || jobs.iter().filter(|job| job.enabled);
            for (job, error) in enabled().filter_map(|job| Some((job, job.schedule.schedule(scheduling.zone).err()?))) {
                list.warn(
                    "cron.schedules",
                    format!("the job '{}' cannot run: {error}", job.name),
                    format!("Correct it in {path}, or take it away with `nanobot cron remove {}`.", job.id),
                );
            }
            for (job, key) in
                enabled().flat_map(|job| job.schedule.without_effect().into_iter().map(move |key| (job, key)))
            {
                list.warn(
                    "cron.keys",
                    format!(
                        "the job '{}': schedule.{key} has no effect with the kind '{}'",
                        job.name, job.schedule.kind
                    ),
                    format!("Take it out of {path}, or change the kind."),
                );
            }
            for job in enabled().filter(|job| job.state.last_status == Some(RunStatus::Error)) {
                let why = job.state.last_error.as_deref().unwrap_or("for a reason that is not on record");
                list.warn(
                    "cron.runs",
                    format!("the job '{}' failed the last time: {why}", job.name),
                    format!("See `nanobot cron show {0}` and `nanobot cron history {0}`.", job.id),
                );
            }
        }
    }
}

fn pairings(list: &mut FindingList, home: &Path) {
    let store = PairingStore::in_folder(home);
    if !store.path().exists() {
        return;
    }
    match store.list(chrono::Utc::now()) {
        Ok(pairings) => {
            let people = pairings.approved.len();
            list.note(
                FindingLevel::Note,
                "access.paired",
                format!("people that are paired: {people} (`nanobot pairing list`)"),
                None,
            );
        }
        Err(error) => list.fault(
            "access.paired",
            chain(&error),
            "Until the file can be read, paired people have no access. Correct or remove it, and pair again.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::DoctorOptions;
    use super::*;

    #[test]
    fn only_states_that_occur_are_counted() {
        assert_eq!(unsettled(2, 0), "messages in the inbox: 2 uncertain");
        assert_eq!(unsettled(0, 1), "messages in the inbox: 1 given up");
        let both = "messages in the inbox: 2 uncertain, 1 given up";
        assert_eq!(unsettled(2, 1), both);
    }

    #[test]
    fn scarce_room_on_the_disk_is_reported() {
        let level = |free| {
            let mut list = FindingList {
                doctor: DoctorOptions::default(),
                findings: Vec::new(),
            };
            disk_space(&mut list, Path::new("/home"), free);
            list.findings.remove(0).severity
        };
        assert_eq!(level(0), FindingLevel::Fault);
        assert_eq!(level(NO_SPACE - 1), FindingLevel::Fault);
        assert_eq!(level(NO_SPACE), FindingLevel::Warning);
        assert_eq!(level(LOW_SPACE - 1), FindingLevel::Warning);
        assert_eq!(level(LOW_SPACE), FindingLevel::Good);
    }
}
