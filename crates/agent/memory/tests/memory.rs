//! Memory in files: the contract, the formats of the Python program, and damaged files.

#![expect(clippy::unwrap_used, reason = "a failing test may panic anywhere")]

#[path = "memory/disks.rs"]
mod disks;
#[path = "memory/notes.rs"]
mod notes;
#[path = "memory/scopes.rs"]
mod scopes;
#[path = "memory/versions.rs"]
mod versions;

use std::path::Path;

use chrono::{Days, Local, NaiveDate};
use nanobot_memory::{
    DayNote, MarkdownStore, MemoryError, MemoryStore as _, MemoryVersions as _, Reason, Scope,
};
use nanobot_testkit::conformance::memory_store;

const SHARED: Scope = Scope::Shared;

async fn replace(store: &MarkdownStore, text: &str) {
    let base = store.facts(&SHARED).await.unwrap().revision;
    store
        .replace_facts(&SHARED, text.to_owned(), base, &Reason::Found)
        .await
        .unwrap();
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn satisfies_the_memory_contract() {
    let root = tempfile::tempdir().unwrap();
    let make = async || {
        Ok(MarkdownStore::new(
            tempfile::tempdir_in(&root)?.keep().join("memory"),
        ))
    };
    memory_store(make).await.unwrap();
}

#[tokio::test]
async fn concurrently_changed_facts_are_not_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let store = MarkdownStore::new(root.path());
    replace(&store, "mine").await;
    let base = store.facts(&SHARED).await.unwrap().revision;
    std::fs::write(root.path().join("MEMORY.md"), "yours").unwrap();
    let refused = store
        .replace_facts(&SHARED, "mine again".to_owned(), base, &Reason::Found)
        .await;
    assert!(matches!(refused, Err(MemoryError::Changed)), "{refused:?}");
    assert_eq!(read(root.path(), "MEMORY.md"), "yours");
}

