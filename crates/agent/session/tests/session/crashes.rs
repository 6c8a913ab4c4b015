//! A process may die at any instant: whatever part of the bytes reached the disk must load and make
//! a valid request.

use nanobot_session::{Entry, InboundStatus, Seq, SessionStore as _, replay};
use proptest::prelude::*;

use crate::support::{
    Home, assert_valid, assistant, call, calls, end, key, result, texts, user, user_of, whole,
};

/// Turns of every shape, step by step as the engine journals them.
fn journal() -> Vec<Vec<Entry>> {
    vec![
        vec![user_of("telegram:1:1", "first 界")],
        vec![calls(&["a", "b"])],
        vec![result("b", "B")],
        vec![result("a", "A")],
        vec![user_of("telegram:1:2", "steered")],
        vec![calls(&["a"])],
        vec![result("a", "again")],
        vec![assistant("done 🦀")],
        vec![end(&["telegram:1:1", "telegram:1:2"])],
        vec![Entry::Consolidated { upto: Seq(4) }],
        vec![user("no id"), assistant("hm"), end(&[])],
        vec![Entry::Reset],
        vec![user("undone"), assistant("hm"), end(&[])],
        vec![Entry::Rewound { to: Seq(10) }],
        vec![user_of("telegram:1:3", "new")],
    ]
}

/// Truncates a log to `length` and checks that it loads. With `resumed`, also checks that it
/// continues in the same way as the engine.
async fn survives(bytes: &[u8], length: usize, resumed: bool) {
    let home = Home::with_file(&bytes[..length]);
    let store = home.store();
    let before = whole(&store).await;
    let sent = replay(&before);
    assert_valid(&sent, &format!("cut at {length}"));
    if !resumed {
        return;
    }
    let mut entries = sent.repairs.clone();
    entries.extend(sent.open_turn.iter().flat_map(|turn| turn.abandon()));
    entries.push(user("after the crash"));
    store.append(&key(), before.head, entries).await.unwrap();

    let store = home.store();
    let after = whole(&store).await;
    let mut expected = texts(&before);
    expected.extend(texts(&after).into_iter().skip(expected.len()));
    assert_eq!(
        texts(&after),
        expected,
        "cut at {length}: nothing recorded is lost"
    );
    assert_eq!(expected.last().map(String::as_str), Some("after the crash"));
    let sent = replay(&after);
    assert_valid(&sent, &format!("resumed at {length}"));
    assert_eq!(sent.repairs, [], "cut at {length}: repairs are recorded");
    assert!(
        home.bytes().starts_with(&bytes[..length]),
        "cut at {length}: nothing is rewritten"
    );
    let torn = bytes[..length]
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap();
    let kept: Vec<Vec<u8>> = home
        .files_with_mark(".torn-")
        .iter()
        .map(|file| std::fs::read(file).unwrap())
        .collect();
    if torn.is_empty() || serde_json::from_slice::<serde_json::Value>(torn).is_ok() {
        assert_eq!(kept, [] as [Vec<u8>; 0], "cut at {length}");
    } else {
        assert_eq!(
            kept,
            [torn.to_vec()],
            "cut at {length}: torn bytes are copied to a file of their own"
        );
    }
}

async fn written(steps: Vec<Vec<Entry>>) -> Vec<u8> {
    let home = Home::new();
    let store = home.store();
    let mut head = Seq(0);
    for step in steps {
        head = store.append(&key(), head, step).await.unwrap();
    }
    home.bytes()
}

#[tokio::test]
async fn log_cut_at_any_byte_loads_and_continues() {
    let bytes = written(journal()).await;
    for length in 0..=bytes.len() {
        // Resuming costs several syncs, so it is tested around line ends and at some other offsets
        // only.
        let around =
            bytes[length.saturating_sub(2)..(length + 2).min(bytes.len())].contains(&b'\n');
        survives(&bytes, length, around || length % 23 == 0).await;
    }
}

