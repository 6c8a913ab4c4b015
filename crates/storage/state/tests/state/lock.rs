//! One gateway per home.

use std::fs;
#[cfg(unix)]
use std::time::Duration;

use nanobot_state::{HomeLock, StateError};

#[test]
fn second_owner_is_refused_with_the_pid_of_the_first() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("new");
    let lock = HomeLock::acquire(&home).unwrap();
    let refused = HomeLock::acquire(&home);
    let Err(StateError::Owned { path, pid }) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(path, lock.path());
    #[cfg(not(windows))]
    assert_eq!(pid, Some(std::process::id()));
    drop(lock);
    HomeLock::acquire(&home).unwrap();
}

#[test]
fn stale_lock_file_is_ignored() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("gateway.lock"), "4194304999 and more").unwrap();
    let lock = HomeLock::acquire(home.path()).unwrap();
    #[cfg(not(windows))]
    assert_eq!(
        fs::read_to_string(lock.path()).unwrap(),
        format!("{}\n", std::process::id())
    );
    drop(lock);
}

/// A child that was started at the moment of the kill holds its parent's lock until it executes
/// another program.
#[cfg(unix)]
#[test]
fn lock_held_by_a_child_of_a_dead_owner_is_awaited() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("gateway.lock");
    // Process ids are below this number, so it cannot be in use.
    fs::write(&path, "4194304\n").unwrap();
    let held = fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let release = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(50));
        drop(held);
    });
    HomeLock::acquire(home.path()).unwrap();
    release.join().unwrap();
}

#[test]
fn refusal_names_the_process() {
    let owned = |pid| {
        StateError::Owned {
            path: "/home/a/gateway.lock".into(),
            pid,
        }
        .to_string()
    };
    assert_eq!(
        owned(Some(4711)),
        "/home/a/gateway.lock is in use by another gateway (process 4711): stop that one first"
    );
    assert_eq!(
        owned(None),
        "/home/a/gateway.lock is in use by another gateway: stop that one first"
    );
}
