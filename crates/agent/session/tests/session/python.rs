//! Sessions of the Python program, in every location it has used.

use nanobot_session::{Entry, JsonlStore, ReadFrom, Seq, SessionPaths, SessionStore as _, replay};
use nanobot_types::ChatMessage;
use serde_json::{Value, json};

use crate::support::{Home, assistant, end, key, messages, texts, user, user_of, whole};

/// A file as the Python program of March 2026 wrote it after one turn with an image and a command.
const MARCH: &str = concat!(
    r#"{"_type": "metadata", "key": "telegram:1", "created_at": "2026-03-01T10:00:00.000001", "updated_at": "2026-03-15T14:30:00.123456", "metadata": {"a": 1}, "last_consolidated": 0}"#,
    "\n",
    r#"{"role": "user", "content": [{"type": "text", "text": "[image]"}, {"type": "text", "text": "hello"}], "timestamp": "2026-03-15T14:30:00.000001"}"#,
    "\n",
    r#"{"role": "assistant", "content": "let me see", "tool_calls": [{"id": "abc123XYZ", "type": "function", "function": {"name": "exec", "arguments": "{\"command\": \"echo hi\"}"}}], "reasoning_content": "R", "timestamp": "2026-03-15T14:30:01.000001"}"#,
    "\n",
    r#"{"role": "tool", "tool_call_id": "abc123XYZ", "name": "exec", "content": "hi\n\n\nExit code: 0", "timestamp": "2026-03-15T14:30:02.000001"}"#,
    "\n",
    r#"{"role": "assistant", "content": "done", "reasoning_content": "R2", "timestamp": "2026-03-15T14:30:03.000001"}"#,
    "\n",
);

/// Returns the lines of a file as the Python program reads them: messages, and the last metadata
/// line.
fn as_python_reads(bytes: &[u8]) -> (Vec<Value>, Value) {
    let mut messages = Vec::new();
    let mut metadata = Value::Null;
    for line in std::str::from_utf8(bytes)
        .unwrap()
        .lines()
        .filter(|line| !line.trim().is_empty())
    {
        let value: Value = serde_json::from_str(line).unwrap();
        if value["_type"] == "metadata" {
            metadata = value;
        } else {
            messages.push(value);
        }
    }
    (messages, metadata)
}

#[tokio::test]
async fn a_session_of_the_python_program_continues() {
    let home = Home::with_file(MARCH.as_bytes());
    let store = home.store();
    let view = whole(&store).await;
    assert_eq!(view.metadata, *json!({"a": 1}).as_object().unwrap());
    let sent = replay(&view);
    assert_eq!((sent.repairs, sent.open_turn), (Vec::new(), None));
    let expected: Vec<Value> = as_python_reads(MARCH.as_bytes()).0;
    let sent: Vec<Value> = sent
        .transcript
        .messages()
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .collect();
    for (sent, mut stored) in sent.into_iter().zip(expected) {
        stored.as_object_mut().unwrap().remove("timestamp");
        assert_eq!(sent, stored);
    }
    store
        .append(&key(), view.head, vec![user_of("telegram:1:7", "again")])
        .await
        .unwrap();
    store
        .append(
            &key(),
            Seq(5),
            vec![assistant("yes"), end(&["telegram:1:7"])],
        )
        .await
        .unwrap();

    let bytes = home.bytes();
    assert!(
        bytes.starts_with(MARCH.as_bytes()),
        "old lines are kept byte for byte"
    );
    let (messages, metadata) = as_python_reads(&bytes);
    assert_eq!(messages.len(), 6);
    assert_eq!(messages[4]["role"], "user");
    assert_eq!(messages[4]["content"], "again");
    assert_eq!(messages[4]["_inbound"], "telegram:1:7");
    let six = [
        "key",
        "created_at",
        "metadata",
        "last_consolidated",
        "_count",
    ]
    .map(|field| metadata[field].clone());
    assert_eq!(
        six,
        [
            json!("telegram:1"),
            json!("2026-03-01T10:00:00.000001"),
            json!({"a": 1}),
            json!(0),
            json!(6)
        ]
    );
    assert!(metadata["updated_at"].as_str().unwrap() > "2026-03-15T14:30:00.123456");
}

#[tokio::test]
async fn new_file_starts_like_one_of_the_python_program() {
    let home = Home::new();
    home.store()
        .append(&key(), Seq(0), vec![user("hi")])
        .await
        .unwrap();
    let text = String::from_utf8(home.bytes()).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let time = &lines[0]["created_at"];
    assert_eq!(
        lines[0],
        json!({"_type": "metadata", "key": "telegram:1", "created_at": time, "updated_at": time, "metadata": {},
               "last_consolidated": 0, "_count": 0})
    );
    assert_eq!(lines.len(), 2);
    let time = &lines[1]["timestamp"];
    assert_eq!(
        lines[1],
        json!({"role": "user", "content": "hi", "timestamp": time})
    );
    #[cfg(unix)]
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&home.file().metadata().unwrap().permissions())
            & 0o777,
        0o600
    );
}

