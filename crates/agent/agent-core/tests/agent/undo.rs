//! `/undo`, `/redo` and `/retry`.

use std::time::Duration;

use nanobot_agent_core::{LoopSettings, UndoReport, redo_last_exchange, undo_last_exchange};
use nanobot_redact::Secrets;
use nanobot_session::{Entry, LastExchange, MessageEntry, ReadFrom, Seq, replay};
use nanobot_testkit::{Reply, ScriptedProvider};
use nanobot_types::{ChatMessage, MediaRef, UserMessage};
use serde_json::json;

use crate::lanes::Running;
use crate::world::{World, line};

/// Returns the messages that the next request would send, as `role: text`.
async fn sent(world: &World) -> Vec<String> {
    let view = world
        .sessions
        .read(&"telegram:1".into(), ReadFrom::Cursor)
        .await
        .unwrap();
    let transcript = replay(&view).transcript;
    let lines = transcript.messages().iter().map(|message| line(message));
    lines
        .map(|line| line.lines().next().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn undo_and_redo_change_what_is_sent() {
    let world = World::new(ScriptedProvider::scripted(vec![
        Reply::text("first"),
        Reply::call("send_money", &json!({"to": "Bob"})),
        Reply::call("look", &json!({})),
        Reply::text("second"),
        Reply::text("third"),
    ]));
    let mut running = Running::start(&world).await;
    let mut number = 0;
    let mut ask = async |text: &str| {
        number += 1;
        running.send("1", &number.to_string(), text).await;
        running.reply().await
    };
    let nothing = "There is no message to go back to here.";
    assert_eq!(ask("/undo").await, nothing);
    assert!(
        ask("/redo")
            .await
            .starts_with("There is nothing to restore.")
    );
    assert_eq!(ask("one").await, "first");
    assert_eq!(ask("two").await, "second");
    let whole = sent(&world).await;
    assert_eq!(
        ask("/undo").await,
        "Undone: “two” and what followed.\n\
         Not undone, what tools did: send_money(\"Bob\"), look.\n/redo restores it."
    );
    assert_eq!(sent(&world).await, ["user: one", "assistant: first"]);
    assert_eq!(
        ask("/undo").await,
        "Undone: “one” and what followed.\n/redo restores it."
    );
    assert_eq!(ask("/undo").await, nothing);
    for _ in 0..2 {
        assert!(ask("/redo").await.starts_with("Restored."));
    }
    assert_eq!(sent(&world).await, whole);
    ask("/undo").await;
    assert_eq!(ask("three").await, "third");
    assert!(
        ask("/redo")
            .await
            .starts_with("There is nothing to restore.")
    );
    assert_eq!(
        sent(&world).await,
        [
            "user: one",
            "assistant: first",
            "user: three",
            "assistant: third"
        ]
    );
    assert_eq!(ask("/new").await, "New session started.");
    assert_eq!(ask("/undo").await, nothing);
    assert_eq!(ask("/retry").await, nothing);
    running.stop().await;
    assert_eq!(world.runs.of("send_money"), 1);
}

#[tokio::test]
async fn retry_sends_the_message_and_its_files_again() {
    let world = World::new(ScriptedProvider::scripted(vec![
        Reply::text("better"),
        Reply::text("best"),
    ]));
    let media = vec![MediaRef {
        location: "/nowhere/report.txt".to_owned(),
        mime: Some("text/plain".to_owned()),
    }];
    let asked = ChatMessage::User(UserMessage {
        content: "read this".into(),
        media: media.clone(),
    });
    let entries = vec![
        Entry::Message(MessageEntry::new(asked)),
        Entry::message(ChatMessage::assistant("bad")),
    ];
    let key = "telegram:1".into();
    world.sessions.append(&key, Seq(0), entries).await.unwrap();
    let mut running = Running::start(&world).await;
    for (id, reply) in [("a", "better"), ("b", "best")] {
        running.send("1", id, "/retry").await;
        assert_eq!(running.reply().await, reply);
        let view = world.sessions.read(&key, ReadFrom::Cursor).await.unwrap();
        let exchange = LastExchange::of(&view).unwrap();
        assert_eq!(exchange.asked(), "read this");
        assert_eq!(exchange.media(), media);
        assert_eq!(sent(&world).await.len(), 2);
    }
    running.stop().await;
    for request in world.provider.requests() {
        let texts: Vec<String> = request
            .transcript
            .messages()
            .iter()
            .map(|message| message.text())
            .collect();
        assert!(!texts.iter().any(|text| text.contains("bad")), "{texts:?}");
    }
}

#[tokio::test]
async fn interrupted_retry_is_resumed_and_undoes_nothing_twice() {
    let world = World::new(ScriptedProvider::scripted(vec![
        Reply::text("first"),
        Reply::text("second"),
        Reply::hang(),
        Reply::text("again"),
    ]));
    let settings = || LoopSettings {
        grace: Duration::ZERO,
        ..LoopSettings::default()
    };
    let mut running = Running::with(&world, settings()).await;
    for (id, text, reply) in [("a", "one", "first"), ("b", "two", "second")] {
        running.send("1", id, text).await;
        assert_eq!(running.reply().await, reply);
    }
    running.send("1", "c", "/retry").await;
    world.provider.wait_for(3).await.unwrap();
    running.stop().await;
    // The ledger delivers the command again: twice, as after a crash before it was settled.
    for _ in 0..2 {
        let mut running = Running::with(&world, settings()).await;
        running.send("1", "c", "/retry").await;
        assert_eq!(running.reply().await, "again");
        running.stop().await;
        assert_eq!(
            sent(&world).await,
            [
                "user: one",
                "assistant: first",
                "user: two",
                "assistant: again"
            ]
        );
    }
    assert_eq!(world.provider.requests().len(), 4);
}

#[tokio::test]
async fn redelivered_undo_and_redo_act_once() {
    let world = World::new(ScriptedProvider::scripted(vec![]));
    let key = "telegram:1".into();
    let entries = ["one", "first", "two", "second"].map(|text| match text {
        "one" | "two" => Entry::message(ChatMessage::user(text)),
        _ => Entry::message(ChatMessage::assistant(text)),
    });
    let store = &*world.sessions;
    store.append(&key, Seq(0), entries.into()).await.unwrap();
    let secrets = Secrets::default();
    let undo = async |id: &str| {
        let by = id.into();
        undo_last_exchange(store, &key, Some(&by), &secrets)
            .await
            .unwrap()
    };
    let report = |asked: &str| {
        Some(UndoReport {
            asked: asked.to_owned(),
            effects: Vec::new(),
        })
    };
    assert_eq!(undo("a").await, report("two"));
    assert_eq!(undo("a").await, report("two"));
    assert_eq!(undo("b").await, report("one"));
    assert_eq!(undo("b").await, report("one"));
    assert_eq!(sent(&world).await, [""; 0]);
    let by = "c".into();
    for _ in 0..2 {
        assert!(redo_last_exchange(store, &key, Some(&by)).await.unwrap());
        assert_eq!(sent(&world).await, ["user: one", "assistant: first"]);
    }
}
