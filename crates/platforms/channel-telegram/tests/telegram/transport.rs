//! Unexpected answers, and proxies.

use std::sync::{Arc, Mutex};

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory as _, DeliveryContext, InboundMessage, RawConfig,
    SendRecovery, Value,
};
use nanobot_channel_telegram::TelegramFactory;
use nanobot_channel_telegram_fake::{Fault, FileKind, Incoming, TOKEN, TelegramFake};
use nanobot_testkit::Proxy;
use nanobot_testkit::http::{Request, Response, Server};
use serde_json::json;

use crate::support::{Running, ann, reply};

/// A server that answers with `answer`, and what it was asked.
async fn server(
    answer: impl Fn(&Request) -> Response + Send + Sync + 'static,
) -> (Server, Arc<Mutex<Vec<Request>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&asked);
    let server = Server::start(move |request| {
        let response = answer(&request);
        record.lock().unwrap().push(request);
        async { response }
    });
    (server.await.unwrap(), asked)
}

fn create(section: Value, proxy: Option<String>) -> Arc<dyn Channel> {
    let config = RawConfig {
        proxy,
        ..RawConfig::new(section)
    };
    TelegramFactory::new()
        .create("telegram".into(), &config)
        .unwrap()
}

#[tokio::test]
async fn own_proxy_overrides_the_shared_one() {
    let (proxy, asked) =
        server(|_| Response::json(200, &json!({"ok": true, "result": true}))).await;
    let nowhere = "http://127.0.0.1:9".to_owned();
    for (own, shared) in [
        (json!(proxy.url()), Some(nowhere)),
        (json!(null), Some(proxy.url())),
    ] {
        // The name resolves nowhere: only the proxy can deal with it.
        let section =
            json!({"token": TOKEN, "apiBase": "http://telegram.invalid/base/", "proxy": own});
        let channel = create(section, shared);
        channel
            .typing()
            .unwrap()
            .show(&"1".into(), &DeliveryContext::default())
            .await
            .unwrap();
    }
    let targets: Vec<_> = asked
        .lock()
        .unwrap()
        .iter()
        .map(|request| request.target.clone())
        .collect();
    let target = format!("http://telegram.invalid/base/bot{TOKEN}/SendChatAction");
    assert_eq!(targets, [target.clone(), target]);
}

#[tokio::test]
async fn every_proxy_kind_reaches_the_server() {
    let fake = TelegramFake::start().await.unwrap();
    let target = fake.server().address();
    let open = Proxy::start(target).await.unwrap();
    let closed = Proxy::with_password(target, "ann", "s3cret").await.unwrap();
    let table = [
        (
            format!("http://{}", open.address()),
            "http://telegram.invalid",
            Ok("telegram.invalid"),
        ),
        (
            format!("socks5h://{}", open.address()),
            "http://telegram.invalid",
            Ok("telegram.invalid:80"),
        ),
        // Without the h the name is looked up here, so this one is an address.
        (
            format!("socks5://{}", open.address()),
            "http://192.0.2.1:81",
            Ok("192.0.2.1:81"),
        ),
        (
            format!("http://ann:s3cret@{}", closed.address()),
            "http://telegram.invalid",
            Ok("telegram.invalid"),
        ),
        (
            format!("socks5h://ann:s3cret@{}", closed.address()),
            "http://telegram.invalid",
            Ok("telegram.invalid:80"),
        ),
        (
            format!("http://ann:wr0ng@{}", closed.address()),
            "http://telegram.invalid",
            Err(()),
        ),
        (
            format!("socks5h://ann:wr0ng@{}", closed.address()),
            "http://telegram.invalid",
            Err(()),
        ),
    ];
    for (proxy, base, expected) in table {
        let before = (open.asked().len(), closed.asked().len());
        let channel = create(
            json!({"token": TOKEN, "apiBase": base, "proxy": proxy}),
            None,
        );
        let probed = channel.probe().unwrap().probe().await;
        let asked: Vec<_> = open
            .asked()
            .split_off(before.0)
            .into_iter()
            .chain(closed.asked().split_off(before.1))
            .collect();
        match expected {
            Ok(host) => {
                assert_eq!(probed.unwrap(), "@nanobot_test_bot", "{proxy}");
                assert_eq!(asked, [host], "{proxy}");
            }
            Err(()) => {
                let error = probed.unwrap_err();
                let text = format!("{error} {error:?}");
                assert!(!text.contains("wr0ng") && !text.contains(TOKEN), "{text}");
                assert!(matches!(error, ChannelError::Unavailable(_)), "{error}");
                assert!(asked.is_empty(), "{proxy}");
            }
        }
    }
}

