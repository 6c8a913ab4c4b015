//! Unexpected answers, and proxies.

use std::sync::{Arc, Mutex};

use nanobot_channel::{
    Channel, ChannelFactory as _, InboundMessage, RawConfig, SendRecovery, Value,
};
use nanobot_channel_slack::SlackFactory;
use nanobot_channel_slack_fake::{APP_TOKEN, BOT_TOKEN};
use nanobot_testkit::http::{Request, Response, Server};
use serde_json::json;

use crate::support::reply;

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

fn create(base: &str, own_proxy: &Value, proxy: Option<String>) -> Arc<dyn Channel> {
    let section =
        json!({"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiBase": base, "proxy": own_proxy});
    let config = RawConfig {
        proxy,
        ..RawConfig::new(section)
    };
    SlackFactory::new().create("slack".into(), &config).unwrap()
}

#[tokio::test]
async fn own_proxy_overrides_the_shared_one() {
    let me = json!({"ok": true, "user_id": "U0BOT", "user": "nano", "team": "Test", "added": "tomorrow"});
    let (proxy, asked) = server(move |_| Response::json(200, &me)).await;
    let nowhere = "http://127.0.0.1:9".to_owned();
    for (own, shared) in [
        (json!(proxy.url()), Some(nowhere)),
        (json!(null), Some(proxy.url())),
    ] {
        // The name resolves nowhere: only the proxy can deal with it.
        let channel = create("http://slack.invalid/base/", &own, shared);
        assert_eq!(
            channel.probe().unwrap().probe().await.unwrap(),
            "@nano in Test"
        );
    }
    let targets: Vec<_> = asked
        .lock()
        .unwrap()
        .iter()
        .map(|request| request.target.clone())
        .collect();
    assert_eq!(targets, ["http://slack.invalid/base/auth.test"; 2]);
}

#[tokio::test]
async fn foreign_answers_are_not_success() {
    let inbound = InboundMessage::text("slack", "U1", "C1", "hi");
    for status in [302, 401, 403, 502] {
        let (server, _) =
            server(move |_| Response::bytes(status, "text/html", "<h1>Please log in</h1>")).await;
        let channel = create(&server.url(), &json!(null), None);
        let error = channel.send(&reply(&inbound, "hello")).await.unwrap_err();
        assert_eq!(
            error.recovery(),
            SendRecovery::Retry { after: None },
            "{status}: {error}"
        );
    }
    let (server, _) = server(|_| Response::bytes(200, "text/html", "<h1>Please log in</h1>")).await;
    let error = create(&server.url(), &json!(null), None)
        .probe()
        .unwrap()
        .probe()
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the answer cannot be understood"),
        "{error}"
    );
}

#[tokio::test]
async fn unknown_result_fields_still_count_as_sent() {
    let (server, asked) =
        server(|_| Response::json(200, &json!({"ok": true, "message": {"unheard": "of"}}))).await;
    let channel = create(&server.url(), &json!(null), None);
    let inbound = InboundMessage::text("slack", "U1", "C1", "hi");
    assert_eq!(
        channel
            .send(&reply(&inbound, "hello"))
            .await
            .unwrap()
            .message_id,
        None
    );
    let asked = asked.lock().unwrap();
    let metadata = json!({"event_type": "nanobot_part", "event_payload": {"key": "turn/0/0/0"}});
    assert_eq!(
        asked[0].json(),
        json!({"channel": "C1", "text": "hello", "metadata": metadata})
    );
    assert_eq!(
        asked[0].header("authorization"),
        Some(format!("Bearer {BOT_TOKEN}").as_str())
    );
}

#[tokio::test]
async fn invalid_configuration_is_rejected_before_connecting() {
    let table = [
        (
            json!({"apiBase": "slack"}),
            "apiBase: is no address; write one like https://slack.com/api",
        ),
        (
            json!({"proxy": "http://me:s3cret@"}),
            "proxy: is no address of a proxy; write one like http://host:3128 or socks5://host:1080, or \"\" for none",
        ),
    ];
    for (keys, text) in table {
        let mut section = json!({"bot_token": BOT_TOKEN, "app_token": APP_TOKEN});
        section
            .as_object_mut()
            .unwrap()
            .extend(keys.as_object().unwrap().clone());
        let error = SlackFactory::new()
            .create("slack".into(), &RawConfig::new(section))
            .unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}
