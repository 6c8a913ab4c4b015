//! Messages whose handling ends the program again and again: each is quarantined after four
//! attempts, and the messages after it are answered.
//!
//! Decision: the test uses a file that never arrives. The message is being handled until its
//! attempt is in the note and the program is killed. For the next start, a crash of a parser looks
//! the same.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nanobot_channel_dingtalk_fake::{self as dingtalk, DingTalkFake};
use nanobot_channel_discord_fake::{self as discord, DiscordFake};
use nanobot_channel_feishu_fake::{self as feishu, FeishuFake};
use nanobot_channel_matrix_fake::{self as matrix, MatrixFake};
use nanobot_channel_qq_fake::{self as qq, QqFake};
use nanobot_channel_slack_fake::{self as slack, SlackFake};
use nanobot_channel_telegram_fake::{self as telegram, TelegramFake};
use nanobot_channel_whatsapp_fake::{self as whatsapp, WhatsAppFake};
use nanobot_testkit::{ModelServer, Reply, ReservedPort};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};

/// Number of attempts after which a message is quarantined.
const MAX_CRASHES: usize = 4;

async fn model() -> ModelServer {
    ModelServer::answering(|request| Reply::text(format!("I read: {}", request.last_user_text())))
        .await
        .unwrap()
}

fn home(model: &ModelServer, channel: &str, section: Value) -> Home {
    let mut section = section;
    let usual = json!({"enabled": true, "allowFrom": ["*"], "streaming": false, "reactEmoji": ""});
    section
        .as_object_mut()
        .unwrap()
        .extend(usual.as_object().unwrap().clone());
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {channel: section},
    }));
    home
}

/// Starts a gateway and waits until it handles the message `key` for the `life`th time: its attempt
/// is recorded, and the file that never arrives was requested.
async fn handling(
    home: &Home,
    channel: &str,
    key: &str,
    life: usize,
    asked: impl Fn() -> usize,
) -> Running {
    let before = asked();
    let gateway = Running::start(home).await;
    until(
        &format!("file of {key} is asked for, life {life}"),
        async || asked() > before,
    )
    .await;
    let note = home.path().join(format!("channels/{channel}/tries"));
    let line = format!("{life} {key}");
    let is_noted = async || {
        std::fs::read_to_string(&note).is_ok_and(|text| text.lines().any(|noted| noted == line))
    };
    until(&format!("try {life} of {key} is noted"), is_noted).await;
    gateway
}

/// Returns the name under which an attempt is recorded if the id is longer than a line allows.
fn key_digest(id: &str) -> String {
    let digest = Sha256::digest(id);
    let digest: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("digest-{digest}")
}

/// Kills a gateway while it handles a message.
async fn kill_while_handling(
    home: &Home,
    channel: &str,
    key: &str,
    life: usize,
    asked: impl Fn() -> usize,
) {
    kill(handling(home, channel, key, life, asked).await).await;
}

async fn kill(gateway: Running) {
    gateway.signal(Signal::SIGKILL);
    gateway.end().await;
}

/// Returns the state of a channel and its reason, as `channels status` shows them.
async fn status(home: &Home, channel: &str) -> String {
    let run = home.run(&["channels", "status", "--json"]).await;
    let reports: Value = serde_json::from_str(&run.stdout).unwrap();
    let report = reports
        .as_array()
        .unwrap()
        .iter()
        .find(|report| report["name"] == channel)
        .unwrap();
    format!(
        "{} {}",
        report["state"].as_str().unwrap(),
        report["why"].as_str().unwrap_or_default()
    )
}