#[cfg(unix)]
#[tokio::test]
async fn a_linked_file_stays_a_link_and_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let (folder, elsewhere) = (root.path().join("memory"), root.path().join("notes.md"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&elsewhere, "old").unwrap();
    std::fs::set_permissions(&elsewhere, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.join("MEMORY.md")).unwrap();
    replace(&MarkdownStore::new(&folder), "new").await;
    assert!(folder.join("MEMORY.md").is_symlink());
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "new");
    assert_eq!(
        elsewhere.metadata().unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[tokio::test]
async fn damaged_and_huge_files_are_read_partially() {
    let root = tempfile::tempdir().unwrap();
    let store = MarkdownStore::new(root.path());
    std::fs::write(root.path().join("MEMORY.md"), b"a\xff\xfeb").unwrap();
    assert_eq!(
        store.facts(&SHARED).await.unwrap().text,
        "a\u{fffd}\u{fffd}b"
    );
    replace(&store, "clean").await;
    store.restore(&SHARED, 1).await.unwrap();
    assert_eq!(
        std::fs::read(root.path().join("MEMORY.md")).unwrap(),
        b"a\xff\xfeb",
        "byte by byte"
    );
    let huge = "x".repeat(6 << 20);
    std::fs::write(root.path().join("MEMORY.md"), &huge).unwrap();
    let facts = store.facts(&SHARED).await.unwrap();
    assert_eq!(facts.text.len(), 5 << 20);
    let refused = store
        .replace_facts(&SHARED, "short".to_owned(), facts.revision, &Reason::Found)
        .await;
    assert!(
        matches!(
            refused,
            Err(MemoryError::TooLong {
                length: 6_291_456,
                ..
            })
        ),
        "{refused:?}"
    );
    let found = store.record_changes(&SHARED, &Reason::Found).await.unwrap();
    std::fs::write(root.path().join("MEMORY.md"), "gone wrong").unwrap();
    store.restore(&SHARED, found[0].number).await.unwrap();
    assert_eq!(
        read(root.path(), "MEMORY.md"),
        huge,
        "the whole file, not only the part that is read"
    );
    std::fs::remove_file(root.path().join("MEMORY.md")).unwrap();
    std::fs::create_dir(root.path().join("MEMORY.md")).unwrap();
    assert!(matches!(
        store.facts(&SHARED).await,
        Err(MemoryError::Io { .. })
    ));
}

#[tokio::test]
async fn reads_byte_order_marks_and_crlf() {
    let root = tempfile::tempdir().unwrap();
    let store = MarkdownStore::new(root.path());
    std::fs::write(
        root.path().join("MEMORY.md"),
        "\u{feff}# Facts\r\n- tea\r\n",
    )
    .unwrap();
    let facts = store.facts(&SHARED).await.unwrap();
    assert_eq!(facts.text, "# Facts\r\n- tea\r\n");
    store
        .replace_facts(
            &SHARED,
            "# Facts\n- tea\n".to_owned(),
            facts.revision,
            &Reason::Found,
        )
        .await
        .unwrap();
    assert_eq!(read(root.path(), "MEMORY.md"), "# Facts\n- tea\n");
}

#[tokio::test]
async fn history_is_mirrored_only_into_an_existing_mirror() {
    let root = tempfile::tempdir().unwrap();
    let store = MarkdownStore::new(root.path());
    let at = Local::now().fixed_offset();
    store
        .append_history(&SHARED, at, "[2026-03-15 14:30] tea\n\n")
        .await
        .unwrap();
    std::fs::write(root.path().join("history.jsonl"), "").unwrap();
    store.append_history(&SHARED, at, "coffee").await.unwrap();
    assert_eq!(
        read(root.path(), "HISTORY.md"),
        "[2026-03-15 14:30] tea\n\ncoffee\n\n"
    );
    assert_eq!(read(root.path(), "history.jsonl"), "");

    let old = "{\"cursor\":7,\"timestamp\":\"2026-03-15 14:30\",\"content\":\"x\"}\n{\"cursor\":";
    std::fs::write(root.path().join("history.jsonl"), old).unwrap();
    std::fs::write(root.path().join("HISTORY.md"), "no newline").unwrap();
    store
        .append_history(&SHARED, at, "\"water\"")
        .await
        .unwrap();
    std::fs::write(root.path().join(".cursor"), "40").unwrap();
    store.append_history(&SHARED, at, "milk").await.unwrap();
    let time = at.format("%Y-%m-%d %H:%M");
    assert_eq!(
        read(root.path(), "HISTORY.md"),
        "no newline\n\n\"water\"\n\nmilk\n\n"
    );
    assert_eq!(
        read(root.path(), "history.jsonl"),
        format!(
            "{old}\n\n{{\"cursor\":8,\"timestamp\":\"{time}\",\"content\":\"\\\"water\\\"\"}}\n{{\"cursor\":41,\"timestamp\":\"{time}\",\"content\":\"milk\"}}\n"
        )
    );
    assert_eq!(read(root.path(), ".cursor"), "41");
    let external = "[external content ab]\nx\n[end of external content ab]";
    store.append_history(&SHARED, at, external).await.unwrap();
    let mirror = read(root.path(), "history.jsonl");
    assert!(
        mirror.ends_with("[end of external content ab]\",\"untrusted\":true}\n"),
        "{mirror}"
    );
}

#[tokio::test]
async fn notes_of_the_last_days_come_newest_first() {
    // Try again if the day ended during the check.
    let mut today = Local::now().date_naive();
    let mut seen = recent_notes(today).await;
    while today != Local::now().date_naive() {
        today = Local::now().date_naive();
        seen = recent_notes(today).await;
    }
    let note = |back: u64| note(today, back);
    let expected = [
        (0, vec![]),
        (1, vec![note(0)]),
        (7, vec![note(0), note(1), note(6)]),
        (u32::MAX, [0, 1, 6, 7].map(note).to_vec()),
    ];
    assert_eq!(seen, expected);
}

fn note(today: NaiveDate, back: u64) -> DayNote {
    DayNote {
        date: today - Days::new(back),
        text: format!("{back} days ago"),
    }
}

/// Returns the notes of several ranges of days, on a day with notes around it.
async fn recent_notes(today: NaiveDate) -> Vec<(u32, Vec<DayNote>)> {
    let root = tempfile::tempdir().unwrap();
    let store = MarkdownStore::new(root.path());
    for back in [0, 1, 6, 7] {
        let DayNote { date, text } = note(today, back);
        std::fs::write(root.path().join(format!("{date}.md")), text).unwrap();
    }
    std::fs::write(
        root.path().join(format!("{}.md", today + Days::new(1))),
        "tomorrow",
    )
    .unwrap();
    std::fs::write(root.path().join("2026-3-5.md.txt"), "no note").unwrap();
    let mut seen = Vec::new();
    for days in [0, 1, 7, u32::MAX] {
        seen.push((days, store.recent(&SHARED, days).await.unwrap()));
    }
    assert_eq!(
        store.day_note(&SHARED, today).await.unwrap(),
        Some(note(today, 0))
    );
    assert_eq!(store.day_note(&SHARED, NaiveDate::MIN).await.unwrap(), None);
    seen
}
