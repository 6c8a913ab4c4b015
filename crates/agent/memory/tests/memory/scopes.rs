//! People and rooms have memory of their own, or none.

use chrono::Local;
use nanobot_memory::{
    Audience, MarkdownStore, MemoryError, MemoryFolders, MemorySettings, MemoryStore as _, Reason,
    Scope, overview,
};
use nanobot_testkit::conformance::memory_store;

use crate::{SHARED, names};

fn divided(folder: &std::path::Path) -> MarkdownStore {
    MarkdownStore::new(folder).with_settings(MemorySettings {
        scopes: true,
        ..MemorySettings::default()
    })
}

#[tokio::test]
async fn divided_store_satisfies_the_memory_contract() {
    let root = tempfile::tempdir().unwrap();
    let make = async || Ok(divided(&tempfile::tempdir_in(&root)?.keep().join("memory")));
    memory_store(make).await.unwrap();
}

#[tokio::test]
async fn scope_ids_cannot_escape_their_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("memory");
    let store = divided(&folder);
    let scopes = [
        Scope::Person("telegram:7".into()),
        Scope::Room("../../x".into()),
        Scope::Person("..".into()),
    ];
    for scope in &scopes {
        store
            .append_history(scope, Local::now().fixed_offset(), &scope.to_string())
            .await
            .unwrap();
    }
    assert_eq!(names(root.path()), ["memory"]);
    assert_eq!(names(&folder), ["people", "rooms"]);
    let mut existing = MemoryFolders::new(&folder, true).existing();
    assert_eq!(existing.remove(0), SHARED);
    existing.sort_by_key(ToString::to_string);
    assert_eq!(
        existing,
        [scopes[2].clone(), scopes[0].clone(), scopes[1].clone()]
    );
    let long = Scope::Person("x".repeat(300).into());
    assert!(matches!(
        store.facts(&long).await,
        Err(MemoryError::Unsupported { .. })
    ));
}

#[tokio::test]
async fn audience_reads_shared_and_own_memory() {
    let (person, room) = (
        Audience::Person("t:1".into()),
        Audience::Room("t:-1".into()),
    );
    assert_eq!(Audience::Undivided.scopes(), [SHARED]);
    assert_eq!(person.scopes(), [SHARED, Scope::Person("t:1".into())]);
    assert_eq!(room.scopes(), [SHARED, Scope::Room("t:-1".into())]);
    let root = tempfile::tempdir().unwrap();
    let store = divided(root.path());
    for (scope, text) in [
        (SHARED, "all of us\n"),
        (person.home(), "only me\nand me\n"),
    ] {
        let base = store.facts(&scope).await.unwrap().revision;
        let reason = Reason::Consolidation {
            session: "t:1".into(),
        };
        store
            .replace_facts(&scope, text.to_owned(), base, &reason)
            .await
            .unwrap();
    }
    let today = Local::now().date_naive();
    let overview_text = overview(&store, &person.scopes(), today).await;
    for part in [
        "Everybody's: 1 lines, 10 characters",
        "Yours alone: 2 lines",
        "MEMORY.md: summary of t:1",
        "today: none",
    ] {
        assert!(
            overview_text.contains(part),
            "{part:?} is missing in {overview_text}"
        );
    }
}