/// Asserts that one message was quarantined, has this text, and is reported to the operator.
async fn assert_quarantined(home: &Home, channel: &str, text: &str) {
    let folder = format!("channels/{channel}/set-aside");
    let names = home.names(&folder);
    assert_eq!(names.len(), 1, "{names:?}");
    let place = format!("{folder}/{}", names[0]);
    assert_says(&home.read(&place), &[text]);
    assert_eq!(
        std::fs::metadata(home.path().join(place))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    until("the status says so", async || {
        status(home, channel)
            .await
            .starts_with("degraded 1 message was set aside")
    })
    .await;
    assert_says(
        &home.read("logs/gateway.log"),
        &["a message ended the program each time it was handled"],
    );
}

/// Asserts that the next start reports nothing after the user has removed the quarantined message.
async fn assert_recovered(home: &Home, channel: &str) {
    std::fs::remove_dir_all(home.path().join(format!("channels/{channel}/set-aside"))).unwrap();
    let gateway = Running::start(home).await;
    until("all is well", async || {
        status(home, channel).await.starts_with("running")
    })
    .await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

#[tokio::test]
async fn crashing_polled_update_is_quarantined() {
    let (model, telegram) = (model().await, TelegramFake::start().await.unwrap());
    let keys = json!({"token": telegram::TOKEN, "apiBase": telegram.api_base(), "pollTimeout": 1});
    telegram_survives(&model, &telegram, &home(&model, "telegram", keys)).await;
}

#[tokio::test]
async fn crashing_webhook_update_is_quarantined() {
    let (model, telegram) = (model().await, TelegramFake::start().await.unwrap());
    let port = ReservedPort::new().unwrap();
    telegram.post_to(port.address());
    let keys = json!({
        "token": telegram::TOKEN, "apiBase": telegram.api_base(), "mode": "webhook",
        "webhookUrl": "https://bot.test/telegram", "webhookListenPort": port.number(),
        "webhookSecretToken": "a-secret_word",
    });
    telegram_survives(&model, &telegram, &home(&model, "telegram", keys)).await;
}

async fn telegram_survives(model: &ModelServer, telegram: &TelegramFake, home: &Home) {
    let (ann, bob) = (
        telegram::Person::new(7, "Ann", "ann"),
        telegram::Person::new(8, "Bob", "bob"),
    );
    let file = telegram::Incoming::private(&ann, "read this");
    let poison =
        telegram.push(file.with_file(telegram::FileKind::Document, "poison.bin", "a/b", "x"));
    let innocent = telegram.push(telegram::Incoming::private(&bob, "and this"));
    let key = poison.update_id.unwrap().to_string();
    let asked = || telegram.calls_of("getFile").len();
    let answers = |chat: i64, text: &str| {
        let answer = format!("I read: {text}");
        telegram
            .texts_in(chat)
            .iter()
            .filter(|text| text.starts_with(&answer))
            .count()
    };
    telegram.fail_next("getFile", telegram::Fault::Hang);
    let gateway = handling(home, "telegram", &key, 1, asked).await;
    // A turn in progress when the process dies is a suspect itself.
    until("what came with it is answered", async || {
        answers(8, "and this") == 1
    })
    .await;
    kill(gateway).await;
    for life in 2..=MAX_CRASHES {
        telegram.fail_next("getFile", telegram::Fault::Hang);
        kill_while_handling(home, "telegram", &key, life, asked).await;
    }
    let fetched = asked();
    telegram.push(telegram::Incoming::private(&ann, "what comes after it"));
    let gateway = Running::start(home).await;
    until("the next one is answered", async || {
        answers(7, "what comes after it") == 1
    })
    .await;
    for pushed in [poison, innocent] {
        telegram.wait_for_acknowledged(pushed).await.unwrap();
    }
    assert_quarantined(home, "telegram", "poison.bin").await;
    assert_eq!(
        telegram.calls_of("getFile").len(),
        fetched,
        "a quarantined message is not handled any more"
    );
    assert_eq!(answers(7, "read this"), 0);
    assert!(
        model
            .requests()
            .iter()
            .all(|request| !request.last_user_text().contains("read this"))
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_recovered(home, "telegram").await;
}

/// The model is slow, so every kill also interrupts the turn.
#[tokio::test]
async fn running_turn_is_not_blamed_for_a_crashing_message() {
    let slow = |text: String| Reply::text(text).with_delay(Duration::from_secs(3));
    let model = ModelServer::answering(move |request| {
        slow(format!("I read: {}", request.last_user_text()))
    });
    let (model, telegram) = (model.await.unwrap(), TelegramFake::start().await.unwrap());
    let keys = json!({"token": telegram::TOKEN, "apiBase": telegram.api_base(), "pollTimeout": 1});
    let home = home(&model, "telegram", keys);
    let (ann, bob) = (
        telegram::Person::new(7, "Ann", "ann"),
        telegram::Person::new(8, "Bob", "bob"),
    );
    let file = telegram::Incoming::private(&ann, "read this");
    telegram.push(telegram::Incoming::private(&bob, "and this"));
    let poison =
        telegram.push(file.with_file(telegram::FileKind::Document, "poison.bin", "a/b", "x"));
    let key = poison.update_id.unwrap().to_string();
    let asked = || telegram.calls_of("getFile").len();
    for life in 1..=MAX_CRASHES {
        telegram.fail_next("getFile", telegram::Fault::Hang);
        let gateway = handling(&home, "telegram", &key, life, asked).await;
        let under_way = until("both are under way", async || {
            home.read("steps.jsonl").contains("\"model\"")
        });
        // In later lives the turn waits for the message, is over, or is blamed.
        let within = Duration::from_secs(if life == 1 { 60 } else { 1 });
        assert!(tokio::time::timeout(within, under_way).await.is_ok() || life > 1);
        kill(gateway).await;
    }
    let gateway = Running::start(&home).await;
    until("the turn is answered", async || {
        !telegram.texts_in(8).is_empty()
    })
    .await;
    until("the message is set aside", async || {
        !home.names("channels/telegram/set-aside").is_empty()
    })
    .await;
    assert_quarantined(&home, "telegram", "poison.bin").await;
    let texts = telegram.texts_in(8);
    // On a slow machine, a kill may interrupt the sending of the answer.
    let is_answer = |text: &&String| text.starts_with("I read: and this");
    let is_doubt = |text: &&String| text.starts_with("I do not know whether");
    let (answers, doubts) = (
        texts.iter().filter(is_answer).count(),
        texts.iter().filter(is_doubt).count(),
    );
    assert!(
        answers.max(doubts) == 1 && answers + doubts == texts.len(),
        "{texts:?}"
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
}

/// Slack delivers the event again, and at the next start it is in the history: both are the same
/// message.
#[tokio::test]
async fn redelivered_slack_event_is_quarantined() {
    let (model, fake) = (model().await, SlackFake::start().await.unwrap());
    let keys = json!({"botToken": slack::BOT_TOKEN, "appToken": slack::APP_TOKEN, "apiBase": fake.api_base()});
    let home = home(&model, "slack", keys);
    let ann = slack::Person::new("U1ANN", "ann");
    let answers = |text: &str| {
        let answer = format!("I read: {text}");
        fake.texts_in(&ann.direct())
            .iter()
            .filter(|text| text.starts_with(&answer))
            .count()
    };
    let gateway = Running::start(&home).await;
    fake.push(slack::Incoming::direct(&ann, "before"));
    until("the conversation is known", async || answers("before") == 1).await;
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));

    let file = slack::Incoming::direct(&ann, "read this").with_file("poison.bin", "a/b", "x");
    let poison = fake.push(file);
    let key = format!("{}/{}", poison.channel, poison.ts);
    for life in 1..=MAX_CRASHES {
        fake.fail_next("download", slack::Fault::Hang);
        kill_while_handling(&home, "slack", &key, life, || fake.downloads()).await;
    }
    let fetched = fake.downloads();
    fake.push(slack::Incoming::direct(&ann, "what comes after it"));
    let gateway = Running::start(&home).await;
    until("the next one is answered", async || {
        answers("what comes after it") == 1
    })
    .await;
    assert_quarantined(&home, "slack", "poison.bin").await;
    assert_eq!((fake.downloads(), answers("read this")), (fetched, 0));
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
    assert_recovered(&home, "slack").await;
}

/// Discord delivers the event once; the next starts fetch it from the history of the chat.
#[tokio::test]
async fn refetched_discord_message_is_quarantined() {
    let (model, fake) = (model().await, DiscordFake::start().await.unwrap());
    let home = home(
        &model,
        "discord",
        json!({"token": discord::TOKEN, "apiBase": fake.api_base()}),
    );
    let ann = discord::Person::new(7, "ann");
    let chat = fake.direct_channel(&ann);
    let answers = |text: &str| {
        let answer = format!("I read: {text}");
        fake.texts_in(chat)
            .iter()
            .filter(|text| text.starts_with(&answer))
            .count()
    };
    let gateway = Running::start(&home).await;
    fake.wait_for_identifies(1).await.unwrap();
    fake.push(discord::Incoming::direct(&ann, "before"));
    until("the conversation is known", async || answers("before") == 1).await;
    let file = discord::Incoming::direct(&ann, "read this").with_file("poison.bin", "a/b", "x");
    fake.fail_next("download", discord::Fault::Hang);
    let poison = fake.push(file);
    let key = poison.message_id.to_string();
    let note = home.path().join("channels/discord/tries");
    let is_noted = async || {
        std::fs::read_to_string(&note).is_ok_and(|text| text.contains(&format!("1 {key}\n")))
    };
    until("its first try is noted", is_noted).await;
    until("its file is asked for", async || {
        !fake.calls_of("download").is_empty()
    })
    .await;
    kill(gateway).await;
    for life in 2..=MAX_CRASHES {
        fake.fail_next("download", discord::Fault::Hang);
        kill_while_handling(&home, "discord", &key, life, || {
            fake.calls_of("download").len()
        })
        .await;
    }
    let fetched = fake.calls_of("download").len();
    let gateway = Running::start(&home).await;
    fake.push(discord::Incoming::direct(&ann, "what comes after it"));
    until("the next one is answered", async || {
        answers("what comes after it") == 1
    })
    .await;
    assert_quarantined(&home, "discord", "poison.bin").await;
    assert_eq!(
        (fake.calls_of("download").len(), answers("read this")),
        (fetched, 0)
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_recovered(&home, "discord").await;
}

/// Feishu delivers the event again to each new connection.
#[tokio::test]
async fn redelivered_feishu_event_is_quarantined() {
    let (model, fake) = (model().await, FeishuFake::start().await.unwrap());
    // The state of a channel is reported with its next sign of life.
    fake.configure_clients(feishu::ClientConfig {
        ping_interval: 1,
        ..feishu::ClientConfig::default()
    });
    let keys = json!({"appId": feishu::APP_ID, "appSecret": feishu::APP_SECRET, "apiBase": fake.base_url()});
    let home = home(&model, "feishu", keys);
    let ann = feishu::Person::new("ou_ann", "Ann");
    let answers = |text: &str| {
        let answer = format!("I read: {text}");
        let texts = fake.texts_in(&ann.direct()).into_iter();
        texts.filter(|text| text.starts_with(&answer)).count()
    };
    let file = feishu::Incoming::direct(&ann, "").with_file("poison.bin", "a/b", "x");
    let poison = fake.push(file);
    let key = poison.message_id.clone();
    for life in 1..=MAX_CRASHES {
        fake.fail_next("resource.get", feishu::Fault::Hang);
        kill_while_handling(&home, "feishu", &key, life, || fake.downloads()).await;
    }
    let fetched = fake.downloads();
    fake.push(feishu::Incoming::direct(&ann, "what comes after it"));
    let gateway = Running::start(&home).await;
    until("the next one is answered", async || {
        answers("what comes after it") == 1
    })
    .await;
    assert_quarantined(&home, "feishu", &key).await;
    assert_eq!(fake.downloads(), fetched);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
    assert_recovered(&home, "feishu").await;
}

/// DingTalk delivers the message again to each new connection.
#[tokio::test]
async fn redelivered_dingtalk_message_is_quarantined() {
    let (model, fake) = (model().await, DingTalkFake::start().await.unwrap());
    let keys = json!({
        "clientId": dingtalk::CLIENT_ID, "clientSecret": dingtalk::CLIENT_SECRET, "apiBase": fake.base_url(),
        "oapiBase": fake.oapi_url(),
    });
    let home = home(&model, "dingtalk", keys);
    let ann = dingtalk::Person::new("ann", "Ann");
    let answers = |text: &str| {
        let answer = format!("I read: {text}");
        let texts = fake.texts_in(&ann.direct()).into_iter();
        texts.filter(|text| text.starts_with(&answer)).count()
    };
    let file = dingtalk::Incoming::direct(&ann, "").with_file("poison.bin", "a/b", "x");
    let poison = fake.push(file);
    let key = poison.message_id.clone();
    for life in 1..=MAX_CRASHES {
        fake.fail_next("file.get", dingtalk::Fault::Hang);
        kill_while_handling(&home, "dingtalk", &key, life, || fake.downloads()).await;
    }
    let fetched = fake.downloads();
    fake.push(dingtalk::Incoming::direct(&ann, "what comes after it"));
    let gateway = Running::start(&home).await;
    until("the next one is answered", async || {
        answers("what comes after it") == 1
    })
    .await;
    fake.send_ping();
    assert_quarantined(&home, "dingtalk", &key).await;
    assert_eq!(fake.downloads(), fetched);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
    assert_recovered(&home, "dingtalk").await;
}

/// QQ sends the message again when the session is resumed.
#[tokio::test]
async fn redelivered_qq_message_is_quarantined() {
    let (model, fake) = (model().await, QqFake::start().await.unwrap());
    fake.beat_every(Duration::from_secs(1));
    let keys = json!({
        "appId": qq::APP_ID, "secret": qq::CLIENT_SECRET, "apiBase": fake.base_url(),
        "tokenUrl": fake.token_url(),
    });
    let home = home(&model, "qq", keys);
    let ann = qq::Person::new("ann", "Ann");
    let answers = |text: &str| {
        let answer = format!("I read: {text}");
        let texts = fake.texts_in(&ann.direct()).into_iter();
        texts.filter(|text| text.starts_with(&answer)).count()
    };
    // QQ delivers nothing from before a session.
    let gateway = Running::start(&home).await;
    fake.wait_for_ready(1).await.unwrap();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let file = qq::Incoming::direct(&ann, "").with_file("poison.bin", "a/b", "x");
    let poison = fake.push(file);
    let key = key_digest(&poison.message_id);
    for life in 1..=MAX_CRASHES {
        fake.fail_next("file.get", qq::Fault::Hang);
        kill_while_handling(&home, "qq", &key, life, || fake.downloads()).await;
    }
    let fetched = fake.downloads();
    fake.push(qq::Incoming::direct(&ann, "what comes after it"));
    let gateway = Running::start(&home).await;
    until("the next one is answered", async || {
        answers("what comes after it") == 1
    })
    .await;
    assert_quarantined(&home, "qq", &poison.message_id).await;
    assert_eq!(fake.downloads(), fetched);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
    assert_recovered(&home, "qq").await;
}

/// The homeserver gives the events after the stored position again.
#[tokio::test]
async fn redelivered_matrix_event_is_quarantined() {
    let (model, fake) = (model().await, MatrixFake::start().await.unwrap());
    let ann = matrix::Person::new("ann");
    fake.add_person(&ann);
    let keys = json!({
        "homeserver": fake.url(), "userId": matrix::BOT_ID, "accessToken": matrix::BOT_TOKEN,
    });
    let home = home(&model, "matrix", keys);
    let answers = |text: &str| {
        let answer = format!("I read: {text}");
        let texts = fake.texts_in(&ann.direct()).into_iter();
        texts.filter(|text| text.starts_with(&answer)).count()
    };
    // Messages from before the first sync are history.
    let gateway = Running::start(&home).await;
    fake.wait_for_waiting_syncs(1).await.unwrap();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    let file = matrix::Incoming::direct(&ann, "read this");
    let poison = fake.push(file.with_file("m.file", "poison.bin", "a/b", "x"));
    let asked = || fake.calls_of("download").len();
    for life in 1..=MAX_CRASHES {
        fake.fail_next("download", matrix::Fault::Hang);
        kill_while_handling(&home, "matrix", &poison.event_id, life, asked).await;
    }
    let fetched = asked();
    fake.says(&ann, "what comes after it");
    let gateway = Running::start(&home).await;
    until("the next one is answered", async || {
        answers("what comes after it") == 1
    })
    .await;
    assert_quarantined(&home, "matrix", &poison.event_id).await;
    assert_eq!(asked(), fetched);
    assert_eq!(answers("read this"), 0);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
    assert_recovered(&home, "matrix").await;
}

/// The bridge repeats the message on each connection until it is confirmed.
#[tokio::test]
async fn repeated_whatsapp_message_is_quarantined() {
    let (model, fake) = (model().await, WhatsAppFake::start().await.unwrap());
    let keys = json!({"bridgeUrl": fake.url(), "bridgeToken": fake.token()});
    let home = home(&model, "whatsapp", keys);
    let ann = whatsapp::Person::new("4915112345678", "Ann");
    let answers = |text: &str| {
        let answer = format!("I read: {text}");
        let texts = fake.texts_in(&ann.direct()).into_iter();
        texts.filter(|text| text.starts_with(&answer)).count()
    };
    let file = whatsapp::Incoming::direct(&ann, "").with_file("poison.bin", "a/b", "x");
    let poison = fake.push(file);
    for life in 1..=MAX_CRASHES {
        fake.fail_next("fetch", whatsapp::Fault::Hang);
        let key = &poison.message_id;
        kill_while_handling(&home, "whatsapp", key, life, || fake.downloads()).await;
    }
    assert!(!fake.is_acknowledged(&poison));
    let fetched = fake.downloads();
    fake.push(whatsapp::Incoming::direct(&ann, "what comes after it"));
    let gateway = Running::start(&home).await;
    until("the next one is answered", async || {
        answers("what comes after it") == 1
    })
    .await;
    assert_quarantined(&home, "whatsapp", &poison.message_id).await;
    fake.wait_for_acknowledged(&poison).await.unwrap();
    assert_eq!(fake.downloads(), fetched);
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
    assert_recovered(&home, "whatsapp").await;
}
