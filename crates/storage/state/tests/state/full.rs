//! A full disk, and a file that may not grow: the ledger refuses what it cannot store, keeps what
//! it accepted, and continues when there is space.
//!
//! Each test starts this binary again: once in a mount namespace with a small file system of its
//! own, once with a limit on the size of files. If the system allows no such namespace, the test
//! says so and passes.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use nanobot_bus::{Accepted, Bus as _, BusError, Ledger as _, LedgerFilter, Queue, SettleOutcome};
use nanobot_state::SqliteBus;
use nanobot_types::InboundMessage;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::{inbound_message, next, open};

const FOLDER: &str = "NANOBOT_FULL_TEST_FOLDER";
const DONE: &str = "recovered and whole";
/// Size of the small file system, in bytes.
const SMALL: usize = 8 << 20;
/// Size of a file system that the log fills before SQLite checkpoints it automatically, in bytes.
const TINY: usize = 2 << 20;

/// Returns the command that runs one of the ignored tests of this binary, and its environment.
fn own(test: &str, folder: &Path) -> (String, [(&'static str, String); 1]) {
    let program = std::env::current_exe().unwrap().display().to_string();
    let command = format!("'{program}' --exact full::{test} --ignored --nocapture");
    (command, [(FOLDER, folder.display().to_string())])
}

#[test]
fn full_file_system_loses_no_accepted_message() {
    run_on_file_system(SMALL, "child_on_a_small_file_system");
}

#[test]
fn log_on_a_full_file_system_is_truncated() {
    run_on_file_system(TINY, "child_on_a_tiny_file_system");
}

/// Runs a test of this binary on a file system of `size` bytes.
fn run_on_file_system(size: usize, test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (test, environment) = own(test, folder.path());
    let mount = format!(
        "mount -t tmpfs -o size={size} tmpfs '{}'",
        folder.path().display()
    );
    for namespace in [&["-m"][..], &["-U", "-r", "-m"]] {
        let mut unshare = Command::new("unshare");
        unshare.args(namespace).args(["sh", "-c"]);
        let can = Command::new("unshare")
            .args(namespace)
            .args(["sh", "-c", &mount])
            .output();
        if can.is_ok_and(|output| output.status.success()) {
            let output = unshare
                .arg(format!("{mount} && {test}"))
                .envs(environment)
                .output()
                .unwrap();
            return assert_done(&output);
        }
    }
    let mut stderr = std::io::stderr().lock();
    writeln!(stderr, "SKIPPED: no mount namespace here (it needs root or user namespaces), so no disk can be filled")
        .unwrap();
}

#[test]
fn file_size_limit_loses_no_accepted_message() {
    let folder = tempfile::tempdir().unwrap();
    let (test, environment) = own("child_with_a_file_size_limit", folder.path());
    // The signal of such a write is ignored, so that the write fails instead.
    let test = format!("trap '' XFSZ; exec {test}");
    assert_done(
        &Command::new("sh")
            .args(["-c", &test])
            .envs(environment)
            .output()
            .unwrap(),
    );
}

fn assert_done(output: &std::process::Output) {
    let inbound_message = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success() && inbound_message.contains(DONE),
        "{}: {inbound_message}",
        output.status
    );
}

#[tokio::test]
#[ignore = "started by a test above, in a namespace of its own"]
async fn child_on_a_small_file_system() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    // A file that fills the disk and is deleted again.
    let ballast = folder.join("ballast");
    let database = folder.join("state.db");
    let bus = open(&database).await;
    std::fs::write(&ballast, vec![0; SMALL - (1 << 20)]).unwrap();
    survive_full_disk(bus, &database, || std::fs::remove_file(&ballast).unwrap()).await;
}

#[tokio::test]
#[ignore = "started by a test above, in a namespace of its own"]
async fn child_on_a_tiny_file_system() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let ballast = Path::new(&folder).join("ballast");
    let bus = open(&Path::new(&folder).join("state.db")).await;
    std::fs::write(&ballast, vec![0; TINY / 2]).unwrap();
    let mut accepted = 0;
    while bus.publish_inbound(long(accepted)).await.is_ok() {
        accepted += 1;
    }
    std::fs::remove_file(&ballast).unwrap();
    let mut subscription = bus.inbound().await.unwrap();
    for _ in 0..accepted {
        let delivery = next(&mut subscription).await;
        // The log may fill the remaining space; it is truncated then, and the next attempt has
        // space.
        if delivery.settle(SettleOutcome::Ack).await.is_err() {
            delivery.settle(SettleOutcome::Ack).await.unwrap();
        }
    }
    let mut output = std::io::stdout().lock();
    writeln!(output, "{DONE}")
        .and_then(|()| output.flush())
        .unwrap();
}

#[tokio::test]
#[ignore = "started by a test above, in a process of its own"]
async fn child_with_a_file_size_limit() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let database = Path::new(&folder).join("state.db");
    let bus = open(&database).await;
    let (_, most) = getrlimit(Resource::RLIMIT_FSIZE).unwrap();
    setrlimit(Resource::RLIMIT_FSIZE, 512 << 10, most).unwrap();
    survive_full_disk(bus, &database, || {
        setrlimit(Resource::RLIMIT_FSIZE, most, most).unwrap();
    })
    .await;
}

/// Fills the ledger until it refuses, checks that all accepted entries exist, lifts the fault, and
/// continues.
async fn survive_full_disk(bus: SqliteBus, database: &Path, lift: impl FnOnce()) {
    let mut accepted = Vec::new();
    let (mut number, mut refusals) = (0, 0);
    while refusals < 20 {
        match bus.publish_inbound(long(number)).await {
            Ok(new) => {
                assert_eq!(new, Accepted::New);
                accepted.push(number);
                refusals = 0;
            }
            Err(error) => {
                assert!(
                    matches!(error, BusError::Store { .. }) && error.is_transient(),
                    "{error:?}"
                );
                refusals += 1;
            }
        }
        number += 1;
        assert!(number < 10_000, "the fault never occurs");
    }
    assert!(accepted.len() > 2, "{} fitted", accepted.len());
    let kept = bus
        .list(Queue::Inbound, LedgerFilter::Open, usize::MAX)
        .await
        .unwrap();
    assert_eq!(
        kept.len(),
        accepted.len(),
        "exactly the accepted messages are stored"
    );

    lift();
    for number in 0..number {
        let expected = if accepted.contains(&number) {
            Accepted::Duplicate
        } else {
            Accepted::New
        };
        assert_eq!(
            bus.publish_inbound(long(number)).await.unwrap(),
            expected,
            "{number}"
        );
    }
    let mut subscription = bus.inbound().await.unwrap();
    for _ in 0..number {
        next(&mut subscription)
            .await
            .settle(SettleOutcome::Ack)
            .await
            .unwrap();
    }
    let open = bus
        .list(Queue::Inbound, LedgerFilter::Open, usize::MAX)
        .await
        .unwrap();
    assert_eq!(open, [], "everything was handed out and settled");
    bus.close().await;
    let connection = rusqlite::Connection::open(database).unwrap();
    let verdict: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(verdict, "ok");
    let mut output = std::io::stdout().lock();
    writeln!(output, "{DONE}")
        .and_then(|()| output.flush())
        .unwrap();
}

/// Returns a message of about 8 KB.
fn long(number: usize) -> InboundMessage {
    InboundMessage {
        content: format!("{number} {}", "words ".repeat(1_400)),
        ..inbound_message(&number.to_string())
    }
}
