//! Checks that scripted faults reach the client as faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nanobot_testkit::http::{Response, ResponseStep, Server};
use nanobot_testkit::{Gate, ModelServer, Reply};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::client;

fn request(server: &ModelServer, stream: bool) -> reqwest::RequestBuilder {
    let body =
        json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hi"}]});
    client()
        .post(format!("{}/chat/completions", server.base_url()))
        .json(&body)
}

#[tokio::test]
async fn aborted_answers_end_in_a_transport_error() {
    for stream in [true, false] {
        let server = ModelServer::scripted([Reply::text("hello").then_cut()])
            .await
            .unwrap();
        let answer = request(&server, stream).send().await;
        let body = match answer {
            Ok(answer) => answer.bytes().await.map(|_| ()),
            Err(error) => Err(error),
        };
        assert!(body.is_err(), "stream: {stream}");
    }
}

#[tokio::test]
async fn a_hang_lasts_until_the_client_leaves() {
    let server = ModelServer::scripted([Reply::hang()]).await.unwrap();
    tokio::select! {
        answer = request(&server, true).send() => panic!("{answer:?}"),
        requests = server.wait_for(1) => assert!(requests.is_ok()),
    }
    server.server().wait_for_abandoned(1).await.unwrap();
}

#[tokio::test]
async fn a_stall_comes_after_the_content() {
    let replies = [Reply::text("a").then_stall(), Reply::text("a").then_stall()];
    let server = ModelServer::scripted(replies).await.unwrap();
    for (count, stream) in [(1, true), (2, false)] {
        let mut answer = request(&server, stream).send().await.unwrap();
        assert!(answer.chunk().await.unwrap().is_some());
        let rest = async { while answer.chunk().await.unwrap().is_some() {} };
        assert!(
            tokio::time::timeout(Duration::from_millis(100), rest)
                .await
                .is_err(),
            "stream: {stream}"
        );
        drop(answer);
        server.server().wait_for_abandoned(count).await.unwrap();
    }
}

#[tokio::test]
async fn an_error_in_the_stream_has_the_vendors_shape() {
    let reply = Reply::text("par").then_fail("overloaded_error", "too much");
    let server = ModelServer::scripted([reply]).await.unwrap();
    let mut answer = request(&server, true).send().await.unwrap();
    let mut seen = String::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    let last = seen
        .trim_end()
        .lines()
        .last()
        .unwrap()
        .strip_prefix("data: ")
        .unwrap();
    let expected = json!({"error": {"message": "too much", "type": "overloaded_error", "param": null, "code": null}});
    assert_eq!(serde_json::from_str::<Value>(last).unwrap(), expected);
}

#[tokio::test]
async fn statuses_carry_headers_and_bodies() {
    let replies = [
        Reply::error(429, "slow down").with_header("retry-after", "2"),
        Reply::error_code(429, "insufficient_quota", "pay"),
        Reply::status(502, "text/html", "<h1>Bad</h1>"),
    ];
    let server = ModelServer::scripted(replies).await.unwrap();
    let answer = request(&server, true).send().await.unwrap();
    assert_eq!(answer.headers().get("retry-after").unwrap(), "2");
    assert_eq!(
        answer.json::<Value>().await.unwrap()["error"]["code"],
        "rate_limit_exceeded"
    );
    let answer = request(&server, true).send().await.unwrap();
    assert_eq!(
        answer.json::<Value>().await.unwrap()["error"]["type"],
        "insufficient_quota"
    );
    assert_eq!(
        request(&server, true)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap(),
        "<h1>Bad</h1>"
    );
}

#[tokio::test]
async fn gate_delays_the_rest_of_a_stream() {
    let gate = Gate::new();
    let server = ModelServer::scripted([Reply::deltas(["first", "second"]).holding(&gate)])
        .await
        .unwrap();
    let mut answer = request(&server, true).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("first") {
        seen.push_str(&String::from_utf8_lossy(
            &answer.chunk().await.unwrap().unwrap(),
        ));
    }
    gate.open();
    assert!(!seen.contains("second"), "{seen}");
    while let Some(chunk) = answer.chunk().await.unwrap() {
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(seen.contains("second"), "{seen}");
}

#[tokio::test]
async fn delays_are_applied() {
    let reply = Reply::deltas(["a", "b", "c"]).with_delay(Duration::from_millis(30));
    let server = ModelServer::scripted([reply]).await.unwrap();
    let begun = Instant::now();
    request(&server, true)
        .send()
        .await
        .unwrap()
        .bytes()
        .await
        .unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(90));
}

#[tokio::test]
async fn exhausted_script_is_a_violation() {
    let server = ModelServer::scripted([]).await.unwrap();
    assert_eq!(request(&server, true).send().await.unwrap().status(), 500);
    assert_eq!(
        server.violations(),
        ["request 1: the script has no reply left"]
    );
}

#[tokio::test]
async fn connections_are_reused_and_chunked_requests_read() {
    let server =
        Server::start(|request| async move { Response::bytes(200, "text/plain", request.body) })
            .await
            .unwrap();
    let client = client();
    for size in [0_usize, 1, 70_000] {
        let body = reqwest::Body::wrap_stream(futures_util::stream::iter([
            Ok::<_, std::io::Error>("x".repeat(size)),
            Ok("end".to_owned()),
        ]));
        let answer = client
            .post(server.url())
            .body(body)
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert_eq!(answer, format!("{}end", "x".repeat(size)));
    }
}

#[tokio::test]
async fn request_of_a_closed_connection_is_handled() {
    let taken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&taken);
    let server = Server::start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Response::bytes(200, "text/plain", "ok") }
    })
    .await
    .unwrap();
    for said in 1..50 {
        let mut client = TcpStream::connect(server.address()).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        drop(client);
        server.settled().await.unwrap();
        assert_eq!(taken.load(Ordering::SeqCst), said);
    }
}

#[tokio::test]
async fn shutdown_ends_open_connections() {
    let arrived = Arc::new(Notify::new());
    let seen = Arc::clone(&arrived);
    let server = Server::start(move |_| {
        seen.notify_one();
        async { Response::headless(vec![ResponseStep::Hang]) }
    })
    .await
    .unwrap();
    let (answer, ()) = tokio::join!(client().get(server.url()).send(), async {
        arrived.notified().await;
        server.shutdown().await;
    });
    assert!(answer.is_err());
}
