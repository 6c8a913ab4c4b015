//! Forks and rewinds: a fork is the same conversation, undone messages are not sent, and nothing is
//! lost.

use nanobot_session::{
    Entry, InMemoryStore, ReadFrom, Seq, SessionError, SessionStore, SessionView, branch, fork,
    replay, rewind,
};
use nanobot_types::SessionKey;
use proptest::prelude::*;
use serde_json::json;

use crate::crashes::any_entry;
use crate::support::{
    Home, assert_valid, assistant, calls, end, key, messages, result, texts, user, user_of, whole,
};

async fn holding(entries: Vec<Entry>) -> InMemoryStore {
    let store = InMemoryStore::new();
    store.append(&key(), Seq(0), entries).await.unwrap();
    store
}

async fn current(store: &impl SessionStore, key: &SessionKey) -> SessionView {
    store.read(key, ReadFrom::Cursor).await.unwrap()
}

/// Returns the messages that are sent, byte for byte.
fn sent(view: &SessionView) -> String {
    serde_json::to_string(replay(view).transcript.messages()).unwrap()
}

fn sent_texts(view: &SessionView) -> Vec<String> {
    replay(view)
        .transcript
        .messages()
        .iter()
        .map(|message| message.text())
        .collect()
}

fn conversation() -> Vec<Entry> {
    vec![
        user_of("t:1", "a"),
        calls(&["1"]),
        result("1", "r"),
        assistant("b"),
        end(&["t:1"]),
        user_of("t:2", "c"),
        assistant("d"),
        end(&["t:2"]),
    ]
}

#[tokio::test]
async fn rewound_entries_stay_in_the_log_but_are_not_sent() {
    let home = Home::new();
    let store = home.store();
    store.append(&key(), Seq(0), conversation()).await.unwrap();
    assert_eq!(rewind(&store, &key(), Seq(4)).await.unwrap(), Seq(6));
    store
        .append(&key(), Seq(6), vec![user("e"), assistant("f"), end(&[])])
        .await
        .unwrap();
    for store in [store, home.store()] {
        let view = whole(&store).await;
        assert_eq!(texts(&view), ["a", "", "r", "b", "c", "d", "e", "f"]);
        assert_eq!(sent_texts(&view), ["a", "", "r", "b", "e", "f"]);
        assert_eq!(
            view.answered.len(),
            2,
            "answered messages are still known as answered"
        );
    }
    let store = home.store();
    rewind(&store, &key(), Seq(1)).await.unwrap();
    let view = whole(&store).await;
    assert_eq!(sent_texts(&view), ["a"]);
    assert_eq!(
        replay(&view).open_turn,
        None,
        "the turn left open there is history"
    );
    rewind(&store, &key(), view.head).await.unwrap();
    assert_eq!(
        whole(&store).await,
        view,
        "going back to the end writes nothing"
    );
}

