//! The public suite, run by each store of this crate.

use nanobot_session::{InMemoryStore, JsonlStore, SessionPaths};
use nanobot_testkit::conformance::session_store;

#[tokio::test]
async fn in_memory() {
    session_store(async || Ok(InMemoryStore::new())).await.unwrap();
}

#[tokio::test]
async fn jsonl() {
    let root = tempfile::tempdir().unwrap();
    let make = async || Ok(JsonlStore::new(SessionPaths::only(tempfile::tempdir_in(&root)?.keep())));
    session_store(make).await.unwrap();
}

#[tokio::test]
async fn jsonl_in_an_external_store() {
    let root = tempfile::tempdir().unwrap();
    let make = async || {
        let folder = tempfile::tempdir_in(&root)?.keep();
        let paths = SessionPaths {
            sessions: folder.join("sessions"),
            legacy: Some(folder.join("legacy")),
            external: Some(folder.join("external")),
        };
        Ok(JsonlStore::new(paths))
    };
    session_store(make).await.unwrap();
}

/// A second store over the same files sees what the first one wrote, and the other way round.
#[tokio::test]
async fn two_processes_on_one_folder_do_not_lose_each_others_entries() {
    use crate::support::{Home, assistant, key, texts, user, whole};
    use nanobot_session::{Seq, SessionError, SessionStore as _};

    let home = Home::new();
    let (first, second) = (home.store(), home.store());
    let head = first.append(&key(), Seq(0), vec![user("a")]).await.unwrap();
    let head = second.append(&key(), head, vec![assistant("b")]).await.unwrap();
    let stale = first.append(&key(), Seq(1), vec![user("lost")]).await;
    assert!(matches!(stale, Err(SessionError::Moved { actual: Seq(2), .. })), "{stale:?}");
    first.append(&key(), head, vec![user("c")]).await.unwrap();
    assert_eq!(texts(&whole(&second).await), ["a", "b", "c"]);
}
