//! Answers that a well-behaved server does not give, and the way to the server.

use std::sync::{Arc, Mutex};

use nanobot_channel::{Channel, ChannelFactory as _, DeliveryContext, InboundMessage, RawConfig, SendRecovery, Value};
use nanobot_channel_telegram::TelegramFactory;
use nanobot_testkit::http::{Request, Response, Server};
use nanobot_testkit::telegram::TOKEN;
use serde_json::json;

use crate::support::reply;

/// A server that answers with `answer`, and what it was asked.
async fn server(answer: impl Fn(&Request) -> Response + Send + Sync + 'static) -> (Server, Arc<Mutex<Vec<Request>>>) {
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
    let config = RawConfig { proxy, ..RawConfig::new(section) };
    TelegramFactory.create("telegram".into(), &config).unwrap()
}

#[tokio::test]
async fn a_proxy_of_its_own_comes_before_the_one_of_all() {
    let (proxy, asked) = server(|_| Response::json(200, &json!({"ok": true, "result": true}))).await;
    let nowhere = "http://127.0.0.1:9".to_owned();
    for (own, shared) in [(json!(proxy.url()), Some(nowhere)), (json!(null), Some(proxy.url()))] {
        // The name resolves nowhere: only the proxy can deal with it.
        let section = json!({"token": TOKEN, "apiBase": "http://telegram.invalid/base/", "proxy": own});
        let channel = create(section, shared);
        channel.typing().unwrap().show(&"1".into(), &DeliveryContext::default()).await.unwrap();
    }
    let targets: Vec<_> = asked.lock().unwrap().iter().map(|request| request.target.clone()).collect();
    let target = format!("http://telegram.invalid/base/bot{TOKEN}/SendChatAction");
    assert_eq!(targets, [target.clone(), target]);
}

#[tokio::test]
async fn a_message_follows_a_group_that_became_a_supergroup() {
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
async fn what_is_no_answer_of_the_bot_api_is_no_success() {
    let html = |status| move |_: &Request| Response::bytes(status, "text/html", "<h1>Please log in</h1>");
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
async fn a_message_that_telegram_took_is_taken_whatever_it_says_about_it() {
    let (server, _) = server(|_| Response::json(200, &json!({"ok": true, "result": {"unheard": "of"}}))).await;
    let channel = create(json!({"token": TOKEN, "apiBase": server.url()}), None);
    let inbound = InboundMessage::text("telegram", "7", "7", "hi");
    assert_eq!(channel.send(&reply(&inbound, "hello")).await.unwrap().message_id, None);
}
