//! The commands for the channels of every platform: state, test message, login.

use nanobot_chat_fakes::PLATFORMS;
use nanobot_testkit::ModelServer;
use serde_json::{Value, json};

use super::{World, answer, answer_to, token};
use crate::support::{Home, assert_says};

/// The credentials that a login asks for, in this order, on platforms where it asks for nothing
/// else and checks them. Matrix, WhatsApp, Mochat, e-mail and WebSocket have tests of their own;
/// the secret of WeCom is checked only by connecting.
const CREDENTIALS: [(&str, &[&str]); 6] = [
    ("telegram", &["token"]),
    ("discord", &["token"]),
    ("slack", &["botToken", "appToken"]),
    ("feishu", &["appId", "appSecret"]),
    ("dingtalk", &["clientId", "clientSecret"]),
    ("qq", &["appId", "secret"]),
];

#[tokio::test]
async fn channels_of_every_platform_are_tested_and_written_to() {
    let model = ModelServer::answering(answer);
    let mut world = World::new(model.await.unwrap(), |_| {}).await;
    let gateway = world.start().await;
    let probed = world.home.run(&["channels", "status", "--probe"]).await;
    assert_eq!(probed.code, 0, "{}{}", probed.stdout, probed.stderr);
    for (number, name) in PLATFORMS.into_iter().enumerate() {
        assert_says(&probed.stdout, &[&format!("{name}: running")]);
        let tested = world.home.run(&["channels", "test", name]).await;
        assert_eq!(tested.code, 0, "{name}: {}", tested.stderr);
        let Some((place, address)) = world.fake(name).reminded() else {
            continue;
        };
        // Some platforms let a bot write only to people who wrote before.
        world.say(place, &token(number));
        world.sees(place, &answer_to(&token(number))).await;
        let arguments = ["channels", "test", name, "--to", &address];
        let sent = world.home.run(&arguments).await;
        assert_eq!(sent.code, 0, "{name}: {}", sent.stderr);
        world.sees(place, "test message").await;
    }
    // The bridge of WhatsApp has one client, and refuses the tests once it knows their token.
    world.end_with(gateway, "auth: a second client").await;
}

#[tokio::test]
async fn login_checks_and_stores_credentials() {
    for (platform, keys) in CREDENTIALS {
        let fake = nanobot_chat_fakes::start_one(platform).await.unwrap();
        let full = fake.section();
        let mut section = full.clone();
        let members = section.as_object_mut().unwrap();
        members.retain(|key, _| key != "enabled" && !keys.contains(&key.as_str()));
        let home = Home::new();
        home.configure(&json!({"channels": {(platform): section}}));
        let values: Vec<_> = keys.iter().map(|key| full[key].as_str().unwrap()).collect();
        let secret = values.last().unwrap();
        let login = ["channels", "login", platform];
        let stored = || {
            let config: Value = serde_json::from_str(&home.read("config.json")).unwrap();
            config["channels"][platform].clone()
        };

        let wrong = values.join("\n").replace(secret, "12:wrong") + "\n";
        let run = home.run_with_input(&login, wrong.as_bytes()).await;
        assert_eq!(run.code, 1, "{platform}: {}", run.stdout);
        assert_eq!(stored(), section, "{platform}");

        let right = values.join("\n") + "\n";
        let run = home.run_with_input(&login, right.as_bytes()).await;
        assert_eq!(run.code, 0, "{platform}: {}", run.stderr);
        assert!(!(run.stdout + &run.stderr).contains(secret), "{platform}");
        assert_eq!(stored(), full, "{platform}");
        let violations = fake.violations();
        assert!(violations.is_empty(), "{platform}: {violations:?}");
    }
}
