//! The whole gateway in one process: real sockets to a fake Telegram, a WebSocket client and a
//! scripted model.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

use std::path::Path;

use nanobot_channel_telegram_fake::{BOT_USERNAME, Fault, Incoming, Person, TOKEN, TelegramFake};
use nanobot_config::Environment;
use nanobot_runtime::{
    Gateway, GatewayEnd, LoadOptions, Runtime, RuntimeError, Secrets, install_tls,
};
use nanobot_testkit::{Gate, ModelServer, Reply, ReservedPort, WebSocketClient};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Lets the system choose a port, for tests that do not need to know it.
const ANY_PORT: u16 = 0;

fn configure(home: &Path, config: &Value) -> Runtime {
    install_tls();
    std::fs::create_dir_all(home).unwrap();
    std::fs::write(home.join("config.json"), config.to_string()).unwrap();
    let variables = [(
        "NANOBOT_HOME".to_owned(),
        home.to_string_lossy().into_owned(),
    )];
    let environment = Environment::new(variables, Some(home.to_owned()), home.to_owned());
    Runtime::builder(LoadOptions::default())
        .environment(environment)
        .build()
        .unwrap()
}

fn config(model: Option<&ModelServer>, telegram: &TelegramFake, websocket_port: u16) -> Value {
    let mut config = json!({
        "gateway": {"port": 0},
        "channels": {
            "telegram": {
                "enabled": true, "token": TOKEN, "apiBase": telegram.api_base(), "allowFrom": ["7"],
                "streamEditInterval": 0.1, "pollTimeout": 1
            },
            "websocket": {"enabled": true, "port": websocket_port, "token": "secret", "allowFrom": ["*"]}
        }
    });
    if let Some(model) = model {
        config["agents"] = json!({"defaults": {"model": "custom/any", "provider": "custom"}});
        config["providers"] = json!({"custom": {"apiKey": "k", "apiBase": model.base_url()}});
    }
    config
}

struct Running {
    cancel: CancellationToken,
    task: JoinHandle<Result<GatewayEnd, RuntimeError>>,
}

