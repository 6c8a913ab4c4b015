//! Tokens, secrets, unexpected answers, and proxies.

use std::time::Duration;

use nanobot_channel::{CancellationToken, ChannelError, SendRecovery, TaskTracker};
use nanobot_channel_qq_fake::{BOT_NAME, CLIENT_SECRET, Fault, TOKEN_PREFIX};
use nanobot_testkit::http::{Response, Server};
use nanobot_testkit::{Watched, accept_connections};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

use crate::support::{Running, channel, fake, part, reply};

#[tokio::test]
async fn expired_and_revoked_tokens_are_replaced() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    running.send(&hello, 0, "one").await.unwrap();
    assert_eq!(running.fake.calls_of("token").len(), 1);
    running.fake.revoke_tokens();
    running.send(&hello, 1, "two").await.unwrap();
    assert_eq!(running.fake.calls_of("token").len(), 2);
    // A token that is refused again is an error.
    for _ in 0..2 {
        running.fake.fail_next("user.send", Fault::Error(11_244));
    }
    let error = running.send(&hello, 2, "three").await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert_eq!(running.texts(), ["one", "two"]);
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
}

#[tokio::test]
async fn expired_token_is_found_out_by_the_answer() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    // The clock of this program does not notice.
    running.fake.advance(Duration::from_hours(3));
    running.send(&hello, 0, "late").await.unwrap();
    assert_eq!(running.sent(), [("late".to_owned(), false)]);
    running.stop().await;
}

#[tokio::test]
async fn concurrent_sends_share_one_token() {
    let running = Running::start(json!({})).await;
    let hello = running.hello().await;
    let fresh = channel(&running.fake, &json!({}));
    let before = running.fake.calls_of("token").len();
    let parts = [0, 1, 2].map(|position| part(&hello, position, "x"));
    let [one, two, three] = parts.each_ref().map(|part| fresh.send(part));
    let sent = tokio::join!(one, two, three);
    assert!(sent.0.is_ok() && sent.1.is_ok() && sent.2.is_ok());
    assert_eq!(running.fake.calls_of("token").len(), before + 1);
    running.stop().await;
}

#[tokio::test]
async fn revoked_secret_ends_the_channel() {
    let running = Running::start(json!({})).await;
    running.hello().await;
    running.fake.revoke_credentials();
    let channel = running.channel.clone();
    let error = running.end().await;
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    let shown = format!("{error:?} {channel:?}");
    assert!(!shown.contains(CLIENT_SECRET) && !shown.contains(TOKEN_PREFIX));
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
        (Fault::Answer(404, json!({})), retry(None)),
        (Fault::Error(50_055_001), retry(None)),
        (Fault::ErrorWith(500, 500_000, "busy".to_owned()), uncertain),
        (Fault::RateLimited, retry(Some(5))),
        (Fault::RateLimitedFor(3), retry(Some(3))),
        (
            Fault::ErrorWith(400, 22_009, "too often".to_owned()),
            retry(Some(5)),
        ),
        (
            Fault::Answer(200, json!({"code": 40_034_006, "message": "no"})),
            SendRecovery::GiveUp,
        ),
        (Fault::Error(11_253), SendRecovery::GiveUp),
    ];
    let part = reply(&hello, "x");
    for (fault, recovery) in table {
        running.fake.fail_next("user.send", fault.clone());
        let error = running.channel.send(&part).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{fault:?}: {error}");
    }
    // A message that a person at QQ looks at first was taken.
    let review = json!({"code": 304_023, "message": "push message is waiting for audit now"});
    running
        .fake
        .fail_next("user.send", Fault::Answer(202, review));
    running.channel.send(&part).await.unwrap();
    assert_eq!(running.texts(), Vec::<String>::new());
}

#[tokio::test]
async fn probe_checks_the_credentials() {
    let fake = fake().await;
    let probe = async |keys| channel(&fake, &keys).probe().unwrap().probe().await;
    assert_eq!(probe(json!({})).await.unwrap(), format!("@{BOT_NAME}"));
    let error = probe(json!({"secret": "wrong"})).await.unwrap_err();
    assert!(matches!(error, ChannelError::Auth(_)), "{error}");
    assert!(
        error.to_string().contains("check appId and secret"),
        "{error}"
    );
}

#[tokio::test]
async fn calls_of_a_new_connection_do_not_use_old_ones() {
    let fake = fake().await;
    let api = fake.base_url().replace("http://", "");
    let opened = Watched::new(0);
    let counted = opened.clone();
    let forward = move |mut stream: TcpStream| {
        counted.change(|opened| *opened += 1);
        let api = api.clone();
        async move {
            let mut api = TcpStream::connect(api).await.unwrap();
            drop(copy_bidirectional(&mut stream, &mut api).await);
        }
    };
    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let address = accept_connections(stop.clone(), &tasks, forward).await;
    let keys = json!({"apiBase": format!("http://{}", address.unwrap())});
    let running = Running::at(fake, &keys);
    running.fake.wait_for_ready(1).await.unwrap();
    assert_eq!(opened.read(|opened| *opened), 1);
    // The gateway ends; the connection for calls looks usable, whether it is or not.
    running.fake.close_with(4008);
    running.fake.wait_for_resumes(1).await.unwrap();
    assert_eq!(opened.read(|opened| *opened), 2);
    running.stop().await;
    stop.cancel();
}

#[tokio::test]
async fn own_proxy_is_used_for_all_calls() {
    let answer = json!({
        "access_token": "t-1", "expires_in": 7200, "username": "bot", "added": "tomorrow",
    });
    let proxy = Server::start(move |_| {
        let response = Response::json(200, &answer);
        async { response }
    });
    let proxy = proxy.await.unwrap();
    let fake = fake().await;
    // The names resolve nowhere: only the proxy can deal with them.
    let keys = json!({
        "apiBase": "http://qq.invalid/", "tokenUrl": "http://tokens.invalid/get", "proxy": proxy.url(),
    });
    let probed = channel(&fake, &keys).probe().unwrap().probe().await;
    assert_eq!(probed.unwrap(), "@bot");
    assert!(fake.calls_of("token").is_empty());
}
