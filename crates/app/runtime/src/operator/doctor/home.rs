//! Checks the home: the ledger, undelivered messages, jobs, pairings, logs, free disk space.

use std::path::Path;

use nanobot_bus::LedgerFilter;
use nanobot_channels::PairingStore;
use nanobot_config::{Config, running_python_program};
use nanobot_cron::RunStatus;
use nanobot_state::StateDb;

use super::{FindingLevel, FindingList, counted, data_dir, takes_files};
use crate::Inbox;
use crate::assembly::cron::JobScheduling;
use crate::error::chain;

/// Free space below which the disk is reported as nearly full, in bytes.
const SCARCE: u64 = 1 << 30;
/// Free space below which the disk is reported as full, in bytes.
const NOTHING: u64 = 100 << 20;
/// Maximum number of messages to count.
const COUNTED: usize = 10_000;

pub(super) async fn examine(chart: &mut FindingList, config: &Config) {
    let home = data_dir(config);
    if home.exists() {
        match takes_files(home) {
            Ok(()) => chart.good("home.writable", format!("{} takes files", home.display())),
            Err(error) => chart.fault(
                "home.writable",
                format!("{}: no file can be written there: {error}", home.display()),
                "Give the folder to the user that runs nanobot, and make room on its disk.",
            ),
        }
    }
    // The home of a fresh installation will be on the disk of its nearest existing ancestor.
    if let Some(folder) = home.ancestors().find(|folder| folder.exists()) {
        room(chart, folder);
    }
    logs(chart, &config.paths().logs);
    other_program(chart, config);
    state(chart, config).await;
    jobs(chart, config);
    pairings(chart, home);
}

#[cfg(unix)]
#[cfg_attr(
    target_os = "linux",
    expect(
        clippy::useless_conversion,
        reason = "blocks are counted in 32 bits on macOS"
    )
)]
fn room(chart: &mut FindingList, home: &Path) {
    let Ok(disk) = nix::sys::statvfs::statvfs(home) else {
        return;
    };
    let free = u64::from(disk.blocks_available()).saturating_mul(disk.fragment_size());
    let what = format!(
        "{} MiB are free on the disk of {}",
        free >> 20,
        home.display()
    );
    let remedy = "Make room: `nanobot status` says what the home takes, `retention` in the configuration what it keeps.";
    match free {
        0..NOTHING => chart.fault("disk.room", what, remedy),
        NOTHING..SCARCE => chart.warn("disk.room", what, remedy),
        _ => chart.good("disk.room", what),
    }
}

#[cfg(not(unix))]
fn room(_chart: &mut FindingList, _home: &Path) {}

fn logs(chart: &mut FindingList, folder: &Path) {
    if !folder.exists() {
        return;
    }
    if let Err(error) = takes_files(folder) {
        let what = format!("{}: no log can be written there: {error}", folder.display());
        chart.fault(
            "logs.writable",
            what,
            "Make it a folder that the user of nanobot may write to, or remove it.",
        );
    }
}

fn other_program(chart: &mut FindingList, config: &Config) {
    let Some(program) =
        running_python_program(Path::new("/proc"), std::process::id(), config.paths())
    else {
        return;
    };
    chart.fault(
        "home.shared",
        format!(
            "the Python program runs on this home, too (process {})",
            program.pid
        ),
        "Stop one of them: two assistants on one home answer everything twice.",
    );
}

async fn state(chart: &mut FindingList, config: &Config) {
    let path = &config.paths().state_db;
    if !path.exists() {
        return;
    }
    match StateDb::examine(path) {
        Ok(None) => chart.good("state.whole", format!("{} is whole", path.display())),
        Ok(Some(damage)) => chart.fault(
            "state.whole",
            format!("{} is damaged: {damage}", path.display()),
            "Start the gateway: it moves the file aside and begins a new one. Messages that waited in the old one are \
             in it; conversations are not.",
        ),
        Err(error) => chart.fault(
            "state.whole",
            chain(&error),
            "Use the version of nanobot that wrote it, or move the file away.",
        ),
    }
    if let Some((uncertain, failed)) = waiting(config).await
        && uncertain + failed > 0
    {
        chart.warn(
            "inbox.settled",
            format!(
                "{} uncertain, {failed} given up",
                counted(uncertain, "message")
            ),
            "Look at them with `nanobot inbox`, then retry or discard them.",
        );
    }
}

async fn waiting(config: &Config) -> Option<(usize, usize)> {
    let inbox = Inbox::open(config).await.ok()?;
    let uncertain = inbox
        .entries(&[LedgerFilter::Uncertain], COUNTED)
        .await
        .ok()?
        .len();
    let failed = inbox
        .entries(&[LedgerFilter::Failed], COUNTED)
        .await
        .ok()?
        .len();
    inbox.close().await;
    Some((uncertain, failed))
}

fn jobs(chart: &mut FindingList, config: &Config) {
    let scheduling = match JobScheduling::of(config) {
        Ok(scheduling) => scheduling,
        Err(error) => {
            let remedy = "Write an IANA name such as Europe/Berlin, or remove cron.timezone to use this computer's.";
            return chart.fault("cron.timezone", chain(&error), remedy);
        }
    };
    chart.good(
        "cron.timezone",
        format!("times of jobs are in {}", scheduling.zone),
    );
    let path = scheduling.store.path().display().to_string();
    match scheduling.store.read() {
        Err(error) => chart.fault(
            "cron.jobs",
            chain(&error),
            format!("Correct {path} or move it away: no job runs until then, and the file is left as it is."),
        ),
        Ok(jobs) => {
            if jobs.unreadable() > 0 {
                chart.warn(
                    "cron.jobs",
                    format!("{path}: {} cannot be read and will not run", counted(jobs.unreadable(), "job")),
                    format!("Correct {path}: it needs an id and a schedule, and times are whole numbers."),
                );
            }
            let enabled = || jobs.iter().filter(|job| job.enabled);
            for (job, error) in enabled().filter_map(|job| Some((job, job.schedule.schedule(scheduling.zone).err()?))) {
                chart.warn(
                    "cron.schedules",
                    format!("the job '{}' cannot run: {error}", job.name),
                    format!("Correct it in {path}, or take it away with `nanobot cron remove {}`.", job.id),
                );
            }
            for (job, key) in
                enabled().flat_map(|job| job.schedule.without_effect().into_iter().map(move |key| (job, key)))
            {
                chart.warn(
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
                chart.warn(
                    "cron.runs",
                    format!("the job '{}' failed the last time: {why}", job.name),
                    format!("See `nanobot cron show {0}` and `nanobot cron history {0}`.", job.id),
                );
            }
        }
    }
}

fn pairings(chart: &mut FindingList, home: &Path) {
    let store = PairingStore::in_folder(home);
    if !store.path().exists() {
        return;
    }
    match store.list(chrono::Utc::now()) {
        Ok(pairings) => {
            let people = pairings.approved.len();
            chart.note(
                FindingLevel::Note,
                "access.paired",
                format!("people that are paired: {people} (`nanobot pairing list`)"),
                None,
            );
        }
        Err(error) => chart.fault(
            "access.paired",
            chain(&error),
            "Until the file can be read, paired people have no access. Correct or remove it, and pair again.",
        ),
    }
}
