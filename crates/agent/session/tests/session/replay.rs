//! The messages that a replay sends: always valid, and the same bytes as before.

use std::sync::Arc;

use nanobot_session::{
    Entry, InMemoryStore, MessageEntry, OpenTurn, ReadFrom, Seq, SessionStore as _, replay,
};
use nanobot_types::{AssistantMessage, ChatMessage, INTERRUPTED_RESULT, MediaRef, UserMessage};
use serde_json::json;

use crate::support::{
    assert_valid, assistant, call, calls, end, key, result, roles, user, user_of,
};

async fn view(entries: &[Entry]) -> nanobot_session::SessionView {
    let store = InMemoryStore::new();
    store
        .append(&key(), Seq(0), entries.to_vec())
        .await
        .unwrap();
    store.read(&key(), ReadFrom::Seq(Seq(0))).await.unwrap()
}

#[tokio::test]
async fn runtime_block_is_replayed_after_its_message() {
    let message = UserMessage {
        content: "look".into(),
        media: vec![MediaRef::new("/a.png")],
    };
    let entry = MessageEntry {
        runtime: Some("[Runtime Context]\nChannel: cli\n[/Runtime Context]".to_owned()),
        ..MessageEntry::new(ChatMessage::User(message.clone()))
    };
    let sent = replay(&view(&[Entry::Message(entry), assistant("a"), end(&[])]).await);
    let expected = UserMessage {
        content: "look\n\n[Runtime Context]\nChannel: cli\n[/Runtime Context]".into(),
        ..message
    };
    assert_eq!(*sent.transcript.messages()[0], ChatMessage::User(expected));
    assert_eq!((sent.repairs, sent.open_turn), (Vec::new(), None));
}

#[tokio::test]
async fn omits_entries_that_do_not_belong_in_a_request() {
    let empty = Entry::message(ChatMessage::Assistant(AssistantMessage::default()));
    let command = Entry::Message(MessageEntry {
        extra: json!({"_command": true}).as_object().unwrap().clone(),
        ..MessageEntry::new(ChatMessage::user("/help"))
    });
    let table: [(&str, Vec<Entry>, Vec<&str>); 6] = [
        (
            "leading answers are omitted",
            vec![assistant("x"), result("0", "r"), user("a"), assistant("b")],
            vec!["user", "assistant"],
        ),
        (
            "without a user message nothing is omitted",
            vec![assistant("x")],
            vec!["assistant"],
        ),
        (
            "commands are omitted",
            vec![user("a"), assistant("b"), command],
            vec!["user", "assistant"],
        ),
        (
            "empty answers are omitted",
            vec![user("a"), empty, assistant("b")],
            vec!["user", "assistant"],
        ),
        (
            "consolidated messages are omitted",
            vec![
                user("a"),
                calls(&["1"]),
                result("1", "r"),
                Entry::Consolidated { upto: Seq(2) },
                user("b"),
            ],
            vec!["user"],
        ),
        (
            "a reset leaves nothing",
            vec![user("a"), assistant("b"), Entry::Reset],
            vec![],
        ),
    ];
    for (what, entries, expected) in table {
        let sent = replay(&view(&entries).await);
        assert_eq!(roles(&sent.transcript), expected, "{what}");
        assert_valid(&sent, what);
    }
}

#[tokio::test]
async fn missing_results_are_recorded_once() {
    let mut entries = vec![
        user("a"),
        calls(&["1", "2"]),
        result("2", "r"),
        user("b"),
        assistant("c"),
    ];
    let first = replay(&view(&entries).await);
    let Entry::Message(repair) = &first.repairs[0] else {
        panic!("{first:?}")
    };
    assert_eq!(
        *repair.message,
        ChatMessage::tool(&call("1"), INTERRUPTED_RESULT)
    );
    assert_eq!(first.repairs.len(), 1);
    entries.extend(first.repairs);
    let second = replay(&view(&entries).await);
    assert_eq!(second.repairs, []);
    assert_eq!(
        second.transcript, first.transcript,
        "recording it changes no byte of the request"
    );
}

#[tokio::test]
async fn result_that_would_match_another_call_is_not_recorded() {
    let entries = [
        user("a"),
        calls(&["1"]),
        user("b"),
        calls(&["1"]),
        result("1", "r"),
        assistant("c"),
        end(&[]),
    ];
    let sent = replay(&view(&entries).await);
    assert_valid(&sent, "an id used again");
    assert_eq!(sent.repairs, []);
}

#[tokio::test]
async fn pending_calls_of_the_open_turn_are_left_to_the_engine() {
    let old = [user("a"), calls(&["1"]), end(&[])];
    let open = [user_of("t:1:7", "b"), calls(&["2", "3"]), result("2", "r")];
    let mut entries = [&old[..], &open[..]].concat();
    let sent = replay(&view(&entries).await);
    let turn = OpenTurn {
        inbound: vec!["t:1:7".into()],
        began: Seq(2),
        model_calls: 1,
        tool_calls: 2,
        pending: vec![call("3")],
        reply: None,
    };
    assert_eq!(sent.open_turn, Some(turn.clone()));
    let repaired: Vec<Arc<ChatMessage>> = sent.repairs.iter().map(message).collect();
    assert_eq!(
        repaired,
        [Arc::new(ChatMessage::tool(&call("1"), INTERRUPTED_RESULT))]
    );
    entries.extend(sent.repairs);
    entries.extend(turn.abandon());
    let abandoned = replay(&view(&entries).await);
    assert_eq!(
        abandoned.open_turn,
        Some(OpenTurn {
            pending: Vec::new(),
            ..turn
        })
    );
    assert_eq!(abandoned.repairs, []);
}

fn message(entry: &Entry) -> Arc<ChatMessage> {
    match entry {
        Entry::Message(entry) => entry.message.clone(),
        other => panic!("{other:?}"),
    }
}
