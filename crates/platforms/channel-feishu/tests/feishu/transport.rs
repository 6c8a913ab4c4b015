//! Tokens, secrets, unexpected answers, and proxies.

use std::time::Duration;

use nanobot_channel::{ChannelError, SendRecovery};
use nanobot_channel_feishu_fake::{APP_SECRET, Fault, FeishuFake};
use nanobot_testkit::http::{Response, Server};
use serde_json::json;

use crate::support::{Running, channel, reply, with};

#[tokio::test]
async fn expired_and_revoked_tokens_are_replaced() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.channel.send(&reply(&hello, "one")).await.unwrap();
    let tokens = running.fake.calls_of("token").len();
    // The clock of this program does not notice: the answer does.
    running.fake.advance(Duration::from_hours(3));
    let part = with(reply(&hello, "two"), |message| message.key.position = 1);
    running.channel.send(&part).await.unwrap();
    running.fake.revoke_tokens();
    let part = with(reply(&hello, "three"), |message| message.key.position = 2);
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.fake.calls_of("token").len(), tokens + 2);
    // A token that is refused again is an error.
    running
        .fake
        .fail_next("message.create", Fault::Error(99_991_663));
    running
        .fake
        .fail_next("message.create", Fault::Error(99_991_663));
    let part = with(reply(&hello, "four"), |message| message.key.position = 3);
    let error = running.channel.send(&part).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert_eq!(running.fake.sent().len(), 3);
}

#[tokio::test]
async fn concurrent_sends_share_one_token() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let before = running.fake.calls_of("token").len();
    let fresh = channel(&running.fake, &json!({}));
    let parts = [1, 2, 3].map(|position| {
        with(reply(&hello, "x"), |message| {
            message.key.position = position;
        })
    });
    let [one, two, three] = parts.each_ref().map(|part| fresh.send(part));
    let sent = tokio::join!(one, two, three);
    assert!(sent.0.is_ok() && sent.1.is_ok() && sent.2.is_ok());
    assert_eq!(running.fake.calls_of("token").len(), before + 1);
    running.stop().await;
}

#[tokio::test]
async fn reset_secret_ends_the_channel() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.revoke_credentials();
    let channel = running.channel.clone();
    let error = channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert!(!format!("{error:?} {channel:?}").contains(APP_SECRET));
}

#[tokio::test]
async fn send_with_refused_credentials_ends_the_run() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running
        .fake
        .fail_next("message.create", Fault::Error(10_014));
    let error = running.channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn foreign_answers_are_not_success() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let uncertain = SendRecovery::Uncertain;
    let retry = SendRecovery::Retry { after: None };
    let table = [
        (Fault::WebPage, uncertain),
        (Fault::Redirect("http://127.0.0.1:9/".to_owned()), retry),
        (Fault::Status(404), retry),
        (
            Fault::frequency(),
            SendRecovery::Retry {
                after: Some(Duration::from_secs(5)),
            },
        ),
        (
            Fault::RateLimited(3),
            SendRecovery::Retry {
                after: Some(Duration::from_secs(3)),
            },
        ),
        (Fault::Error(230_001), SendRecovery::GiveUp),
        (Fault::Error(230_013), SendRecovery::GiveUp),
        (Fault::Error(99_991_672), SendRecovery::GiveUp),
    ];
    let part = reply(&hello, "x");
    for (fault, recovery) in table {
        running.fake.fail_next("message.create", fault.clone());
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{fault:?}: {error}");
    }
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.fake.sent().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn own_proxy_is_used_for_calls() {
    let answer = json!({
        "code": 0, "tenant_access_token": "t-1", "expire": 7200, "added": "tomorrow",
        "bot": {"open_id": "ou_1", "app_name": "nano"},
    });
    let proxy = Server::start(move |_| {
        let response = Response::json(200, &answer);
        async { response }
    });
    let proxy = proxy.await.unwrap();
    let fake = FeishuFake::start().await.unwrap();
    // The name resolves nowhere: only the proxy can deal with it.
    let keys = json!({"apiBase": "http://feishu.invalid/", "proxy": proxy.url()});
    let probed = channel(&fake, &keys).probe().unwrap().probe().await;
    assert_eq!(probed.unwrap(), "@nano");
}
