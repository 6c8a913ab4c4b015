//! The session rows of the corpus of stored data. A failing run names the rows.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use nanobot_session::{SessionStore as _, replay};
use nanobot_testkit::corpus::{self, CorpusRow};

use crate::support::{Home, assert_valid, key, log, messages, roles, texts, user, whole};

#[tokio::test]
async fn stored_sessions_match_the_corpus() {
    let log = log();
    let rows: Vec<CorpusRow> = corpus::rows("stored_data")
        .unwrap()
        .into_iter()
        .filter(|row| row.text("kind") == "session")
        .collect();
    assert_eq!(rows.len(), 30);
    let mut failed = Vec::new();
    for row in rows {
        if AssertUnwindSafe(holds(&row, log))
            .catch_unwind()
            .await
            .is_err()
        {
            failed.push(row.id);
        }
    }
    assert_eq!(failed, [] as [String; 0], "rows that do not hold");
}

async fn holds(row: &CorpusRow, log: &crate::support::Log) {
    let original = row.bytes().unwrap();
    let home = Home::with_file(&original);
    let store = home.store();
    let before = whole(&store).await;
    let range = match row.json.pointer("/expect/messages").unwrap() {
        serde_json::Value::Array(pair) => pair[0].as_u64().unwrap()..=pair[1].as_u64().unwrap(),
        number => number.as_u64().unwrap()..=number.as_u64().unwrap(),
    };
    assert!(
        range.contains(&before.head.0),
        "{}: {} messages",
        row.id,
        before.head
    );
    assert_eq!(
        messages(&before).len() as u64,
        before.head.0,
        "{}: every message is there",
        row.id
    );
    // The only row with a valid cursor.
    let cursor = u64::from(row.id == "sd-s-015");
    assert_eq!(
        before.cursor.0, cursor,
        "{}: nothing else is hidden",
        row.id
    );
    if let Some(expected) = row.json.pointer("/expect/request_roles") {
        assert_eq!(
            serde_json::json!(roles(&replay(&before).transcript)),
            *expected,
            "{}",
            row.id
        );
    }
    for word in row.must() {
        match word {
            "no_panic" => {}
            "bad_line_reported" | "torn_tail_reported" => {
                assert_eq!(
                    log.count(&home.file(), "unreadable lines"),
                    1,
                    "{}: reported once",
                    row.id
                );
            }
            "request_valid" => assert_valid(&replay(&before), &row.id),
            // Checked below: the original bytes are kept, before and after the append.
            "original_kept_until_repaired_copy_is_durable" | "unknown_records_preserved" => {}
            "unknown_fields_preserved" => {
                assert!(!messages(&before)[0].extra.is_empty(), "{}", row.id);
            }
            "next_append_is_readable" => {
                store
                    .append(&key(), before.head, vec![user("next")])
                    .await
                    .unwrap();
                for store in [&store, &home.store()] {
                    let mut expected = texts(&before);
                    expected.push("next".to_owned());
                    assert_eq!(texts(&whole(store).await), expected, "{}", row.id);
                }
            }
            other => panic!("{}: unknown word {other}", row.id),
        }
    }
    assert!(
        home.bytes().starts_with(&original),
        "{}: nothing was rewritten",
        row.id
    );
}
