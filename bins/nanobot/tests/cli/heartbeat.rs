//! A gateway that checks `HEARTBEAT.md`: tasks that are due are done, and results are sent only if
//! they are worth it.

use std::sync::atomic::{AtomicUsize, Ordering};

use nanobot_testkit::{ModelServer, Reply, ReservedPort, WebSocketClient};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::Running;
use crate::support::{Home, assert_says};

#[tokio::test]
async fn heartbeat_result_is_sent_to_latest_chat_unless_silent() {
    let answers = [
        "It will rain.",
        "HEARTBEAT_OK",
        "Nothing new.",
        "It snows.\n\nHEARTBEAT_OK",
    ];
    let done = AtomicUsize::new(0);
    let model = ModelServer::answering(move |request| {
        let asked = request.json.to_string();
        let has_tool = |name: &str| asked.contains(&format!("\"name\":\"{name}\""));
        if has_tool("evaluate_notification") {
            return Reply::call(
                "evaluate_notification",
                &json!({"should_notify": !asked.contains("Nothing new.")}),
            );
        }
        if has_tool("heartbeat") {
            let action = if done.load(Ordering::SeqCst) < answers.len() {
                "run"
            } else {
                "skip"
            };
            return Reply::call(
                "heartbeat",
                &json!({"action": action, "tasks": "look at the sky"}),
            );
        }
        let is_beat = request
            .messages()
            .last()
            .is_some_and(|last| last.to_string().contains("[Heartbeat]"));
        match is_beat.then(|| done.fetch_add(1, Ordering::SeqCst)) {
            Some(number) => Reply::text(answers.get(number).copied().unwrap_or("too many")),
            None => Reply::text("Hello."),
        }
    })
    .await
    .unwrap();
    let port = ReservedPort::new().unwrap();
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "gateway": {"heartbeat": {"intervalS": 1}},
        "channels": {"websocket": {
            "enabled": true, "port": port.number(), "websocketRequiresToken": false, "allowFrom": ["*"],
        }},
    }));
    let gateway = Running::start(&home).await;
    let mut client =
        WebSocketClient::connect_soon(&format!("ws://{}/?client_id=me", port.address()))
            .await
            .unwrap();
    client.receive_until("ready").await.unwrap();
    client.send_text("hello").await.unwrap();
    client.receive_until("turn_end").await.unwrap();
    assert_eq!(
        model.requests().len(),
        1,
        "a file without tasks costs nothing"
    );

    home.write(
        "workspace/HEARTBEAT.md",
        "# Heartbeat\n\n## Active Tasks\n\n- [ ] look at the sky\n",
    );
    let mut told = Vec::new();
    while told.len() < 2 {
        let events = client.receive_until("message").await.unwrap();
        told.extend(
            events
                .iter()
                .filter(|event| event["event"] == "message")
                .map(|event| event["text"].clone()),
        );
    }
    assert_eq!(told, ["It will rain.", "It snows."]);
    let log = home.read("workspace/sessions/heartbeat.jsonl");
    assert_says(&log, &["look at the sky", "Nothing new.", "HEARTBEAT_OK"]);
    assert_says(
        &home.run(&["status"]).await.stdout,
        &["Heartbeat: every 1 s", "Jobs: 0"],
    );
    assert_says(
        &home.run(&["doctor"]).await.stdout,
        &["HEARTBEAT.md has 1 line of tasks"],
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(model.violations(), Vec::<String>::new());
}
