//! One gateway per home.

use std::fs;

use nanobot_state::{HomeLock, StateError};

#[test]
fn a_second_owner_is_refused_and_told_of_the_first() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path().join("new");
    let lock = HomeLock::acquire(&home).unwrap();
    let refused = HomeLock::acquire(&home);
    let Err(StateError::Owned { path, pid }) = refused else { panic!("{refused:?}") };
    assert_eq!(path, lock.path());
    #[cfg(not(windows))]
    assert_eq!(pid, Some(std::process::id()));
    drop(lock);
    HomeLock::acquire(&home).unwrap();
}

#[test]
fn a_lock_file_that_was_left_behind_means_nothing() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("gateway.lock"), "4194304999 and more").unwrap();
    let lock = HomeLock::acquire(home.path()).unwrap();
    #[cfg(not(windows))]
    assert_eq!(fs::read_to_string(lock.path()).unwrap(), format!("{}\n", std::process::id()));
    drop(lock);
}

#[test]
fn the_refusal_names_the_process() {
    let owned = |pid| StateError::Owned { path: "/home/a/gateway.lock".into(), pid }.to_string();
    assert_eq!(
        owned(Some(4711)),
        "/home/a/gateway.lock is in use by another gateway (process 4711): stop that one first"
    );
    assert_eq!(owned(None), "/home/a/gateway.lock is in use by another gateway: stop that one first");
}
