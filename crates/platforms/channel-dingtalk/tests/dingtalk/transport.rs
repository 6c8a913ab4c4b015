//! Tokens, secrets, unexpected answers, and proxies.

use std::time::Duration;

use nanobot_channel::{ChannelError, SendRecovery};
use nanobot_channel_dingtalk_fake::{CLIENT_ID, CLIENT_SECRET, Fault};
use nanobot_testkit::http::{Response, Server};
use serde_json::json;

use crate::support::{Running, channel, fake, part, reply};

#[tokio::test]
async fn expired_and_revoked_tokens_are_replaced() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.channel.send(&part(&hello, 0, "one")).await.unwrap();
    assert_eq!(running.fake.calls_of("token").len(), 1);
    // The clock of this program does not notice: the answer does.
    running.fake.advance(Duration::from_hours(3));
    running.channel.send(&part(&hello, 1, "two")).await.unwrap();
    running.fake.revoke_tokens();
    running
        .channel
        .send(&part(&hello, 2, "three"))
        .await
        .unwrap();
    assert_eq!(running.fake.calls_of("token").len(), 3);
    // A token that is refused again is an error.
    for _ in 0..2 {
        let refusal = Fault::error("InvalidAuthentication");
        running.fake.fail_next("robot.private", refusal);
    }
    let error = running
        .channel
        .send(&part(&hello, 3, "four"))
        .await
        .unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert_eq!(running.texts(), ["one", "two", "three"]);
}

#[tokio::test]
async fn concurrent_sends_share_one_token() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let fresh = channel(&running.fake, &json!({}));
    let parts = [0, 1, 2].map(|position| part(&hello, position, "x"));
    let [one, two, three] = parts.each_ref().map(|part| fresh.send(part));
    let sent = tokio::join!(one, two, three);
    assert!(sent.0.is_ok() && sent.1.is_ok() && sent.2.is_ok());
    assert_eq!(running.fake.calls_of("token").len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn revoked_secret_ends_the_channel() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.revoke_credentials();
    let channel = running.channel.clone();
    let error = channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert!(!format!("{error:?} {channel:?}").contains(CLIENT_SECRET));
}

#[tokio::test]
async fn send_with_refused_credentials_ends_the_run() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let refusal = Fault::error("invalidClientIdOrSecret");
    running.fake.fail_next("robot.private", refusal);
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
    let retry = |seconds: Option<u64>| SendRecovery::Retry {
        after: seconds.map(Duration::from_secs),
    };
    let table = [
        (Fault::WebPage, uncertain),
        (
            Fault::Redirect("http://127.0.0.1:9/".to_owned()),
            retry(None),
        ),
        (Fault::Status(404), retry(None)),
        (Fault::error("ServiceUnavailable"), retry(None)),
        (Fault::error("unknownError"), uncertain),
        (Fault::RateLimited, retry(Some(5))),
        (Fault::RateLimitedFor(3), retry(Some(3))),
        (
            Fault::Answer(200, json!({"errcode": 300_001})),
            SendRecovery::GiveUp,
        ),
        (Fault::error("invalidParameter"), SendRecovery::GiveUp),
        (
            Fault::error("Forbidden.AccessDenied.AccessTokenPermissionDenied"),
            SendRecovery::GiveUp,
        ),
    ];
    let part = reply(&hello, "x");
    for (fault, recovery) in table {
        running.fake.fail_next("robot.private", fault.clone());
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{fault:?}: {error}");
    }
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.texts(), ["x"]);
}

#[tokio::test]
async fn probe_checks_the_credentials() {
    let fake = fake().await;
    let probe = async |keys| channel(&fake, &keys).probe().unwrap().probe().await;
    assert_eq!(probe(json!({})).await.unwrap(), CLIENT_ID);
    let error = probe(json!({"clientSecret": "wrong"})).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn own_proxy_is_used_for_calls() {
    let answer = json!({"accessToken": "t-1", "expireIn": 7200, "added": "tomorrow"});
    let proxy = Server::start(move |_| {
        let response = Response::json(200, &answer);
        async { response }
    });
    let proxy = proxy.await.unwrap();
    let fake = fake().await;
    // The name resolves nowhere: only the proxy can deal with it.
    let keys = json!({"apiBase": "http://dingtalk.invalid/", "proxy": proxy.url()});
    let probed = channel(&fake, &keys).probe().unwrap().probe().await;
    assert_eq!(probed.unwrap(), CLIENT_ID);
}
