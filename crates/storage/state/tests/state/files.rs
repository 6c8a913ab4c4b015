//! The file: permissions, refusal of foreign files, moving damaged files aside.

use std::fs;
use std::path::Path;

use nanobot_bus::{Bus as _, Ledger as _, LedgerFilter, Queue};
use nanobot_state::{StateDb, StateError};
use rusqlite::Connection;

use crate::{inbound_message, next, open};

#[cfg(unix)]
#[tokio::test]
async fn database_files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("new");
    let path = folder.join("state.db");
    let bus = open(&path).await;
    bus.publish_inbound(inbound_message("1")).await.unwrap();
    assert_eq!(mode(&folder), 0o700);
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    bus.close().await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    open(&path).await.close().await;
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn invalid_database_is_moved_aside() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("state.db");
    let garbage = "not a database at all\n".repeat(400);
    fs::write(&path, &garbage).unwrap();
    let db = StateDb::open(&path).await.unwrap();
    assert_eq!(
        fs::read_to_string(db.moved_aside().unwrap()).unwrap(),
        garbage
    );
    db.close().await;
    let db = StateDb::open(&path).await.unwrap();
    assert_eq!(db.moved_aside(), None);
}

/// Copies the files as a crashed process would leave them.
fn crash_image(from: &Path, to: &Path) {
    for file in ["state.db", "state.db-wal"] {
        fs::copy(from.join(file), to.join(file)).unwrap();
    }
}

#[tokio::test]
async fn intact_unclosed_database_is_reused() {
    let (home, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bus = open(&home.path().join("state.db")).await;
    bus.publish_inbound(inbound_message("1")).await.unwrap();
    crash_image(home.path(), image.path());
    let db = StateDb::open(image.path().join("state.db")).await.unwrap();
    assert_eq!(db.moved_aside(), None);
    db.close().await;
    let mut subscription = open(&image.path().join("state.db"))
        .await
        .inbound()
        .await
        .unwrap();
    assert_eq!(next(&mut subscription).await.message.content, "1");
}

#[tokio::test]
async fn damaged_unclosed_database_is_moved_aside() {
    let (home, image) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = home.path().join("state.db");
    let bus = open(&path).await;
    for id in 0..200 {
        bus.publish_inbound(inbound_message(&id.to_string()))
            .await
            .unwrap();
    }
    bus.close().await;
    let bus = open(&path).await;
    bus.publish_inbound(inbound_message("last")).await.unwrap();
    crash_image(home.path(), image.path());
    let path = image.path().join("state.db");
    let mut bytes = fs::read(&path).unwrap();
    let pages = bytes.len() / 4096;
    assert!(pages > 8, "{pages} pages");
    bytes
        .iter_mut()
        .skip(4 * 4096)
        .step_by(7)
        .for_each(|byte| *byte ^= 0x5a);
    fs::write(&path, &bytes).unwrap();

    let db = StateDb::open(&path).await.unwrap();
    let aside = db.moved_aside().unwrap().to_owned();
    assert!(fs::read(&aside).unwrap() == bytes, "it is kept unchanged");
    let mut log = aside.into_os_string();
    log.push("-wal");
    assert!(
        fs::read(log).unwrap() == fs::read(home.path().join("state.db-wal")).unwrap(),
        "and so is its log"
    );
    db.close().await;
    let bus = open(&path).await;
    assert_eq!(
        bus.list(Queue::Inbound, LedgerFilter::All, 10)
            .await
            .unwrap(),
        []
    );
    bus.publish_inbound(inbound_message("1")).await.unwrap();
}

#[tokio::test]
async fn foreign_and_newer_databases_are_refused_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let newer = home.path().join("newer.db");
    StateDb::open(&newer).await.unwrap().close().await;
    Connection::open(&newer)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let foreign = home.path().join("foreign.db");
    Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    let marked = home.path().join("marked.db");
    Connection::open(&marked)
        .unwrap()
        .pragma_update(None, "application_id", 7)
        .unwrap();
    for path in [newer, foreign, marked] {
        let before = fs::read(&path).unwrap();
        let error = StateDb::open(&path).await.unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(
                error,
                StateError::Newer { found: 99, .. } | StateError::Foreign { .. }
            ),
            "{text}"
        );
        assert!(
            text.contains(&path.display().to_string()) && text.contains("away"),
            "{text}"
        );
        assert!(fs::read(&path).unwrap() == before);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 3);
    }
}

#[tokio::test]
async fn unusable_path_is_named_in_the_error() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("file"), "").unwrap();
    let path = home.path().join("file").join("state.db");
    let error = StateDb::open(&path).await.unwrap_err();
    assert!(
        matches!(&error, StateError::Io { path: named, .. } if *named == path),
        "{error}"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn read_only_folder_is_named_in_the_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("read-only");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write to any folder; for root, `/proc` is used instead.
    let privileged = fs::write(folder.join("probe"), "").is_ok();
    let folder = if privileged {
        Path::new("/proc").to_owned()
    } else {
        folder
    };
    let path = folder.join("state.db");
    let error = StateDb::open(&path).await.unwrap_err();
    assert!(
        matches!(&error, StateError::Io { path: named, .. } if *named == path),
        "{error}"
    );
}
