//! Titles, previews and deletion of sessions, and rewinds that are restored.

use std::io::Write as _;

use nanobot_session::{
    Entry, InMemoryStore, LastExchange, ReadFrom, Seq, SessionCatalog as _, SessionError,
    SessionPreview, SessionStore, SessionView, deleted_at, rename, replay, restore_rewound, rewind,
    trash_folder,
};

use crate::support::{Home, assistant, call, calls, end, key, result, user, user_of};

async fn current(store: &impl SessionStore) -> SessionView {
    store.read(&key(), ReadFrom::Cursor).await.unwrap()
}

fn sent(view: &SessionView) -> String {
    let transcript = replay(view).transcript;
    serde_json::to_string(transcript.messages()).unwrap()
}

fn exchange(id: &str, asked: &str, reply: &str) -> Vec<Entry> {
    vec![user_of(id, asked), assistant(reply), end(&[id])]
}

async fn append(store: &impl SessionStore, entries: Vec<Entry>) {
    let head = current(store).await.head;
    store.append(&key(), head, entries).await.unwrap();
}

#[tokio::test]
async fn restored_rewind_sends_the_same_conversation() {
    let home = Home::new();
    let (file, memory) = (home.store(), InMemoryStore::new());
    async fn check(store: &impl SessionStore) {
        append(store, exchange("1", "one", "first")).await;
        append(store, exchange("2", "two", "second")).await;
        append(store, exchange("3", "three", "third")).await;
        let whole = sent(&current(store).await);
        assert!(!restore_rewound(store, &key(), None).await.unwrap());
        rewind(store, &key(), Seq(4)).await.unwrap();
        let shorter = sent(&current(store).await);
        rewind(store, &key(), Seq(2)).await.unwrap();
        assert!(!sent(&current(store).await).contains("two"));
        // Each rewind is restored once, the latest first.
        assert!(restore_rewound(store, &key(), None).await.unwrap());
        assert_eq!(sent(&current(store).await), shorter);
        assert!(restore_rewound(store, &key(), None).await.unwrap());
        assert_eq!(sent(&current(store).await), whole);
        assert!(!restore_rewound(store, &key(), None).await.unwrap());
        // A range in the middle knows of it, too.
        let range = ReadFrom::Range {
            from: Seq(0),
            upto: Seq(5),
        };
        let range = store.read(&key(), range).await.unwrap();
        let is_message =
            |record: &&&nanobot_session::Record| matches!(record.entry, Entry::Message(_));
        assert_eq!(
            range.effective_records().iter().filter(is_message).count(),
            5
        );
        // A later message ends the chance.
        rewind(store, &key(), Seq(4)).await.unwrap();
        append(store, exchange("4", "four", "fourth")).await;
        assert!(!restore_rewound(store, &key(), None).await.unwrap());
        append(store, vec![Entry::Restored]).await;
        assert!(!sent(&current(store).await).contains("three"));
        // So does a summary of what was undone.
        rewind(store, &key(), Seq(6)).await.unwrap();
        append(store, vec![Entry::Reset]).await;
        assert!(!restore_rewound(store, &key(), None).await.unwrap());
    }
    check(&file).await;
    check(&memory).await;
}

#[tokio::test]
async fn last_exchange_is_a_whole_turn() {
    let store = InMemoryStore::new();
    assert_eq!(LastExchange::of(&current(&store).await), None);
    append(&store, exchange("1", "one", "first")).await;
    let turn = vec![
        user_of("2", "two"),
        calls(&["a"]),
        result("a", "ok"),
        user_of("3", "and three"),
        assistant("second"),
        end(&["2", "3"]),
    ];
    append(&store, turn).await;
    let last = LastExchange::of(&current(&store).await).unwrap();
    assert_eq!((last.from, last.messages.len()), (Seq(2), 5));
    assert_eq!(last.asked(), "two\n\nand three");
    assert_eq!(last.reply().as_deref(), Some("second"));
    assert_eq!(last.calls().collect::<Vec<_>>(), [&call("a")]);
    rewind(&store, &key(), last.from).await.unwrap();
    let last = LastExchange::of(&current(&store).await).unwrap();
    assert_eq!((last.from, last.asked().as_str()), (Seq(0), "one"));
    // Other programs record neither ids nor ends of turns.
    append(&store, vec![user("five"), assistant("5"), user("six")]).await;
    let last = LastExchange::of(&current(&store).await).unwrap();
    assert_eq!((last.asked().as_str(), last.reply()), ("six", None));
    append(&store, vec![Entry::Reset]).await;
    assert_eq!(LastExchange::of(&current(&store).await), None);
}

#[tokio::test]
async fn names_are_stored_where_other_programs_look_for_them() {
    let home = Home::new();
    let store = home.store();
    assert!(!rename(&store, &key(), Some("x")).await.unwrap());
    assert!(home.files_with_mark("t").is_empty());
    append(&store, exchange("1", "one", "first")).await;
    assert!(rename(&store, &key(), Some("Trip to Kyoto")).await.unwrap());
    let info = store.list().await.unwrap().remove(0);
    assert_eq!(info.title().as_deref(), Some("Trip to Kyoto"));
    assert_eq!(info.metadata["title"], "Trip to Kyoto");
    assert_eq!(info.metadata["title_user_edited"], true);
    assert!(rename(&store, &key(), None).await.unwrap());
    let info = store.list().await.unwrap().remove(0);
    assert_eq!(
        (info.title(), info.metadata.contains_key("title")),
        (None, false)
    );
    // A rewritten file of another program, with a hostile title.
    let rewritten = b"{\"_type\":\"metadata\",\"key\":\"telegram:1\",\"metadata\":{\"title\":\"\\u001b]0;x\\u0007\\n a\"}}\n{\"role\":\"user\",\"content\":\"hi\"}\n";
    let home = Home::with_file(rewritten);
    let info = home.store().list().await.unwrap().remove(0);
    assert_eq!(info.title().as_deref(), Some("]0;x a"));
}

