//! Notifications about changed files.
#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::time::Duration;

use nanobot_watch::{FileChanges, FileWatch};

/// Disables polling, so that every notification comes from the system.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// Waits for a notification after which `is_so` holds. The condition is checked only after a
/// notification.
async fn wait_until(changes: &mut FileChanges, is_so: impl Fn() -> bool) {
    let waited = async {
        changes.changed().await;
        while !is_so() {
            changes.changed().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited)
        .await
        .expect("no notification of the change");
}

/// Waits for a notification after which the file has this content.
async fn becomes(changes: &mut FileChanges, file: &Path, content: &str) {
    wait_until(changes, || {
        fs::read_to_string(file).ok().as_deref() == Some(content)
    })
    .await;
}

#[tokio::test]
async fn reports_written_and_replaced_files() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.json");
    let mut changes = FileWatch::with_poll_interval(NEVER).follow(&file);
    fs::write(&file, "1").unwrap();
    becomes(&mut changes, &file, "1").await;
    fs::write(&file, "2").unwrap();
    becomes(&mut changes, &file, "2").await;
    fs::write(home.path().join("draft"), "3").unwrap();
    fs::rename(home.path().join("draft"), &file).unwrap();
    becomes(&mut changes, &file, "3").await;
    fs::remove_file(&file).unwrap();
    fs::write(&file, "4").unwrap();
    becomes(&mut changes, &file, "4").await;
}

#[tokio::test]
async fn reports_a_change_amid_a_flood_of_other_writes() {
    use std::io::Write as _;

    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("config.json");
    let mut changes = FileWatch::with_poll_interval(NEVER).follow(&file);
    let mut other = fs::File::create(home.path().join("state.db-wal")).unwrap();
    for content in ["1", "2"] {
        for _ in 0..1000 {
            other.write_all(b"x").unwrap();
        }
        fs::write(&file, content).unwrap();
        becomes(&mut changes, &file, content).await;
    }
}

#[tokio::test]
async fn follows_a_file_through_removed_and_replaced_folders() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("data/cron/jobs.json");
    let watch = FileWatch::with_poll_interval(NEVER);
    let mut changes = watch.follow(&file);
    for content in ["1", "2"] {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        becomes(&mut changes, &file, content).await;
        fs::write(&file, "changed").unwrap();
        becomes(&mut changes, &file, "changed").await;
        fs::remove_dir_all(home.path().join("data")).unwrap();
        wait_until(&mut changes, || !home.path().join("data").exists()).await;
    }
    // Replace the folder by another one.
    fs::create_dir_all(home.path().join("new/cron")).unwrap();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "old").unwrap();
    becomes(&mut changes, &file, "old").await;
    fs::rename(file.parent().unwrap(), home.path().join("aside")).unwrap();
    fs::rename(home.path().join("new/cron"), file.parent().unwrap()).unwrap();
    fs::write(&file, "new").unwrap();
    becomes(&mut changes, &file, "new").await;
}

#[cfg(unix)]
#[tokio::test]
async fn reports_changes_of_link_and_target() {
    use std::os::unix::fs::symlink;

    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    for version in ["1", "2"] {
        fs::create_dir(at(version)).unwrap();
        fs::write(at(version).join("config.json"), version).unwrap();
    }
    symlink("1", at("current")).unwrap();
    symlink("current/config.json", at("config.json")).unwrap();
    let mut changes = FileWatch::with_poll_interval(NEVER).follow(&at("config.json"));
    fs::write(at("1/config.json"), "1 again").unwrap();
    becomes(&mut changes, &at("config.json"), "1 again").await;
    symlink("2", at("next")).unwrap();
    fs::rename(at("next"), at("current")).unwrap();
    becomes(&mut changes, &at("config.json"), "2").await;
    fs::write(at("2/config.json"), "2 again").unwrap();
    becomes(&mut changes, &at("config.json"), "2 again").await;
}

#[tokio::test(start_paused = true)]
async fn polls_without_notifications() {
    let home = tempfile::tempdir().unwrap();
    let mut changes = FileWatch::new().follow(&home.path().join("config.json"));
    let began = tokio::time::Instant::now();
    // The system may report the creation of the folder late.
    while began.elapsed() < Duration::from_secs(60) {
        changes.changed().await;
    }
    assert_eq!(began.elapsed(), Duration::from_secs(60));
}

#[tokio::test]
async fn distinguishes_two_files_of_one_folder() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (home.path().join("one"), home.path().join("two"));
    let watch = FileWatch::with_poll_interval(NEVER);
    let (mut of_one, mut of_two) = (watch.follow(&one), watch.follow(&two));
    drop(watch);
    fs::write(&one, "1").unwrap();
    becomes(&mut of_one, &one, "1").await;
    fs::write(&two, "2").unwrap();
    becomes(&mut of_two, &two, "2").await;
    drop(of_two);
    fs::write(&one, "again").unwrap();
    becomes(&mut of_one, &one, "again").await;
}
