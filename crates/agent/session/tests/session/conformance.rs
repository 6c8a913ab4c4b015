//! The public suite, run by each store of this crate.

use futures_util::future::join_all;
use nanobot_session::{
    InMemoryStore, JsonlStore, Seq, SessionError, SessionPaths, SessionStore as _,
};
use nanobot_testkit::conformance::session_store;

use crate::support::{Home, assistant, key, texts, user, whole};

#[tokio::test]
async fn in_memory() {
    session_store(async || Ok(InMemoryStore::new()))
        .await
        .unwrap();
}

#[tokio::test]
async fn jsonl() {
    let root = tempfile::tempdir().unwrap();
    let make = async || {
        Ok(JsonlStore::new(SessionPaths::only(
            tempfile::tempdir_in(&root)?.keep(),
        )))
    };
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

/// Two stores over the same files act as two processes.
#[tokio::test]
async fn two_processes_on_one_folder_see_each_others_entries() {
    let home = Home::new();
    let (first, second) = (home.store(), home.store());
    let head = first.append(&key(), Seq(0), vec![user("a")]).await.unwrap();
    let head = second
        .append(&key(), head, vec![assistant("b")])
        .await
        .unwrap();
    let stale = first.append(&key(), Seq(1), vec![user("lost")]).await;
    assert!(
        matches!(stale, Err(SessionError::Moved { actual: Seq(2), .. })),
        "{stale:?}"
    );
    first.append(&key(), head, vec![user("c")]).await.unwrap();
    assert_eq!(texts(&whole(&second).await), ["a", "b", "c"]);
}

#[tokio::test]
async fn racing_processes_lose_no_entry() {
    let home = Home::new();
    let stores: Vec<JsonlStore> = (0..6).map(|_| home.store()).collect();
    let race = stores.iter().enumerate().map(async |(writer, store)| {
        let mut head = Seq(0);
        for round in 0..10 {
            let pair = vec![
                user(&format!("{writer}.{round}")),
                assistant(&format!("{writer}.{round}")),
            ];
            loop {
                match store.append(&key(), head, pair.clone()).await {
                    Err(SessionError::Moved { actual, .. }) => head = actual,
                    appended => break head = appended.unwrap(),
                }
            }
        }
    });
    join_all(race).await;
    let texts = texts(&whole(&home.store()).await);
    assert!(texts.chunks(2).all(|pair| pair[0] == pair[1]), "{texts:?}");
    assert_eq!(texts.len(), 6 * 10 * 2);
    assert_eq!(
        home.bytes()
            .split(|byte| *byte == b'\n')
            .filter(|line| line.starts_with(b"{\"_type\""))
            .count(),
        1
    );
}
