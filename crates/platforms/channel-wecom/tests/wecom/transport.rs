//! The probe, secrets, and proxies.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_wecom_fake::{BOT_ID, Fault, SECRET};
use nanobot_testkit::check_proxy_routes;
use serde_json::json;

use crate::support::{Running, channel, fake, reply};

#[tokio::test]
async fn probe_never_subscribes() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    let probe = async |channel: &std::sync::Arc<dyn nanobot_channel::Channel>| {
        channel.probe().unwrap().probe().await
    };
    assert_eq!(probe(&running.channel).await.unwrap(), BOT_ID);
    // Another program, such as `nanobot channels status --probe`.
    let other = channel(&running.fake, &json!({}));
    let account = probe(&other).await.unwrap();
    assert!(
        account.starts_with(BOT_ID) && account != BOT_ID,
        "{account}"
    );
    assert_eq!(running.fake.subscriptions(), 1);
    let away = channel(&running.fake, &json!({"wsUrl": "ws://127.0.0.1:9"}));
    let error = probe(&away).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    running.stop().await;
}

#[tokio::test]
async fn rejected_credentials_are_remembered_until_they_work() {
    let fake = fake().await;
    fake.revoke_credentials();
    let running = Running::at(fake, &json!({}));
    let channel = running.channel.clone();
    let (fake, error) = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    let error = channel.probe().unwrap().probe().await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert!(!format!("{error:?} {channel:?}").contains(SECRET));
    assert_eq!(fake.subscriptions(), 0);
}

#[tokio::test]
async fn send_with_refused_credentials_ends_the_run() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running
        .fake
        .fail_next("aibot_send_msg", Fault::error(853_000));
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    let (_, error) = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn secret_in_an_answer_is_not_shown() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let echo = Fault::ErrorWith(40_058, format!("odd secret {SECRET}"));
    running.fake.fail_next("aibot_send_msg", echo);
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(
        shown.contains("odd secret") && !shown.contains(SECRET),
        "{shown}"
    );
    running.stop().await;
}

#[test]
fn proxy_of_the_configuration_precedes_that_of_the_environment() {
    let test = "transport::proxy_of_the_configuration_precedes_that_of_the_environment";
    check_proxy_routes(test, "ws", |own, server| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let fake = fake().await;
            let mut keys = json!({"wsUrl": server});
            if let Some(own) = own {
                keys["proxy"] = json!(own);
            }
            let channel = channel(&fake, &keys);
            let probe =
                tokio::time::timeout(Duration::from_secs(20), channel.probe().unwrap().probe());
            assert!(probe.await.unwrap().is_err());
        });
    })
    .unwrap();
}
