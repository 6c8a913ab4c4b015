//! Sections of the Python program's channels, and the files that its channels kept.

use nanobot_channel_mochat_fake::{self as mochat, MochatFake};
use nanobot_testkit::{ModelServer, Reply};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::gateway::Running;
use crate::support::{Home, assert_says, until};

/// All keys of the section as the Python program wrote it.
#[tokio::test]
async fn old_slack_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"slack": {
        "enabled": true, "mode": "socket", "webhookPath": "/slack/events", "botToken": "xoxb-12345678",
        "appToken": "xapp-12345678", "userTokenReadOnly": true, "replyInThread": true, "reactEmoji": "eyes",
        "doneEmoji": "white_check_mark", "includeThreadContext": true, "threadContextLimit": 20, "allowFrom": ["U1"],
        "groupPolicy": "mention", "groupRequireMention": false, "groupAllowFrom": [],
        "dm": {"enabled": true, "policy": "open", "allowFrom": []},
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(
        &dry.stdout,
        &[
            "kept, unknown: none",
            "ignored: channels.slack.userTokenReadOnly, channels.slack.webhookPath",
        ],
    );
    let doctor = home.run(&["doctor"]).await;
    assert_says(
        &doctor.stdout,
        &[
            "`channels.slack.webhookPath` is kept but not read",
            "channels.slack is set up",
        ],
    );
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
    let snake = home
        .read("config.json")
        .replace("webhookPath", "webhook_path")
        .replace("userTokenRead", "user_token_read");
    home.write("config.json", &snake.replace("_readOnly", "_read_only"));
    let doctor = home.run(&["doctor"]).await;
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}

/// All keys of the section as the Python program wrote it.
#[tokio::test]
async fn old_feishu_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"feishu": {
        "enabled": true, "instanceId": "default", "name": "work", "identityKey": "k", "appId": "cli_1",
        "appSecret": "12345678", "encryptKey": "", "verificationToken": "", "allowFrom": ["ou_1"],
        "reactEmoji": "THUMBSUP", "doneEmoji": null, "toolHintPrefix": "🔧", "groupPolicy": "mention",
        "replyToMessage": false, "streaming": true, "domain": "feishu", "topicIsolation": true,
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(
        &dry.stdout,
        &[
            "kept, unknown: none",
            "ignored: channels.feishu.identityKey, channels.feishu.instanceId, channels.feishu.name",
        ],
    );
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.feishu is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}

/// All keys of the section as the Python program wrote it.
#[tokio::test]
async fn old_dingtalk_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"dingtalk": {
        "enabled": true, "clientId": "ding1", "clientSecret": "12345678", "allowFrom": ["ann"],
        "allowRemoteMediaRedirects": true, "remoteMediaRedirectAllowedHosts": ["a.test"],
        "groupUserIsolation": true, "disablePrivateChat": false,
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(&dry.stdout, &["kept, unknown: none", "ignored: none"]);
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.dingtalk is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}

/// All keys of the section as the Python program wrote it.
#[tokio::test]
async fn old_qq_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"qq": {
        "enabled": true, "appId": "102000001", "secret": "12345678", "allowFrom": ["ann"],
        "msgFormat": "markdown", "ackMessage": "Wait", "mediaDir": "media",
        "downloadChunkSize": 262_144, "downloadMaxBytes": 209_715_200,
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(&dry.stdout, &["kept, unknown: none", "ignored: none"]);
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.qq is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}

/// All keys of the section as the Python program wrote it.
#[tokio::test]
async fn old_wecom_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"wecom": {
        "enabled": true, "botId": "aib1", "secret": "12345678", "allowFrom": ["ann"],
        "welcomeMessage": "Hello",
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(&dry.stdout, &["kept, unknown: none", "ignored: none"]);
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.wecom is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}

/// All keys of the section as the Python program wrote it.
#[tokio::test]
async fn old_mochat_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"mochat": {
        "enabled": true, "baseUrl": "https://mochat.io", "socketUrl": "https://mochat.io",
        "socketPath": "/socket.io", "socketDisableMsgpack": false, "socketReconnectDelayMs": 1000,
        "socketMaxReconnectDelayMs": 10_000, "socketConnectTimeoutMs": 10_000,
        "refreshIntervalMs": 30_000, "watchTimeoutMs": 25_000, "watchLimit": 100,
        "retryDelayMs": 500, "maxRetryAttempts": 0, "clawToken": "claw_12345678",
        "agentUserId": "agent1", "sessions": ["*"], "panels": ["panel1"], "allowFrom": ["ann"],
        "mention": {"requireInGroups": true}, "groups": {"group1": {"requireMention": false}},
        "replyDelayMode": "non-mention", "replyDelayMs": 120_000,
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(&dry.stdout, &["kept, unknown: none", "ignored: none"]);
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.mochat is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}