#[tokio::test]
async fn connection_pool_is_limited_with_a_timeout() {
    let fake = TelegramFake::start().await.unwrap();
    let section = json!({"token": TOKEN, "apiBase": fake.api_base(), "connectionPoolSize": 1, "poolTimeout": 0});
    let channel = create(section, None);
    fake.fail_next("getMe", Fault::Hang);
    let hanging = channel.probe().unwrap();
    let mut first = hanging.probe();
    tokio::select! {
        outcome = &mut first => panic!("it hangs: {outcome:?}"),
        calls = fake.wait_for_calls("getMe", 1) => drop(calls.unwrap()),
    }
    let error = channel.probe().unwrap().probe().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the platform cannot be reached: all 1 connections are in use"
    );
    drop(first);
    assert_eq!(
        channel.probe().unwrap().probe().await.unwrap(),
        "@nanobot_test_bot"
    );
}

#[tokio::test]
async fn local_bot_api_file_is_read_from_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file_1.txt");
    std::fs::write(&path, "notes").unwrap();
    let running = Running::start(json!({})).await;
    let stored = json!({"file_id": "f", "file_unique_id": "u", "file_size": 5, "file_path": path});
    running.fake.fail_next("getFile", Fault::Result(stored));
    running
        .fake
        .push(Incoming::private(&ann(), "see").with_file(
            FileKind::Document,
            "a.txt",
            "text/plain",
            "other",
        ));
    assert_eq!(
        running.assistant.message(1).await.unwrap().content,
        "see\n[file: /media/a.txt]"
    );
    assert_eq!(running.assistant.seen().kept[0].bytes, b"notes");
    running.stop().await;
}

#[tokio::test]
async fn send_follows_a_migrated_group() {
    let (server, asked) = server(|request| {
        if request.json()["chat_id"] == json!(-42) {
            let description = "Bad Request: group chat was upgraded to a supergroup chat";
            let parameters = json!({"migrate_to_chat_id": -1_000_000_000_042_i64});
            let refusal = json!({"ok": false, "error_code": 400, "description": description, "parameters": parameters});
            return Response::json(400, &refusal);
        }
        Response::json(200, &json!({"ok": true, "result": {"message_id": 3}}))
    })
    .await;
    let channel = create(json!({"token": TOKEN, "apiBase": server.url()}), None);
    let mut inbound = InboundMessage::text("telegram", "7", "-42", "hi");
    inbound.delivery.thread = Some("5".to_owned());
    let sent = channel.send(&reply(&inbound, "hello")).await.unwrap();
    assert_eq!(sent.message_id, Some("3".into()));
    let bodies: Vec<_> = asked.lock().unwrap().iter().map(Request::json).collect();
    let body = |chat: i64| json!({"chat_id": chat, "text": "hello", "parse_mode": "HTML"});
    let mut first = body(-42);
    first["message_thread_id"] = json!(5);
    assert_eq!(bodies, [first, body(-1_000_000_000_042)]);
}

#[tokio::test]
async fn foreign_answers_are_not_success() {
    let html =
        |status| move |_: &Request| Response::bytes(status, "text/html", "<h1>Please log in</h1>");
    let inbound = InboundMessage::text("telegram", "7", "7", "hi");
    let later = SendRecovery::Retry { after: None };
    let table = [
        (200, SendRecovery::Uncertain),
        (302, later),
        (401, later),
        (403, later),
        (413, SendRecovery::GiveUp),
        (502, later),
    ];
    for (status, recovery) in table {
        let (server, _) = server(html(status)).await;
        let channel = create(json!({"token": TOKEN, "apiBase": server.url()}), None);
        let error = channel.send(&reply(&inbound, "hello")).await.unwrap_err();
        assert_eq!(error.recovery(), recovery, "{status}: {error}");
    }
}

#[tokio::test]
async fn unknown_result_fields_still_count_as_sent() {
    let (server, _) =
        server(|_| Response::json(200, &json!({"ok": true, "result": {"unheard": "of"}}))).await;
    let channel = create(json!({"token": TOKEN, "apiBase": server.url()}), None);
    let inbound = InboundMessage::text("telegram", "7", "7", "hi");
    assert_eq!(
        channel
            .send(&reply(&inbound, "hello"))
            .await
            .unwrap()
            .message_id,
        None
    );
}
