//! Full disks, unreadable folders, and callers that go away.

use nanobot_session::{ReadFrom, Seq, SessionError, SessionStore as _};

use crate::support::{Home, assistant, key, log, texts, user, whole};

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_error_names_the_file() {
    let home = Home::new();
    std::os::unix::fs::symlink("/dev/full", home.file()).unwrap();
    let error = home
        .store()
        .append(&key(), Seq(0), vec![user("hi")])
        .await
        .unwrap_err();
    let SessionError::Io {
        action,
        path,
        source,
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(
        (*action, path, source.kind()),
        ("write", &home.file(), std::io::ErrorKind::StorageFull)
    );
    assert!(error.is_transient());
}

#[cfg(unix)]
#[tokio::test]
async fn unopenable_session_is_an_error_but_listed() {
    let home = Home::new();
    std::fs::create_dir(home.file()).unwrap();
    let store = home.store();
    assert!(matches!(
        store.read(&key(), ReadFrom::Cursor).await,
        Err(SessionError::Io { .. })
    ));
    assert!(matches!(
        store.append(&key(), Seq(0), vec![user("a")]).await,
        Err(SessionError::Io { .. })
    ));
    let list = store.list().await.unwrap();
    assert_eq!(
        list.iter()
            .map(|info| (info.key.clone(), info.messages))
            .collect::<Vec<_>>(),
        [(key(), 0)]
    );
}

#[tokio::test]
async fn torn_line_is_copied_once_and_logged() {
    let log = log();
    let home = Home::with_file(b"{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"us");
    let store = home.store();
    store
        .append(&key(), Seq(1), vec![assistant("b")])
        .await
        .unwrap();
    store.append(&key(), Seq(2), vec![user("c")]).await.unwrap();
    assert_eq!(texts(&whole(&home.store()).await), ["a", "b", "c"]);
    let kept = home.files_with_mark(".torn-");
    assert_eq!(kept.len(), 1);
    assert_eq!(std::fs::read(&kept[0]).unwrap(), b"{\"role\":\"us");
    assert_eq!(log.count(&home.file(), "torn line"), 1);
}

#[tokio::test]
async fn dropped_append_still_completes() {
    let home = Home::new();
    let store = home.store();
    let key = key();
    let mut append = store.append(&key, Seq(0), vec![user("a")]);
    assert!(futures_util::poll!(&mut append).is_pending());
    drop(append);
    assert_eq!(texts(&whole(&store).await), ["a"]);
}

#[tokio::test]
async fn reads_every_whole_record_of_a_damaged_line() {
    let one = r#"{"role": "user", "content": "one", "timestamp": "2026-03-15T14:30:00"}"#;
    let two = r#"{"role": "user", "content": "two", "timestamp": "2026-03-15T14:30:01"}"#;
    let state = r#"{"_type": "metadata", "key": "telegram:1", "created_at": null, "updated_at": null, "metadata": {}, "last_consolidated": 0}"#;
    let table = [
        ("two records on one line", format!("{state}\n{one}{two}\n")),
        (
            "a torn record with a whole one after it",
            format!("{state}\n{one}\n{{\"role\":\"user\",\"content\":\"th{two}\n"),
        ),
        ("all on one line", format!("{state}{one}{two}")),
        (
            "a torn record after two",
            format!("{state}\n{one}{two}{{\"role\":\"us"),
        ),
    ];
    for (what, text) in table {
        let home = Home::with_file(text.as_bytes());
        let before = whole(&home.store()).await;
        assert_eq!(texts(&before), ["one", "two"], "{what}");
        home.store()
            .append(&key(), before.head, vec![user("three")])
            .await
            .unwrap();
        assert_eq!(
            texts(&whole(&home.store()).await),
            ["one", "two", "three"],
            "{what}"
        );
    }
}

#[tokio::test]
async fn tool_calls_of_a_wrong_type_are_reported() {
    let calls = [
        r#""exec""#,
        r#"{"id":"c"}"#,
        r#"[{"id":5,"function":{"name":"exec","arguments":"{}"}}]"#,
        "[7]",
    ];
    for calls in calls {
        let line = format!(
            r#"{{"role":"assistant","content":"x","tool_calls":{calls},"timestamp":"2026-03-15T14:30:00"}}"#
        );
        let home = Home::with_file(format!("{line}\n").as_bytes());
        let before = log().count(&home.file(), "unreadable lines");
        assert_eq!(texts(&whole(&home.store()).await), ["x"], "{calls}");
        assert_eq!(
            log().count(&home.file(), "unreadable lines"),
            before + 1,
            "{calls}"
        );
    }
}