/// Between any two steps the log shows the exact progress of the turn.
#[tokio::test]
async fn open_turn_shows_the_exact_progress() {
    let store = nanobot_session::InMemoryStore::new();
    let mut head = Seq(0);
    let mut found = Vec::new();
    for step in journal() {
        head = store.append(&key(), head, step).await.unwrap();
        let view = store
            .read(&key(), nanobot_session::ReadFrom::Cursor)
            .await
            .unwrap();
        let turn = replay(&view).open_turn;
        found.push(turn.map(|turn| {
            let pending = turn
                .pending
                .iter()
                .map(|call| call.id.to_string())
                .collect::<Vec<_>>()
                .join(",");
            (
                turn.began.0,
                turn.inbound.len(),
                turn.model_calls,
                turn.tool_calls,
                pending,
                turn.reply,
            )
        }));
    }
    let at = |began, inbound, models, tools, pending: &str| {
        Some((began, inbound, models, tools, pending.to_owned(), None))
    };
    assert_eq!(
        found,
        [
            at(0, 1, 0, 0, ""),
            at(0, 1, 1, 2, "a,b"),
            at(0, 1, 1, 2, "a"),
            at(0, 1, 1, 2, ""),
            at(0, 2, 1, 2, ""),
            at(0, 2, 2, 3, "a"),
            at(0, 2, 2, 3, ""),
            Some((0, 2, 3, 3, String::new(), Some("done 🦀".to_owned()))),
            None,
            None,
            None,
            None,
            None,
            None,
            at(12, 1, 0, 0, ""),
        ]
    );
}

#[tokio::test]
async fn redelivered_message_is_recognised() {
    let home = Home::new();
    let store = home.store();
    let steps: Vec<Entry> = journal().into_iter().flatten().collect();
    store.append(&key(), Seq(0), steps).await.unwrap();
    let view = store
        .read(&key(), nanobot_session::ReadFrom::Cursor)
        .await
        .unwrap();
    let found =
        ["telegram:1:1", "telegram:1:3", "telegram:1:4"].map(|id| view.recorded(&id.into()));
    assert_eq!(
        found,
        [
            InboundStatus::Ended(None),
            InboundStatus::Open,
            InboundStatus::New
        ]
    );
    let Entry::TurnEnded(ended) = end(&["telegram:1:1", "telegram:1:2"]) else {
        unreachable!()
    };
    assert_eq!(
        whole(&store).await.recorded(&"telegram:1:2".into()),
        InboundStatus::Ended(Some(ended))
    );
}

pub(crate) fn any_entry() -> impl Strategy<Value = Entry> {
    let id = prop::sample::select(vec!["a", "b", "c"]);
    let ids = prop::collection::vec(id.clone(), 1..4);
    prop_oneof![
        ".{0,12}".prop_map(|text| user(&text)),
        ("[1-4]", ".{0,12}").prop_map(|(id, text)| user_of(&id, &text)),
        ".{0,12}".prop_map(|text| assistant(&text)),
        ids.prop_map(|ids| calls(&ids)),
        id.prop_map(|id| result(id, "r")),
        Just(Entry::message(nanobot_types::ChatMessage::tool(
            &call("orphan"),
            "o"
        ))),
        Just(end(&["1"])),
        Just(Entry::Reset),
        (0_u64..20).prop_map(|upto| Entry::Consolidated { upto: Seq(upto) }),
        (0_u64..20).prop_map(|to| Entry::Rewound { to: Seq(to) }),
        Just(Entry::Restored),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_log_cut_anywhere_yields_a_valid_request(
        steps in prop::collection::vec(prop::collection::vec(any_entry(), 1..4), 1..12),
        at in any::<prop::sample::Index>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let bytes = written(steps).await;
            survives(&bytes, at.index(bytes.len() + 1), true).await;
        });
    }
}

/// A power cut may keep the end of an append and lose its beginning, which then reads as NULs. A
/// line that was damaged by an edit does not affect other lines.
#[tokio::test]
async fn continuation_after_a_hole_is_ignored() {
    let first = "{\"role\":\"user\",\"content\":\"a\"}\n";
    let continued = "{\"role\":\"assistant\",\"content\":\"b\",\"_continues\":true}\n";
    let last = "{\"role\":\"user\",\"content\":\"c\"}\n";
    let hole = "\0".repeat(600);
    for (what, between, expected) in [
        (
            "whole",
            "{\"role\":\"user\",\"content\":\"x\"}\n".to_owned(),
            vec!["a", "x", "b", "c"],
        ),
        (
            "a hole in the line before",
            format!("{hole}tent\":\"x\"}}\n"),
            vec!["a", "c"],
        ),
        ("a hole instead of the line before", hole, vec!["a", "c"]),
        (
            "a line that was edited badly",
            "{\"role\":\"user\",\"content\n".to_owned(),
            vec!["a", "b", "c"],
        ),
    ] {
        let home = Home::with_file(format!("{first}{between}{continued}{last}").as_bytes());
        let store = home.store();
        let view = whole(&store).await;
        assert_eq!(texts(&view), expected, "{what}");
        store
            .append(&key(), view.head, vec![assistant("d")])
            .await
            .unwrap();
        assert_eq!(
            texts(&whole(&home.store()).await),
            [&expected[..], &["d"]].concat(),
            "{what}"
        );
    }
}
