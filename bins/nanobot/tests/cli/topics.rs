//! Unsolicited messages arrive in the topic that their chat uses, also after a restart.

use nanobot_channel_telegram_fake::{Incoming, Person, TOKEN, TelegramFake};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};

/// A group with topics.
const GROUP: i64 = -1005;
/// The topic in use.
const TOPIC: i64 = 7;

/// Returns a model that adds a job, works on it and on heartbeats, and fails on request.
async fn model() -> ModelServer {
    let model = ModelServer::answering(|request| {
        if request.tool_names() == ["heartbeat"] {
            return Reply::call(
                "heartbeat",
                &json!({"action": "run", "tasks": "look after the plants"}),
            );
        }
        if request.tool_names() == ["evaluate_notification"] {
            return Reply::call("evaluate_notification", &json!({"should_notify": true}));
        }
        let asked = request.last_user_text();
        let is_answered = request
            .messages()
            .last()
            .is_some_and(|message| message["role"] == "tool");
        match asked {
            asked if asked.contains("[Scheduled task]") => Reply::text("Drink water!"),
            asked if asked.contains("[Heartbeat]") => Reply::text("The plants are dry."),
            asked if asked.contains("remind me") && !is_answered => Reply::call(
                "cron",
                &json!({"action": "add", "message": "drink", "every_seconds": 2}),
            ),
            _ => Reply::text("I will."),
        }
    });
    model.await.unwrap()
}

fn configure(home: &Home, telegram: &TelegramFake, model: &ModelServer, beats: bool) {
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "cron": {"minIntervalSeconds": 1},
        "gateway": {"heartbeat": {"enabled": beats, "intervalS": 1}},
        "channels": {"telegram": {
            "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["*"],
            "groupPolicy": "open", "streaming": false, "reactEmoji": "",
        }},
    }));
}

#[tokio::test]
async fn jobs_heartbeats_and_command_replies_go_to_the_topic() {
    let (model, telegram, home) = (
        model().await,
        TelegramFake::start().await.unwrap(),
        Home::new(),
    );
    let ann = Person::new(7, "Ann", "ann_x");
    let told = |text: &str| {
        telegram
            .texts_in(GROUP)
            .iter()
            .any(|told| told.contains(text))
    };
    configure(&home, &telegram, &model, false);
    let gateway = Running::start(&home).await;
    telegram.push(Incoming::group(GROUP, &ann, "remind me to drink").in_topic(TOPIC));
    until("it is answered", async || told("I will.")).await;
    telegram.push(Incoming::group(GROUP, &ann, "/stop").in_topic(TOPIC));
    // The turn may not have settled its message yet; then it is stopped.
    until("the command is answered", async || {
        told("No active task") || told("Stopped 1 task")
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));

    let session = home
        .names("workspace/sessions")
        .into_iter()
        .find(|name| name.contains("topic"))
        .unwrap();
    let log = home.read(&format!("workspace/sessions/{session}"));
    assert_says(
        &log,
        &["\"_place\"", "\"thread\":\"7\"", "\"chat\":\"group\""],
    );

    home.write("workspace/HEARTBEAT.md", "- Look after the plants\n");
    configure(&home, &telegram, &model, true);
    let before = telegram.sent().len();
    let gateway = Running::start(&home).await;
    until("the job is done", async || {
        telegram
            .sent()
            .iter()
            .skip(before)
            .any(|sent| sent.text == "Drink water!")
    })
    .await;
    until("a heartbeat has news", async || told("The plants are dry.")).await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let elsewhere: Vec<_> = telegram
        .sent()
        .into_iter()
        .filter(|sent| (sent.chat_id, sent.thread_id) != (GROUP, Some(TOPIC)))
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert_eq!(model.violations(), [""; 0]);
}