#[tokio::test]
async fn preview_shows_the_beginning_and_the_end() {
    let home = Home::new();
    let store = home.store();
    let preview = async |store: &nanobot_session::JsonlStore| store.preview(&key()).await.unwrap();
    assert_eq!(preview(&store).await, SessionPreview::default());
    let texts = |opening: &str, latest: &str| SessionPreview {
        opening: Some(opening.to_owned()),
        latest: Some(latest.to_owned()),
    };
    append(&store, exchange("1", "plan a\ntrip\u{1b}[31m", "gladly")).await;
    assert_eq!(preview(&store).await, texts("plan a trip [31m", "gladly"));
    append(&store, exchange("2", "two", "second")).await;
    rewind(&store, &key(), Seq(2)).await.unwrap();
    assert_eq!(preview(&store).await, texts("plan a trip [31m", "gladly"));
    restore_rewound(&store, &key(), None).await.unwrap();
    assert_eq!(preview(&store).await, texts("plan a trip [31m", "second"));
    append(&store, vec![Entry::Reset]).await;
    append(&store, exchange("3", "something else", "yes")).await;
    assert_eq!(preview(&store).await, texts("something else", "yes"));
}

#[tokio::test]
async fn preview_cost_does_not_depend_on_the_length() {
    let home = Home::new();
    let store = home.store();
    append(&store, exchange("1", "the question", "first")).await;
    let mut file = std::fs::File::options()
        .append(true)
        .open(home.file())
        .unwrap();
    let line = format!(
        "{{\"role\":\"tool\",\"content\":\"{}\"}}\n",
        "x".repeat(1 << 20)
    );
    for _ in 0..20 {
        file.write_all(line.as_bytes()).unwrap();
    }
    append(&store, exchange("2", "late", "the end")).await;
    let before = store.bytes_read();
    let preview = store.preview(&key()).await.unwrap();
    assert_eq!(preview.opening.as_deref(), Some("the question"));
    assert_eq!(preview.latest.as_deref(), Some("the end"));
    let read = store.bytes_read() - before;
    assert!(read <= 2 * 64 * 1024, "{read}");
    // Neither newlines nor JSON.
    for hostile in [
        vec![b'x'; 1 << 20],
        vec![0xff; 1 << 20],
        vec![b'\n'; 1 << 20],
    ] {
        let home = Home::with_file(&hostile);
        home.store().preview(&key()).await.unwrap();
    }
}

#[tokio::test]
async fn deleted_session_is_restored_byte_for_byte() {
    let home = Home::new();
    let store = home.store();
    assert!(!store.delete(&key()).await.unwrap());
    assert!(!store.restore(&key()).await.unwrap());
    append(&store, exchange("1", "one", "first")).await;
    let before = home.bytes();
    assert!(store.delete(&key()).await.unwrap());
    assert_eq!(store.list().await.unwrap(), []);
    assert_eq!(current(&store).await, SessionView::default());
    let deleted = store.deleted().await.unwrap();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0].key, key());
    let sessions = home.file().parent().unwrap().to_owned();
    let trashed: Vec<_> = std::fs::read_dir(trash_folder(&sessions))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(trashed.len(), 1);
    assert_eq!(deleted_at(&trashed[0]), Some(deleted[0].at));
    assert!(store.restore(&key()).await.unwrap());
    assert_eq!(home.bytes(), before);
    assert_eq!(store.deleted().await.unwrap(), []);
    append(&store, exchange("2", "two", "second")).await;

    // A new conversation under the same key is not replaced; the latest deletion is restored first.
    assert!(store.delete(&key()).await.unwrap());
    append(&store, exchange("3", "three", "third")).await;
    let refused = store.restore(&key()).await;
    assert!(
        matches!(refused, Err(SessionError::Taken { .. })),
        "{refused:?}"
    );
    assert!(store.delete(&key()).await.unwrap());
    assert_eq!(store.deleted().await.unwrap().len(), 2);
    assert!(store.restore(&key()).await.unwrap());
    assert!(sent(&current(&store).await).contains("three"));
}

#[tokio::test]
async fn foreign_files_in_the_trash_are_left_alone() {
    let home = Home::new();
    let store = home.store();
    append(&store, exchange("1", "one", "first")).await;
    let trash = trash_folder(home.file().parent().unwrap());
    std::fs::create_dir(&trash).unwrap();
    for name in [
        "notes.txt",
        "t_1.jsonl",
        "x.deleted-20261123T101112",
        "a.jsonl.deleted-soon",
    ] {
        std::fs::write(trash.join(name), "\u{1b}{{{").unwrap();
    }
    assert_eq!(store.deleted().await.unwrap(), []);
    assert!(!store.restore(&key()).await.unwrap());
    assert_eq!(store.list().await.unwrap().len(), 1);
}
