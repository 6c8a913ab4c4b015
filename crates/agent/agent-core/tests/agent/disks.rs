//! Turns on a failing disk: the person is notified, and gets one reply once the disk works again.

use std::sync::Arc;

use nanobot_session::{JsonlStore, SessionPaths};
use nanobot_testkit::{DiskFault, FaultyDisk, MemoryDisk, Reply, ScriptedProvider};
use serde_json::json;

use crate::lanes::Running;
use crate::world::World;

fn world(disk: &FaultyDisk) -> World {
    let provider = ScriptedProvider::answering(|request| {
        let is_answered = request
            .transcript
            .messages()
            .iter()
            .any(|message| message.role() == "tool");
        if is_answered {
            Reply::text("paid")
        } else {
            Reply::call("send_money", &json!({}))
        }
    });
    let sessions = JsonlStore::on(
        Arc::new(disk.clone()),
        SessionPaths::only("/workspace/sessions"),
    );
    let mut world = World::new(provider);
    world.sessions = Arc::new(sessions);
    world
}

/// Runs a turn whose disk fails from the operation `from` on until the person is notified. Returns
/// `true` if it failed.
async fn turn_that_fails(fault: DiskFault, from: u64) -> bool {
    let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let world = world(&disk);
    let mut running = Running::start(&world).await;
    disk.fail(fault, from, u64::MAX);
    running.send("1", "a", "pay the bill").await;
    let mut answer = running.reply().await;
    let failed = answer.contains("cannot record");
    if failed {
        disk.clear();
        answer = running.reply().await;
    }
    assert_eq!(answer, "paid", "{fault:?} from {from}");
    disk.clear();
    running.send("1", "b", "/status").await;
    let status = running.reply().await;
    assert!(
        status.contains("Session telegram:1"),
        "answered once: {status}"
    );
    running.stop().await;
    let log = world.log("telegram:1").await;
    let kinds: Vec<&str> = log
        .iter()
        .filter_map(|line| line.split([':', ' ']).next())
        .collect();
    assert_eq!(
        kinds,
        ["user", "assistant", "tool", "assistant", "end"],
        "{fault:?} from {from}: {log:#?}"
    );
    assert!(
        world.runs.of("send_money") <= 1,
        "{fault:?} from {from}: paid twice"
    );
    failed
}

#[tokio::test(start_paused = true)]
async fn message_on_a_failing_disk_is_answered_once_after_recovery() {
    for fault in DiskFault::ALL {
        let mut from = 0;
        while turn_that_fails(fault, from).await {
            from += 1;
        }
        assert!(
            from > 20,
            "{fault:?}: every operation of the turn fails once, not only {from}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn later_messages_do_not_overtake_those_in_backoff() {
    let disk = FaultyDisk::new(Arc::new(MemoryDisk::new()));
    let mut world = World::new(ScriptedProvider::answering(|request| {
        let said = request
            .transcript
            .messages()
            .iter()
            .rev()
            .find(|message| message.role() == "user");
        Reply::text(format!(
            "re: {}",
            said.unwrap().text().lines().next().unwrap()
        ))
    }));
    world.sessions = Arc::new(JsonlStore::on(
        Arc::new(disk.clone()),
        SessionPaths::only("/workspace/sessions"),
    ));
    let mut running = Running::start(&world).await;
    disk.fail(DiskFault::ALL[0], 0, u64::MAX);
    running.send("1", "a", "first").await;
    assert!(running.reply().await.contains("cannot record"));
    // It backs off now, and the disk recovers before the next attempt.
    disk.clear();
    running.send("1", "b", "second").await;
    running.send("2", "c", "elsewhere").await;
    assert_eq!(
        running.reply().await,
        "re: elsewhere",
        "other sessions do not wait for it"
    );
    assert_eq!(running.reply().await, "re: second");
    running.send("1", "d", "/status").await;
    assert!(
        running.reply().await.contains("Session telegram:1"),
        "answered once"
    );
    running.stop().await;
    let log = world.log("telegram:1").await;
    assert_eq!(
        log,
        [
            "user: first",
            "user: second",
            "assistant: re: second",
            "end: Replied"
        ]
    );
}