/// Python rewrites the file without our metadata lines; the result must still be valid.
#[tokio::test]
async fn file_rewritten_by_the_python_program_is_reread() {
    let home = Home::new();
    let store = home.store();
    store
        .append(
            &key(),
            Seq(0),
            vec![
                user("a"),
                assistant("b"),
                user("c"),
                Entry::Consolidated { upto: Seq(2) },
            ],
        )
        .await
        .unwrap();
    let (messages, mut metadata) = as_python_reads(&home.bytes());
    for ours in ["_count", "_entry"] {
        metadata.as_object_mut().unwrap().remove(ours);
    }
    let mut text = format!("{metadata}\n");
    for message in messages {
        text.push_str(&format!("{message}\n"));
    }
    text.push_str("{\"role\": \"assistant\", \"content\": \"d\"}\n");
    std::fs::write(home.file(), text).unwrap();
    let view = store.read(&key(), ReadFrom::Cursor).await.unwrap();
    assert_eq!(
        (view.head, view.cursor, texts(&view)),
        (Seq(4), Seq(2), vec!["c".to_owned(), "d".to_owned()])
    );
}

#[tokio::test]
async fn first_write_moves_a_legacy_session_and_leaves_a_copy() {
    let root = tempfile::tempdir().unwrap();
    let (sessions, legacy) = (
        root.path().join("workspace/sessions"),
        root.path().join("home"),
    );
    std::fs::create_dir_all(&legacy).unwrap();
    let old = legacy.join("telegram_1.jsonl");
    std::fs::write(&old, MARCH).unwrap();
    let store = JsonlStore::new(SessionPaths {
        legacy: Some(legacy.clone()),
        ..SessionPaths::only(&sessions)
    });
    let view = store.read(&key(), ReadFrom::Cursor).await.unwrap();
    assert_eq!(view.head, Seq(4));
    assert!(old.exists() && !sessions.exists(), "reading moves nothing");

    store
        .append(&key(), Seq(4), vec![user("again")])
        .await
        .unwrap();
    store
        .append(&key(), Seq(5), vec![assistant("yes")])
        .await
        .unwrap();
    let moved = std::fs::read(sessions.join("telegram_1.jsonl")).unwrap();
    assert!(moved.starts_with(MARCH.as_bytes()));
    assert_eq!(whole(&store).await.head, Seq(6));
    let left: Vec<_> = std::fs::read_dir(&legacy)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    assert_eq!(left.len(), 1);
    assert!(
        left[0]
            .to_str()
            .unwrap()
            .contains("telegram_1.jsonl.moved-"),
        "{left:?}"
    );
    assert_eq!(std::fs::read_to_string(&left[0]).unwrap(), MARCH);
    assert_eq!(store.list().await.unwrap().len(), 1);
}

#[tokio::test]
async fn external_store_is_continued_in_place() {
    let root = tempfile::tempdir().unwrap();
    let (sessions, external) = (root.path().join("sessions"), root.path().join("external"));
    std::fs::create_dir_all(&external).unwrap();
    let file = external.join("dGVsZWdyYW06MQ.jsonl");
    let state = "{\"_type\": \"provider_state\", \"state\": {\"x\": 1}}\n";
    let (first, rest) = MARCH.split_once('\n').unwrap();
    let text = format!("{first}\n{state}{rest}");
    std::fs::write(&file, &text).unwrap();
    let store = JsonlStore::new(SessionPaths {
        external: Some(external),
        ..SessionPaths::only(&sessions)
    });
    store
        .append(&key(), Seq(4), vec![user("again")])
        .await
        .unwrap();
    assert!(std::fs::read_to_string(&file).unwrap().starts_with(&text));
    assert!(!sessions.exists(), "never both");
    assert_eq!(messages(&whole(&store).await).len(), 5);
    let list = store.list().await.unwrap();
    assert_eq!((list[0].key.as_str(), list[0].messages), ("telegram:1", 5));
}

/// v0.3 reads `last_archived` before `last_consolidated`; both have to move.
#[tokio::test]
async fn cursor_is_stored_under_both_of_its_names() {
    let text = MARCH.replace(
        "\"last_consolidated\": 0",
        "\"last_archived\": 1, \"last_consolidated\": 0, \"other\": 5",
    );
    let home = Home::with_file(text.as_bytes());
    let store = home.store();
    assert_eq!(whole(&store).await.cursor, Seq(1));
    store
        .append(&key(), Seq(4), vec![Entry::Consolidated { upto: Seq(3) }])
        .await
        .unwrap();
    let (_, metadata) = as_python_reads(&home.bytes());
    let fields =
        ["last_archived", "last_consolidated", "other"].map(|field| metadata[field].clone());
    assert_eq!(fields, [json!(3), json!(3), json!(5)]);
    assert_eq!(whole(&home.store()).await.cursor, Seq(3));
}

#[tokio::test]
async fn renamed_file_belongs_to_the_key_of_its_name() {
    let home = Home::with_file(MARCH.replace("telegram:1", "telegram:2").as_bytes());
    let store = home.store();
    let view = whole(&store).await;
    assert_eq!(view.head, Seq(4));
    store
        .append(&key(), view.head, vec![user("next")])
        .await
        .unwrap();
    assert_eq!(home.store().list().await.unwrap()[0].key, key());
}

#[tokio::test]
async fn reads_messages_stored_as_text_only() {
    let home = Home::with_file(
        b"{\"_type\": \"metadata\", \"created_at\": \"2026-02-01T00:00:00\"}\n{\"role\": \"user\", \"content\": \"q\", \"tools_used\": [\"a\"]}\n",
    );
    let entries = messages(&whole(&home.store()).await);
    assert_eq!(*entries[0].message, ChatMessage::user("q"));
    assert_eq!(
        entries[0].extra,
        *json!({"tools_used": ["a"]}).as_object().unwrap()
    );
    let list = home.store().list().await.unwrap();
    assert_eq!(list[0].key, key());
    assert!(list[0].created_at.is_some());
}