#[tokio::test]
async fn rewind_and_fork_reject_positions_out_of_reach() {
    let store = holding(conversation()).await;
    store
        .append(&key(), Seq(6), vec![Entry::Consolidated { upto: Seq(4) }])
        .await
        .unwrap();
    for to in [3, 7] {
        let refused = rewind(&store, &key(), Seq(to)).await;
        assert!(
            matches!(
                &refused,
                Err(SessionError::OutOfReach {
                    first: Seq(4),
                    last: Seq(6),
                    ..
                })
            ),
            "{to}: {refused:?}"
        );
    }
    let refused = fork(&store, &key(), Some(Seq(7)), &"t:copy".into()).await;
    assert!(
        matches!(
            &refused,
            Err(SessionError::OutOfReach {
                first: Seq(0),
                last: Seq(6),
                ..
            })
        ),
        "{refused:?}"
    );
    let refused = fork(&store, &key(), None, &key()).await;
    assert!(
        matches!(refused, Err(SessionError::Moved { .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn fork_is_independent_of_its_original() {
    let home = Home::new();
    let store = home.store();
    let mut entries = conversation();
    entries.insert(
        5,
        Entry::Metadata(json!({"title": "t"}).as_object().unwrap().clone()),
    );
    store.append(&key(), Seq(0), entries).await.unwrap();
    let copies = [
        branch(&store, &key(), None).await.unwrap(),
        branch(&store, &key(), Some(Seq(4))).await.unwrap(),
        branch(&store, &key(), Some(Seq(2))).await.unwrap(),
    ];
    assert_eq!(
        copies.each_ref().map(SessionKey::as_str),
        [
            "telegram:1:branch:1",
            "telegram:1:branch:2",
            "telegram:1:branch:3"
        ]
    );
    let original = whole(&store).await;
    for (copy, at, expected) in [
        (&copies[0], 6, vec!["a", "", "r", "b", "c", "d"]),
        (&copies[1], 4, vec!["a", "", "r", "b"]),
    ] {
        let view = current(&store, copy).await;
        assert_eq!(sent_texts(&view), expected);
        let metadata = json!({"title": "t", "forked_from": "telegram:1", "forked_at": at});
        assert_eq!(view.metadata, *metadata.as_object().unwrap());
    }
    let cut = replay(&current(&store, &copies[2]).await);
    assert_valid(&cut, "cut between a call and its result");
    store
        .append(&copies[0], Seq(6), vec![user("only here")])
        .await
        .unwrap();
    assert_eq!(whole(&store).await, original);
    assert_eq!(current(&store, &copies[1]).await.head, Seq(4));
}

/// The Python program moves the cursor without an entry, and a damaged line shifts the messages
/// after it.
#[tokio::test]
async fn fork_of_a_foreign_file_copies_the_sent_messages() {
    let home = Home::with_file(
        concat!(
            "{\"_type\": \"metadata\", \"key\": \"telegram:1\", \"metadata\": {}, \"last_consolidated\": 2}\n",
            "{\"role\": \"user\", \"content\": \"a\"}\n",
            "{\"role\": \"user\", \"content\"\n",
            "{\"role\": \"assistant\", \"content\": \"b\"}\n",
            "{\"role\": \"user\", \"content\": \"c\"}\n",
        )
        .as_bytes(),
    );
    let store = home.store();
    store
        .append(&key(), Seq(3), vec![assistant("d")])
        .await
        .unwrap();
    let copy = branch(&store, &key(), None).await.unwrap();
    let view = current(&store, &copy).await;
    assert_eq!(
        (view.head, view.cursor, texts(&view)),
        (Seq(4), Seq(2), vec!["c".to_owned(), "d".to_owned()])
    );
    assert_eq!(sent(&view), sent(&current(&store, &key()).await));
}

#[tokio::test]
async fn rewind_reads_only_the_tail() {
    let line = "{\"role\": \"user\", \"content\": \"some words that were said\"}\n";
    let home = Home::with_file(line.repeat(100_000).as_bytes());
    home.store()
        .append(
            &key(),
            Seq(100_000),
            vec![Entry::Consolidated { upto: Seq(99_990) }],
        )
        .await
        .unwrap();
    let store = home.store();
    rewind(&store, &key(), Seq(99_995)).await.unwrap();
    store
        .append(&key(), Seq(100_000), vec![assistant("x")])
        .await
        .unwrap();
    assert_eq!(messages(&current(&store, &key()).await).len(), 11);
    assert!(
        store.bytes_read() < 256 * 1024,
        "{} bytes",
        store.bytes_read()
    );
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn copy_is_sent_like_the_original(entries in prop::collection::vec(any_entry(), 0..40)) {
        run(async {
            let store = holding(entries).await;
            let original = current(&store, &key()).await;
            let head = fork(&store, &key(), None, &"t:copy".into()).await.unwrap();
            let copy = current(&store, &"t:copy".into()).await;
            assert_eq!((head, sent(&copy)), (original.head, sent(&original)));
            assert_eq!((copy.cursor, copy.answered), (original.cursor, original.answered));
        });
    }

    #[test]
    fn fork_at_a_position_is_sent_like_the_past(
        entries in prop::collection::vec(any_entry(), 1..40),
        at in any::<prop::sample::Index>(),
    ) {
        run(async {
            let entries: Vec<Entry> =
                entries.into_iter().filter(|entry| !matches!(entry, Entry::Consolidated { .. })).collect();
            let store = holding(entries.clone()).await;
            let head = current(&store, &key()).await.head;
            let at = at.index(usize::try_from(head.0).unwrap() + 1);
            // Up to the message, and the ends of turns directly after it.
            let mut seen = 0;
            let then: Vec<Entry> = entries.into_iter().take_while(|entry| {
                let goes_on = seen < at || matches!(entry, Entry::TurnEnded(_));
                seen += usize::from(matches!(entry, Entry::Message(_)));
                goes_on
            }).collect();
            let then = holding(then).await;
            fork(&store, &key(), Some(Seq(at as u64)), &"t:copy".into()).await.unwrap();
            let copy = current(&store, &"t:copy".into()).await;
            assert_eq!(sent(&copy), sent(&current(&then, &key()).await));
        });
    }

    #[test]
    fn conversation_continues_after_any_rewind(
        before in prop::collection::vec(any_entry(), 0..30),
        at in any::<prop::sample::Index>(),
        after in prop::collection::vec(any_entry(), 0..10),
    ) {
        run(async {
            let store = holding(before).await;
            let view = current(&store, &key()).await;
            let to = Seq(view.cursor.0 + at.index(usize::try_from(view.head.0 - view.cursor.0).unwrap() + 1) as u64);
            let kept: Vec<_> = view.effective_records().into_iter().filter(|record| record.seq < to).cloned().collect();
            rewind(&store, &key(), to).await.unwrap();
            let cut = current(&store, &key()).await;
            assert_eq!(sent(&cut), sent(&SessionView { records: kept, ..view.clone() }));
            let opened = replay(&cut);
            assert_valid(&opened, "cut");
            let mut next = opened.repairs;
            next.extend(opened.open_turn.iter().flat_map(|turn| turn.abandon()));
            next.push(user("on"));
            next.extend(after);
            store.append(&key(), view.head, next).await.unwrap();
            assert_valid(&replay(&current(&store, &key()).await), "gone on");
        });
    }
}
