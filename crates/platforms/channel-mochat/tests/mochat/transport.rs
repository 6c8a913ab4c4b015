//! Secrets, unexpected answers, and proxies.

use std::time::Duration;

use nanobot_channel::{ChannelError, SendRecovery};
use nanobot_channel_mochat_fake::{BOT_USER_ID, CLAW_TOKEN, Fault, Incoming};
use nanobot_testkit::Proxy;
use nanobot_testkit::http::{Response, Server};
use serde_json::json;

use crate::support::{Running, ann, channel, fake, reply};

#[tokio::test]
async fn revoked_token_ends_the_channel_without_showing_it() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.revoke_credentials();
    let channel = running.channel.clone();
    let unsent = channel.send(&reply(&hello, "x")).await.unwrap_err();
    assert!(matches!(unsent, ChannelError::Auth(_)), "{unsent}");
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert!(!format!("{error:?} {unsent:?} {channel:?}").contains(CLAW_TOKEN));
}

#[tokio::test]
async fn run_without_sessions_and_panels_names_both() {
    let running = Running::at(fake().await, &json!({"sessions": [], "panels": []}));
    let error = running.end().await;
    assert!(error.is_permanent(), "{error}");
    let why = "sessions: is empty, and so is panels: nothing is received";
    assert!(error.to_string().starts_with(why), "{error}");
}

#[tokio::test]
async fn send_with_a_refused_token_ends_the_run() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.fake.fail_next("sessions.send", Fault::Error(401));
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
        (Fault::Status(429), retry(Some(5))),
        (Fault::Error(503), retry(None)),
        (Fault::Error(500), uncertain),
        (Fault::ErrorAfterEffect(500), uncertain),
        (Fault::Truncated, uncertain),
        (Fault::RateLimited, retry(Some(5))),
        (Fault::RateLimitedFor(3), retry(Some(3))),
        (
            Fault::ErrorWith(200, 40_001, CLAW_TOKEN.to_owned()),
            SendRecovery::GiveUp,
        ),
        (Fault::Error(403), SendRecovery::GiveUp),
        (Fault::Answer(200, json!([])), uncertain),
        (
            Fault::Answer(400, json!({"message": "no"})),
            SendRecovery::GiveUp,
        ),
    ];
    let part = reply(&hello, "x");
    for (fault, recovery) in table {
        running.fake.fail_next("sessions.send", fault.clone());
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{fault:?}: {error}");
        assert!(!error.to_string().contains(CLAW_TOKEN), "{error}");
    }
    // Without a code, what is there is the data.
    running.fake.fail_next(
        "sessions.send",
        Fault::Answer(200, json!({"messageId": "m9"})),
    );
    let sent = running.channel.send(&part).await.unwrap();
    assert_eq!(sent.message_id, Some("m9".into()));
}

#[tokio::test]
async fn probe_checks_the_token() {
    let fake = fake().await;
    let probe = async |keys| channel(&fake, &keys).probe().unwrap().probe().await;
    let account = probe(json!({})).await.unwrap();
    assert!(account.starts_with(BOT_USER_ID), "{account}");
    assert!(account.contains("cannot confirm agentUserId"), "{account}");
    let deaf = json!({"sessions": [], "panels": []});
    let error = probe(deaf).await.unwrap_err();
    assert!(error.to_string().starts_with("sessions: "), "{error}");
    let error = probe(json!({"clawToken": "wrong"})).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn own_proxy_is_used_for_calls() {
    let answer = json!({"code": 200, "data": {"sessions": []}, "added": "tomorrow"});
    let proxy = Server::start(move |_| {
        let response = Response::json(200, &answer);
        async { response }
    });
    let proxy = proxy.await.unwrap();
    let fake = fake().await;
    // The name resolves nowhere: only the proxy can deal with it.
    let keys = json!({"baseUrl": "http://mochat.invalid/", "proxy": proxy.url()});
    let probed = channel(&fake, &keys).probe().unwrap().probe().await;
    let account = probed.unwrap();
    assert!(account.starts_with(BOT_USER_ID), "{account}");
}

#[tokio::test]
async fn own_proxy_is_used_for_the_socket() {
    let fake = fake().await;
    let api = fake.base_url().replace("http://", "").parse().unwrap();
    let proxy = Proxy::start(api).await.unwrap();
    // The names resolve nowhere: only the proxy can deal with them. It leads both to the API.
    let keys = json!({
        "proxy": format!("socks5h://{}", proxy.address()), "baseUrl": "http://api.invalid",
        "socketUrl": "ws://socket.invalid",
    });
    let running = Running::at(fake, &keys);
    running.positioned(&ann().direct()).await;
    running.fake.push(Incoming::direct(&ann(), "polled"));
    running.last("polled").await;
    let asked = proxy.asked();
    for host in ["api.invalid:80", "socket.invalid:80"] {
        assert!(asked.iter().any(|asked| asked == host), "{asked:?}");
    }
}
