//! Old day notes are rolled up or expire if the settings say so, without losing a line.

use std::path::Path;
use std::sync::Arc;

use chrono::NaiveDate;
use nanobot_disk::Disk;
use nanobot_memory::{MarkdownStore, MemorySettings, MemoryVersions as _, RetentionSummary};
use nanobot_testkit::{DiskFault, FaultyDisk, MemoryDisk};

use crate::SHARED;

const FOLDER: &str = "/home/workspace/memory";
const NOTES: [(&str, &str); 4] = [
    ("2026-02-27", "- feb\n"),
    ("2026-03-01", "- first\n"),
    ("2026-03-31", "- last"),
    ("2026-04-02", "- april\n"),
];

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

fn disk() -> MemoryDisk {
    let disk = MemoryDisk::new().with_file(format!("{FOLDER}/2026-3-1.md"), b"- no note\n");
    NOTES.iter().fold(disk, |disk, (date, text)| {
        disk.with_file(format!("{FOLDER}/{date}.md"), text.as_bytes())
    })
}

fn store(
    disk: impl Disk + 'static,
    keep_daily_notes_days: u32,
    roll_up_monthly: bool,
) -> MarkdownStore {
    let settings = MemorySettings {
        keep_daily_notes_days,
        roll_up_monthly,
        ..MemorySettings::default()
    };
    MarkdownStore::on(Arc::new(disk), FOLDER).with_settings(settings)
}

/// Returns the names and texts of the files directly in the folder.
fn files(disk: &MemoryDisk) -> Vec<(String, String)> {
    let files = disk
        .files()
        .into_iter()
        .filter(|(path, _)| path.parent() == Some(Path::new(FOLDER)));
    files
        .map(|(path, bytes)| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                String::from_utf8(bytes).unwrap(),
            )
        })
        .collect()
}

#[tokio::test]
async fn old_notes_are_kept_by_default() {
    let disk = disk();
    let before = files(&disk);
    assert_eq!(
        store(disk.clone(), 0, false)
            .apply_retention(day("2030-01-01"))
            .await
            .unwrap(),
        RetentionSummary::default()
    );
    assert_eq!(files(&disk), before);
}

#[tokio::test]
async fn rolls_up_months_a_week_after_their_end() {
    let disk = disk();
    let store = store(disk.clone(), 0, true);
    for (today, rolled_up) in [
        ("2026-03-07", 0),
        ("2026-03-08", 1),
        ("2026-04-07", 0),
        ("2026-04-08", 2),
        ("2026-04-08", 0),
    ] {
        let tended = store.apply_retention(day(today)).await.unwrap();
        assert_eq!(
            tended,
            RetentionSummary {
                rolled_up,
                expired: 0
            },
            "{today}"
        );
    }
    let expected = [
        ("2026-02.md", "## 2026-02-27\n\n- feb\n"),
        (
            "2026-03.md",
            "## 2026-03-01\n\n- first\n\n## 2026-03-31\n\n- last\n",
        ),
        ("2026-04-02.md", "- april\n"),
        ("2026-3-1.md", "- no note\n"),
    ];
    assert_eq!(
        files(&disk),
        expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
    );
    let log = store.log(&SHARED).await.unwrap();
    assert_eq!(
        log.iter()
            .map(|version| version.file.as_str())
            .collect::<Vec<_>>(),
        ["2026-03.md", "2026-02.md"]
    );
}

#[tokio::test]
async fn expired_notes_can_be_restored() {
    let disk = disk();
    let store = store(disk.clone(), 10, false);
    assert_eq!(
        store.apply_retention(day("2026-04-10")).await.unwrap(),
        RetentionSummary {
            rolled_up: 0,
            expired: 3
        }
    );
    assert_eq!(
        files(&disk)
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>(),
        ["2026-04-02.md", "2026-3-1.md"]
    );
    store.restore(&SHARED, 1).await.unwrap();
    let brought = files(&disk)
        .into_iter()
        .find(|(name, _)| name == "expired-notes.md")
        .unwrap()
        .1;
    assert_eq!(
        brought,
        "## 2026-02-27\n\n- feb\n\n## 2026-03-01\n\n- first\n\n## 2026-03-31\n\n- last\n"
    );
}

/// Asserts that every line of every note is in some file.
fn assert_whole(disk: &MemoryDisk, what: &str) {
    let files = disk.files();
    for (_, text) in NOTES {
        let line = text.trim_end();
        let found = files.iter().any(|(path, bytes)| {
            !path.to_string_lossy().ends_with(".draft")
                && String::from_utf8_lossy(bytes)
                    .lines()
                    .any(|found| found == line)
        });
        assert!(found, "{line:?} is lost {what}");
    }
}

#[tokio::test]
async fn failed_roll_up_loses_no_line_and_can_be_repeated() {
    for settings in [(30, true), (30, false)] {
        go_wrong_everywhere(settings).await;
    }
}

async fn go_wrong_everywhere(settings: (u32, bool)) {
    let today = day("2026-05-20");
    let done = disk();
    let counting = FaultyDisk::new(Arc::new(done.clone()));
    store(counting.clone(), settings.0, settings.1)
        .apply_retention(today)
        .await
        .unwrap();
    for from in 0..counting.operations() {
        for fault in DiskFault::ALL {
            let memory = disk();
            let faulty = FaultyDisk::new(Arc::new(memory.clone()));
            faulty.fail(
                fault,
                from,
                if fault == DiskFault::Broken {
                    u64::MAX
                } else {
                    1
                },
            );
            let store = store(faulty.clone(), settings.0, settings.1);
            // The result does not matter here, only the files.
            drop(store.apply_retention(today).await);
            assert_whole(&memory, &format!("after {fault:?} at {from}"));
            for cut in 0..4 {
                assert_whole(
                    &memory.after_power_cut(from * 4 + cut),
                    &format!("by a power cut after {fault:?} at {from}"),
                );
            }
            faulty.clear();
            store.apply_retention(today).await.unwrap();
            let notes = |disk| {
                files(disk)
                    .into_iter()
                    .filter(|(name, _)| !name.ends_with(".draft"))
                    .collect::<Vec<_>>()
            };
            assert_eq!(notes(&memory), notes(&done), "after {fault:?} at {from}");
        }
    }
}