impl Running {
    async fn start(config: &Runtime) -> Self {
        let gateway = Gateway::start(config, Secrets::default()).await.unwrap();
        let cancel = CancellationToken::new();
        let task = TaskTracker::new().spawn(gateway.run(cancel.clone()));
        Self { cancel, task }
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn connect(port: u16) -> WebSocketClient {
    let url = format!("ws://127.0.0.1:{port}/?token=secret&client_id=ann&chat_id=kitchen");
    WebSocketClient::connect_soon(&url).await.unwrap()
}

fn ann() -> Person {
    Person::new(7, "Ann", "ann")
}

#[tokio::test]
async fn both_channels_get_streamed_replies() {
    let home = tempfile::tempdir().unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let model = ModelServer::scripted([Reply::deltas(["Hello ", "from ", "**nanobot**."])])
        .await
        .unwrap();
    let port = ReservedPort::new().unwrap();
    let running = Running::start(&configure(
        home.path(),
        &config(Some(&model), &telegram, port.number()),
    ))
    .await;

    let mut client = connect(port.number()).await;
    client
        .send(&json!({"type": "message", "id": "m-1", "content": "hi"}))
        .await
        .unwrap();
    let events = client.receive_until("message").await.unwrap();
    let acknowledged = events
        .iter()
        .position(|event| event["event"] == "ack")
        .unwrap();
    let deltas: String = events
        .iter()
        .filter_map(|event| event["text"].as_str().filter(|_| event["event"] == "delta"))
        .collect();
    assert_eq!(deltas, "Hello from **nanobot**.");
    let reply = events.last().unwrap();
    assert_eq!(
        (&reply["text"], &reply["kind"]),
        (&json!("Hello from **nanobot**."), &json!("final"))
    );
    assert!(acknowledged < events.len() - 1);
    client
        .send(&json!({"type": "message", "id": "m-1", "content": "hi"}))
        .await
        .unwrap();
    client.receive_until("ack").await.unwrap();
    assert_eq!(
        model.requests().len(),
        1,
        "the same message is answered once"
    );

    let gate = Gate::new();
    model.push(Reply::deltas(["Moin ", "**Ann**."]).holding(&gate));
    let pushed = telegram.push(Incoming::private(&ann(), "moin"));
    telegram.wait_for_acknowledged(pushed).await.unwrap();
    telegram.wait_for_calls("sendChatAction", 1).await.unwrap();
    telegram.wait_for_draft(7, "Moin").await.unwrap();
    assert!(telegram.sent().is_empty(), "a preview is no message");
    gate.open();
    let sent = telegram.wait_for_sent(1).await.unwrap();
    assert_eq!((sent.len(), sent[0].text.as_str()), (1, "Moin Ann."));
    assert!(telegram.drafts_in(7).is_empty() && sent[0].history.is_empty());
    running.stop().await;
    assert!(model.violations().is_empty(), "{:?}", model.violations());
}

#[tokio::test]
async fn streamed_reply_in_a_group_is_one_message() {
    let home = tempfile::tempdir().unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let gate = Gate::new();
    let reply = Reply::deltas(["Moin ", "**Ann**."]).holding(&gate);
    let model = ModelServer::scripted([reply]).await.unwrap();
    let settings = config(Some(&model), &telegram, ANY_PORT);
    let running = Running::start(&configure(home.path(), &settings)).await;
    let asked = format!("@{BOT_USERNAME} moin");
    telegram.push(Incoming::group(-42, &ann(), asked));
    assert_eq!(telegram.wait_for_sent(1).await.unwrap()[0].text, "Moin");
    gate.open();
    telegram
        .wait_for("the final text", |sent| {
            let texts: Vec<&str> = sent.iter().map(|sent| sent.text.as_str()).collect();
            (texts == ["Moin Ann."]).then_some(())
        })
        .await
        .unwrap();
    let sent = telegram.sent();
    assert_eq!(sent[0].history[0], "Moin", "it was edited: {sent:?}");
    assert!(telegram.calls_of("sendMessageDraft").is_empty());
    running.stop().await;
}

#[tokio::test]
async fn strangers_get_no_reply_and_no_request() {
    let home = tempfile::tempdir().unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let model = ModelServer::scripted([Reply::text("hi Ann")])
        .await
        .unwrap();
    let running = Running::start(&configure(
        home.path(),
        &config(Some(&model), &telegram, ANY_PORT),
    ))
    .await;
    let stranger = telegram.push(Incoming::private(
        &Person::new(8, "Eve", "eve"),
        "let me in",
    ));
    telegram.wait_for_acknowledged(stranger).await.unwrap();
    telegram.push(Incoming::private(&ann(), "hello"));
    telegram.wait_for_sent(1).await.unwrap();
    assert_eq!(model.requests().len(), 1);
    assert!(telegram.texts_in(8).is_empty());
    running.stop().await;
}

#[tokio::test]
async fn missing_model_is_explained_in_the_reply() {
    let home = tempfile::tempdir().unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let config = configure(home.path(), &config(None, &telegram, ANY_PORT));
    let gateway = Gateway::start(&config, Secrets::default()).await.unwrap();
    let summary = gateway.summary().join("\n");
    assert!(summary.contains("Model: none"), "{summary}");
    let cancel = CancellationToken::new();
    let task = TaskTracker::new().spawn(gateway.run(cancel.clone()));
    telegram.push(Incoming::private(&ann(), "hello"));
    let sent = telegram.wait_for_sent(1).await.unwrap();
    assert!(sent[0].text.contains("No model is configured"), "{sent:?}");
    cancel.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn second_gateway_is_refused_with_the_pid_of_the_first() {
    let home = tempfile::tempdir().unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let config = configure(home.path(), &config(None, &telegram, ANY_PORT));
    let first = Gateway::start(&config, Secrets::default()).await.unwrap();
    let refusal = Gateway::start(&config, Secrets::default())
        .await
        .unwrap_err();
    assert!(
        refusal
            .to_string()
            .contains(&std::process::id().to_string()),
        "{refusal}"
    );
    assert!(refusal.remedy().unwrap().contains("kill"));
    drop(first);
    Gateway::start(&config, Secrets::default()).await.unwrap();
}

#[tokio::test]
async fn message_accepted_before_a_stop_is_answered_later() {
    let home = tempfile::tempdir().unwrap();
    let telegram = TelegramFake::start().await.unwrap();
    let model = ModelServer::scripted([Reply::hang()]).await.unwrap();
    let settings = config(Some(&model), &telegram, ANY_PORT);
    let running = Running::start(&configure(home.path(), &settings)).await;
    let pushed = telegram.push(Incoming::private(&ann(), "are you there?"));
    telegram.wait_for_acknowledged(pushed).await.unwrap();
    model.wait_for(1).await.unwrap();
    running.task.abort();
    drop(running.task.await);

    model.push(Reply::text("Yes."));
    let running = Running::start(&configure(home.path(), &settings)).await;
    let sent = telegram.wait_for_sent(1).await.unwrap();
    assert_eq!(sent[0].text, "Yes.");
    running.stop().await;
    let session =
        std::fs::read_to_string(home.path().join("workspace/sessions/telegram_7.jsonl")).unwrap();
    assert_eq!(
        session.matches("are you there?").count(),
        1,
        "asked once: {session}"
    );
}

#[tokio::test]
async fn uncertain_reply_follows_the_channel_policy() {
    let doubt = "I do not know whether my last message arrived. /pending shows it.";
    for (policy, expected) in [
        ("ask", ["Moin.", doubt]),
        (
            "resend_marked",
            ["Moin.", "↻ This may be a repetition:\nMoin."],
        ),
    ] {
        let home = tempfile::tempdir().unwrap();
        let telegram = TelegramFake::start().await.unwrap();
        let model = ModelServer::scripted([Reply::text("Moin.")]).await.unwrap();
        let mut settings = config(Some(&model), &telegram, ANY_PORT);
        settings["channels"]["telegram"]["uncertain"] = json!(policy);
        settings["channels"]["telegram"]["streaming"] = json!(false);
        let running = Running::start(&configure(home.path(), &settings)).await;
        telegram.fail_next("sendMessage", Fault::DropAfterEffect);
        telegram.push(Incoming::private(&ann(), "moin"));
        telegram.wait_for_sent(2).await.unwrap();
        assert_eq!(telegram.texts_in(7), expected, "{policy}");
        if policy == "ask" {
            telegram.push(Incoming::private(&ann(), "/pending"));
            let listed = telegram.wait_for_sent(3).await.unwrap().remove(2).text;
            assert!(
                listed.contains("mine, may not have arrived") && listed.contains("Moin."),
                "{listed}"
            );
        }
        running.stop().await;
    }
}
