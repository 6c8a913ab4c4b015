//! Disks that are really full, and processes with a file size limit.

use std::path::Path;
use std::process::Command;

use nanobot_session::{
    JsonlStore, ReadFrom, Seq, SessionError, SessionPaths, SessionStore as _, replay,
};
use nanobot_types::SessionKey;

use crate::support::{assert_valid, user};

const FOLDER: &str = "NANOBOT_LIMITED_FOLDER";

/// A file system of 4 MB that is unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let root = tempfile::tempdir().unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(root.path())
            .output();
        mount
            .is_ok_and(|mount| mount.status.success())
            .then_some(Self(root))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount, because a process that another test is starting may still have one of its
        // files open.
        let unmounted = Command::new("umount")
            .arg("-l")
            .arg(self.0.path())
            .status()
            .unwrap();
        assert!(unmounted.success());
    }
}

fn store(folder: &Path) -> JsonlStore {
    JsonlStore::new(SessionPaths::only(folder.join("sessions")))
}

fn message(number: u64) -> String {
    format!("{number} {}", "x".repeat(20_000))
}

/// Appends until it fails; returns the number of acknowledged messages and the error.
async fn fill(store: &JsonlStore, key: &SessionKey) -> (u64, SessionError) {
    let mut head = Seq(0);
    loop {
        match store.append(key, head, vec![user(&message(head.0))]).await {
            Ok(next) => head = next,
            Err(error) => return (head.0, error),
        }
    }
}

/// Checks that at least the acknowledged messages are there, in order, and at most one more.
async fn check(store: &JsonlStore, key: &SessionKey, acknowledged: u64) -> Seq {
    let view = store.read(key, ReadFrom::Seq(Seq(0))).await.unwrap();
    assert!(
        (acknowledged..=acknowledged + 1).contains(&view.head.0),
        "{} of {acknowledged}",
        view.head
    );
    let sent = replay(&view);
    assert_valid(&sent, "behind a limit");
    let texts: Vec<String> = sent
        .transcript
        .messages()
        .iter()
        .map(|message| message.text())
        .collect();
    assert_eq!(texts, (0..view.head.0).map(message).collect::<Vec<_>>());
    view.head
}

#[tokio::test]
async fn full_disk_loses_nothing_and_recovers() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("SKIPPED: a small tmpfs cannot be mounted here; that takes root");
        return;
    };
    let folder = disk.0.path();
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let (store_here, big, small) = (
        store(folder),
        SessionKey::from("t:big"),
        SessionKey::from("t:small"),
    );
    store_here
        .append(&small, Seq(0), vec![user(&message(0))])
        .await
        .unwrap();
    let (acknowledged, error) = fill(&store_here, &big).await;
    let SessionError::Io { source, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(
        check(&store_here, &big, acknowledged).await,
        Seq(acknowledged),
        "the refused append is removed again"
    );
    check(&store(folder), &big, acknowledged).await;
    check(&store(folder), &small, 1).await;
    std::fs::remove_file(ballast).unwrap();
    for (key, head) in [(&big, acknowledged), (&small, 1)] {
        store_here
            .append(key, Seq(head), vec![user(&message(head))])
            .await
            .unwrap();
        check(&store(folder), key, head + 1).await;
    }
}

/// Runs [`limited_process`] with a file size limit of some 32 or 64 KB. Returns the number of
/// acknowledged appends and whether the process survived.
fn run_limited(folder: &Path, before: &str) -> (u64, bool) {
    let script = format!(
        "{before} ulimit -f 64; exec \"$0\" --ignored --exact limits::limited_process --nocapture"
    );
    let mut shell = Command::new("sh");
    let child = shell
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap());
    let output = child.env(FOLDER, folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = text
        .lines()
        .filter(|line| line.contains("acknowledged"))
        .count();
    (count as u64, output.status.success())
}

#[tokio::test]
#[ignore = "runs in a process of its own that others start"]
async fn limited_process() {
    let folder = std::env::var_os(FOLDER).unwrap();
    let (store, key) = (store(Path::new(&folder)), SessionKey::from("t:big"));
    for number in 0.. {
        if let Err(error) = store
            .append(&key, Seq(number), vec![user(&message(number))])
            .await
        {
            let SessionError::Io { source, .. } = &error else {
                panic!("{error:?}")
            };
            assert_eq!(source.kind(), std::io::ErrorKind::FileTooLarge);
            break;
        }
        println!("acknowledged");
    }
    store
        .append(&"t:small".into(), Seq(0), vec![user(&message(0))])
        .await
        .unwrap();
}

#[tokio::test]
async fn file_size_limit_loses_nothing() {
    for (before, survives) in [("trap '' XFSZ;", true), ("", false)] {
        let root = tempfile::tempdir().unwrap();
        let (acknowledged, survived) = run_limited(root.path(), before);
        assert_eq!(survived, survives, "{before:?}");
        assert!(acknowledged > 0);
        let store = store(root.path());
        let head = check(&store, &"t:big".into(), acknowledged).await;
        store
            .append(&"t:big".into(), head, vec![user(&message(head.0))])
            .await
            .unwrap();
        check(&store, &"t:big".into(), head.0 + 1).await;
        if survives {
            check(&store, &"t:small".into(), 1).await;
        }
    }
}