/// The channel continues at the positions of the Python program.
#[tokio::test]
async fn old_mochat_cursors_are_continued() {
    let model = ModelServer::answering(|request| Reply::text(request.last_user_text()));
    let (model, fake) = (model.await.unwrap(), MochatFake::start().await.unwrap());
    let ann = mochat::Person::new("ann", "Ann");
    fake.add_person(&ann);
    fake.push(mochat::Incoming::direct(&ann, "answered before"));
    let read = fake.cursor(&ann.direct());
    fake.push(mochat::Incoming::direct(&ann, "not yet answered"));
    let home = Home::new();
    home.configure(&json!({
        "agents": {"defaults": {"model": "test-model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "test-key", "apiBase": model.base_url()}},
        "channels": {"mochat": {
            "enabled": true, "clawToken": mochat::CLAW_TOKEN, "agentUserId": mochat::BOT_USER_ID,
            "baseUrl": fake.base_url(), "socketUrl": fake.socket_url(), "sessions": ["*"],
            "allowFrom": ["ann"],
        }},
    }));
    let cursors = json!({
        "schemaVersion": 1, "updatedAt": "2026-03-15T10:00:00",
        "cursors": {ann.direct(): read},
    });
    home.write("mochat/session_cursors.json", &cursors.to_string());
    let gateway = Running::start(&home).await;
    until("the new message is answered", async || {
        !fake.texts_in(&ann.direct()).is_empty()
    })
    .await;
    let texts = fake.texts_in(&ann.direct());
    assert!(
        texts.len() == 1 && texts[0].starts_with("not yet answered"),
        "{texts:?}"
    );
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.end().await.1, Some(0));
    assert_eq!(fake.complaints(), Vec::<String>::new());
}

/// All keys of the section as the Python program wrote it.
#[tokio::test]
async fn old_matrix_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"matrix": {
        "enabled": true, "homeserver": "https://x.test", "accessToken": "syt_12345678",
        "userId": "@bot:x.test", "deviceId": "DEV1", "password": "12345678", "e2eeEnabled": true,
        "sasVerification": false, "syncStopGraceSeconds": 2, "maxMediaBytes": 20_971_520,
        "maxConcurrentMediaDownloads": 2, "allowFrom": ["@ann:x.test"], "groupPolicy": "open",
        "groupAllowFrom": ["!abc:x.test"], "allowRoomMentions": false, "streaming": false,
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    assert_says(
        &dry.stdout,
        &[
            "kept, unknown: none",
            "ignored: channels.matrix.maxConcurrentMediaDownloads",
        ],
    );
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.matrix is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
    let snake = home
        .read("config.json")
        .replace("accessToken", "access_token")
        .replace("userId", "user_id")
        .replace("maxConcurrentMedia", "max_concurrent_media_");
    home.write("config.json", &snake.replace("_Downloads", "_downloads"));
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.matrix is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}

/// All keys of the section as the Python program wrote it, and those that its later versions added.
#[tokio::test]
async fn old_whatsapp_keys_are_known() {
    let home = Home::new();
    home.configure(&json!({"channels": {"whatsapp": {
        "enabled": true, "bridgeUrl": "ws://localhost:3001", "bridgeToken": "12345678",
        "allowFrom": ["4915112345678"], "groupPolicy": "open", "databasePath": "neonize.db",
        "lidMappings": {"120000000000002": "4915112345678"},
    }}}));
    let dry = home.run(&["onboard", "--dry-run"]).await;
    let ignored = "ignored: channels.whatsapp.databasePath, channels.whatsapp.lidMappings";
    assert_says(&dry.stdout, &["kept, unknown: none", ignored]);
    let doctor = home.run(&["doctor"]).await;
    assert_says(&doctor.stdout, &["channels.whatsapp is set up"]);
    assert!(!doctor.stdout.contains("unknown key"), "{}", doctor.stdout);
}
