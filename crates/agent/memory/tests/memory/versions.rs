//! Content that is replaced, changed by others or removed can be reviewed and restored.

use nanobot_memory::{
    MarkdownStore, MemoryError, MemorySettings, MemoryStore as _, MemoryVersions as _, Reason,
};

use crate::{SHARED, names, read, replace};

fn turn() -> Reason {
    Reason::Turn {
        session: "cli:direct".into(),
        turn: "t".into(),
    }
}

#[tokio::test]
async fn every_change_creates_a_version_with_its_reason() {
    let root = tempfile::tempdir().unwrap();
    let store = MarkdownStore::new(root.path());
    let memory = root.path().join("MEMORY.md");
    assert_eq!(
        store.record_changes(&SHARED, &Reason::Found).await.unwrap(),
        vec![],
        "no file is no change"
    );
    assert_eq!(names(root.path()), [""; 0], "checking creates no folder");

    std::fs::write(&memory, "by hand").unwrap();
    let base = store.facts(&SHARED).await.unwrap().revision;
    let summary = Reason::Consolidation {
        session: "telegram:1".into(),
    };
    store
        .replace_facts(&SHARED, "summarised".to_owned(), base, &summary)
        .await
        .unwrap();
    std::fs::write(&memory, "by a tool").unwrap();
    store.record_changes(&SHARED, &turn()).await.unwrap();
    std::fs::remove_file(&memory).unwrap();
    for _ in 0..2 {
        store.record_changes(&SHARED, &Reason::Found).await.unwrap();
    }
    store.restore(&SHARED, 2).await.unwrap();
    assert_eq!(read(root.path(), "MEMORY.md"), "summarised");

    let log = store.log(&SHARED).await.unwrap();
    let rows: Vec<_> = log
        .iter()
        .map(|version| {
            (
                version.number,
                &version.reason,
                version.before,
                version.removed,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            (5, &Reason::Restored { version: 2 }, Some(4), false),
            (4, &Reason::Found, Some(3), true),
            (3, &turn(), Some(2), false),
            (2, &summary, Some(1), false),
            (1, &Reason::Found, None, false),
        ]
    );
    let third = store.version(&SHARED, 3).await.unwrap();
    assert_eq!(
        (third.before.as_str(), third.text.as_str()),
        ("summarised", "by a tool")
    );
    for number in [0, 4, 6, u64::MAX] {
        let refused = store.restore(&SHARED, number).await;
        assert!(
            matches!(refused, Err(MemoryError::NoVersion { number: found }) if found == number),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn seen_changes_are_shared_with_other_processes() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (
        MarkdownStore::new(root.path()),
        MarkdownStore::new(root.path()),
    );
    replace(&one, "first").await;
    assert_eq!(
        two.record_changes(&SHARED, &Reason::Found).await.unwrap(),
        vec![]
    );
    replace(&two, "second").await;
    assert_eq!(
        one.record_changes(&SHARED, &Reason::Found).await.unwrap(),
        vec![]
    );
    let today = format!("{}.md", chrono::Local::now().date_naive());
    std::fs::write(root.path().join(&today), "- tea").unwrap();
    let noticed = one.record_changes(&SHARED, &turn()).await.unwrap();
    assert_eq!(
        noticed
            .iter()
            .map(|version| (version.number, version.file.as_str()))
            .collect::<Vec<_>>(),
        [(3, &*today)]
    );
}

#[tokio::test]
async fn versions_are_bounded_and_damaged_ones_skipped() {
    let root = tempfile::tempdir().unwrap();
    let settings = MemorySettings {
        keep_versions: 3,
        ..MemorySettings::default()
    };
    let store = MarkdownStore::new(root.path()).with_settings(settings);
    for text in ["1", "2", "3", "4", "5"] {
        replace(&store, text).await;
    }
    assert_eq!(
        names(&root.path().join(".versions")),
        [".lock", "000003.md", "000004.md", "000005.md"]
    );
    std::fs::write(root.path().join(".versions/000004.md"), b"\xff").unwrap();
    std::fs::write(root.path().join(".versions/7.md"), "not a name").unwrap();
    let log = store.log(&SHARED).await.unwrap();
    assert_eq!(
        log.iter().map(|version| version.number).collect::<Vec<_>>(),
        [5, 3]
    );
    std::fs::write(root.path().join(".versions/000005.md"), b"").unwrap();
    replace(&store, "6").await;
    let log = store.log(&SHARED).await.unwrap();
    assert_eq!(
        log.iter().map(|version| version.number).collect::<Vec<_>>(),
        [7, 6, 3],
        "the existing content is recorded first"
    );
    assert_eq!(store.version(&SHARED, 7).await.unwrap().before, "5");
}

#[tokio::test]
async fn a_version_cannot_name_another_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("memory");
    let store = MarkdownStore::new(&folder);
    replace(&store, "1").await;
    let version = read(&folder, ".versions/000001.md").replace("MEMORY.md", "../outside.md");
    std::fs::write(folder.join(".versions/000002.md"), version).unwrap();
    assert!(matches!(
        store.restore(&SHARED, 2).await,
        Err(MemoryError::NoVersion { number: 2 })
    ));
    assert_eq!(names(root.path()), ["memory"]);
}
