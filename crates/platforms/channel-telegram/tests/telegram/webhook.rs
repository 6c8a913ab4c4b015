//! Updates that Telegram posts.

use nanobot_channel::{Admission, ChannelError, Value};
use nanobot_channel_telegram_fake::{Fault, FileKind, Incoming, TelegramFake};
use nanobot_testkit::ReservedPort;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{GROUP, Running, ann};

const SECRET: &str = "webhook-Secret_1";

fn keys(port: &ReservedPort) -> Value {
    json!({
        "mode": "webhook", "webhookUrl": "https://bot.test/telegram", "webhookListenPort": port.number(),
        "webhookSecretToken": SECRET, "webhookMaxConnections": 10, "requestTimeout": 3600,
    })
}

/// A channel that takes posts, and the fake that posts to it.
async fn start() -> (Running, ReservedPort) {
    let fake = TelegramFake::start().await.unwrap();
    let port = ReservedPort::new().unwrap();
    fake.post_to(port.address());
    let running = Running::at(fake, &keys(&port));
    (running, port)
}

/// The status that a request gets, unless the connection is cut before.
async fn status(port: &ReservedPort, head: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(port.address()).await?;
    let length = body.len();
    let request = format!(
        "{head}\r\nHost: bot.test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned())
}

#[tokio::test]
async fn posted_update_is_confirmed_after_it_is_stored() {
    let (running, _port) = start().await;
    running.assistant.will_answer([Admission::TryLater]);
    let pushed = running.fake.push(Incoming::private(&ann(), "hello"));
    running.assistant.message(1).await.unwrap();
    assert!(
        !running.fake.is_acknowledged(pushed),
        "nothing is confirmed before it is stored"
    );
    running.fake.wait_for_acknowledged(pushed).await.unwrap();
    assert_eq!(running.assistant.message(2).await.unwrap().content, "hello");
    let expected = json!({
        "url": "https://bot.test/telegram", "secret_token": SECRET, "max_connections": 10,
        "allowed_updates": ["message", "edited_message", "channel_post", "callback_query"],
    });
    assert_eq!(
        running.fake.calls_of("setWebhook")[0].params,
        expected,
        "what waits is kept"
    );
    assert!(running.fake.calls_of("getUpdates").is_empty());
    running.stop().await;
}

#[tokio::test]
async fn unstored_post_is_redelivered_after_a_restart() {
    let (running, port) = start().await;
    running
        .assistant
        .will_answer([Admission::Accepted, Admission::ShuttingDown]);
    running.fake.push(Incoming::private(&ann(), "stored"));
    running.assistant.message(1).await.unwrap();
    let pushed = running.fake.push(Incoming::private(&ann(), "not stored"));
    running.assistant.message(2).await.unwrap();
    let fake = running.stop().await;
    assert!(!fake.is_acknowledged(pushed));
    let again = Running::at(fake, &keys(&port));
    assert_eq!(
        again.assistant.message(1).await.unwrap().content,
        "not stored"
    );
    again.fake.wait_for_acknowledged(pushed).await.unwrap();
    again.stop().await;
}

#[tokio::test]
async fn posted_album_is_one_message() {
    let (running, _port) = start().await;
    let photo = |text: &str| {
        Incoming::private(&ann(), text)
            .with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG")
            .in_album("9")
    };
    let pushed = [
        running.fake.push(photo("our trip")),
        running.fake.push(photo("")),
        running.fake.push(photo("")),
    ];
    let message = running.assistant.message(1).await.unwrap();
    assert_eq!(message.media.len(), 3, "{message:?}");
    for pushed in pushed {
        running.fake.wait_for_acknowledged(pushed).await.unwrap();
    }
    assert_eq!(running.assistant.seen().arrived.len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn slow_post_delays_only_its_chat() {
    let (running, port) = start().await;
    running.fake.fail_next("getFile", Fault::Hang);
    let photo =
        Incoming::private(&ann(), "look").with_file(FileKind::Photo, "a.jpg", "image/jpeg", "JPEG");
    let slow = [
        running.fake.push(photo),
        running.fake.push(Incoming::private(&ann(), "did you?")),
    ];
    let other = running.fake.push(Incoming::group(GROUP, &ann(), "one"));
    running.fake.wait_for_acknowledged(other).await.unwrap();
    assert!(
        slow.iter().all(|slow| !running.fake.is_acknowledged(*slow)),
        "not before it is stored"
    );
    let running = running.restart(&keys(&port)).await;
    for slow in slow {
        running.fake.wait_for_acknowledged(slow).await.unwrap();
    }
    let arrived = running.assistant.seen().arrived;
    let texts: Vec<_> = arrived
        .iter()
        .map(|(message, _)| message.content.as_str())
        .collect();
    assert_eq!(
        texts,
        ["one", "look\n[image: /media/image.jpg]", "did you?"]
    );
    running.stop().await;
}

#[tokio::test]
async fn posts_without_the_secret_are_refused() {
    let (running, port) = start().await;
    running
        .fake
        .wait_for_calls("getWebhookInfo", 1)
        .await
        .unwrap();
    let update = json!({"update_id": 1, "message": {
        "message_id": 1, "date": 1, "text": "let me in", "from": {"id": 7, "is_bot": false, "first_name": "Ann"},
        "chat": {"id": 7, "type": "private", "first_name": "Ann"},
    }})
    .to_string();
    let secret = format!("x-telegram-bot-api-secret-token: {SECRET}");
    let table = [
        (
            format!("POST /telegram HTTP/1.1\r\nx: {secret}"),
            update.as_str(),
            "401",
        ),
        (
            format!("POST /telegram HTTP/1.1\r\n{secret}x"),
            &update,
            "401",
        ),
        (
            "POST /telegram HTTP/1.1\r\nx-telegram-bot-api-secret-token:".to_owned(),
            &update,
            "401",
        ),
        (
            format!("POST /elsewhere HTTP/1.1\r\n{secret}"),
            &update,
            "404",
        ),
        (format!("GET /telegram HTTP/1.1\r\n{secret}"), "", "405"),
        (
            format!("POST /telegram HTTP/1.1\r\n{secret}"),
            "{\"no\": \"update\"}",
            "400",
        ),
        (
            format!("POST /telegram HTTP/1.1\r\n{secret}"),
            &update,
            "200",
        ),
        (
            format!("POST /telegram HTTP/1.1\r\n{secret}"),
            &update,
            "200",
        ),
    ];
    for (head, body, expected) in table {
        assert_eq!(
            status(&port, &head, body).await.unwrap(),
            expected,
            "{head}"
        );
    }
    assert_eq!(
        running.assistant.seen().arrived.len(),
        1,
        "the same update twice is one message"
    );
    let large = format!("{{\"update_id\": 2, \"x\": \"{}\"}}", "x".repeat(1 << 20));
    // What is too large is refused before all of it was read, so the refusal may get lost.
    let refused = status(
        &port,
        &format!("POST /telegram HTTP/1.1\r\n{secret}"),
        &large,
    )
    .await;
    assert!(
        refused.as_ref().is_ok_and(|status| status == "413") || refused.is_err(),
        "{refused:?}"
    );
    running.stop().await;
}

#[tokio::test]
async fn uncertain_webhook_is_set_again() {
    let fake = TelegramFake::start().await.unwrap();
    let (port, nowhere) = (ReservedPort::new().unwrap(), ReservedPort::new().unwrap());
    // The server of an earlier run is gone.
    fake.post_to(nowhere.address());
    fake.push(Incoming::private(&ann(), "waits"));
    fake.fail_next("setWebhook", Fault::DropAfterEffect);
    let (fake, error) = Running::at(fake, &keys(&port)).end().await;
    assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
    let running = Running::at(fake, &keys(&port));
    running.fake.wait_for_calls("setWebhook", 2).await.unwrap();
    running.fake.post_to(port.address());
    assert_eq!(running.assistant.message(1).await.unwrap().content, "waits");
    running.stop().await;
}

#[tokio::test]
async fn failed_posts_are_reported_from_webhook_info() {
    let fake = TelegramFake::start().await.unwrap();
    let port = ReservedPort::new().unwrap();
    let info = |url: &str| {
        let why = "Wrong response from the webhook: 502 Bad Gateway";
        Fault::Result(
            json!({"url": url, "pending_update_count": 3, "last_error_date": 1, "last_error_message": why}),
        )
    };
    fake.fail_next("getWebhookInfo", info("https://bot.test/telegram"));
    let running = Running::at(fake, &keys(&port));
    let seen = running
        .assistant
        .wait_until("the bad news", |seen| !seen.degraded.is_empty())
        .await
        .unwrap();
    let expected = "Telegram cannot post to webhookUrl: Wrong response from the webhook: 502 Bad Gateway (3 updates wait)";
    assert_eq!(seen.degraded, [expected]);
    let fake = running.stop().await;
    fake.fail_next("getWebhookInfo", info("https://elsewhere.test/"));
    let (_, error) = Running::at(fake, &keys(&port)).end().await;
    assert!(matches!(error, ChannelError::Conflict(_)), "{error}");
}

#[tokio::test]
async fn used_port_is_reported() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut keys = keys(&ReservedPort::new().unwrap());
    let port = taken.local_addr().unwrap().port();
    keys["webhookListenPort"] = json!(port);
    let fake = TelegramFake::start().await.unwrap();
    let (fake, error) = Running::at(fake, &keys).end().await;
    assert!(
        error
            .to_string()
            .contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{error}"
    );
    assert!(
        fake.calls_of("setWebhook").is_empty(),
        "posts that nobody takes are not asked for"
    );
}

#[tokio::test]
async fn idle_connections_block_neither_posts_nor_shutdown() {
    let (running, port) = start().await;
    running
        .fake
        .wait_for_calls("getWebhookInfo", 1)
        .await
        .unwrap();
    let mut strangers = Vec::new();
    for number in 0..1100 {
        let mut stranger = TcpStream::connect(port.address()).await.unwrap();
        if number % 2 == 0 {
            // A connection that was closed already takes nothing.
            drop(
                stranger
                    .write_all(b"POST /telegram HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                    .await,
            );
        }
        strangers.push(stranger);
    }
    let pushed = running.fake.push(Incoming::private(&ann(), "still here?"));
    running.fake.wait_for_acknowledged(pushed).await.unwrap();
    let mut oldest = strangers.remove(0);
    assert_eq!(
        oldest.read(&mut [0]).await.unwrap_or(0),
        0,
        "the oldest lost its place"
    );
    running.stop().await;
}
