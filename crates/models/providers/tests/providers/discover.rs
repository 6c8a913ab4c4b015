//! Finding a model server on this machine.

use std::time::Duration;

use nanobot_providers::{LocalServer, discover_within};
use nanobot_testkit::ModelServer;
use nanobot_testkit::http::{Response, Server};
use serde_json::json;

use super::support::clients;

/// Time limit for servers that respond, enough for a busy machine. A silent server is waited for as
/// long.
const PATIENCE: Duration = Duration::from_secs(12);
/// Time limit where no server is found, which is always waited out.
const SHORT: Duration = Duration::from_millis(300);

#[tokio::test]
async fn picks_the_first_port_that_answers_like_a_model_server() {
    let page = Server::start(|_| async { Response::json(200, &json!({ "hello": "world" })) })
        .await
        .unwrap();
    let embedder = Server::start(|_| async {
        Response::json(200, &json!({ "object": "list", "data": [{ "id": "nomic-embed-text" }, { "id": "llama3" }] }))
    })
    .await
    .unwrap();
    let silent = Server::start(|_| std::future::pending::<Response>())
        .await
        .unwrap();
    let scripted = ModelServer::scripted([]).await.unwrap();
    let ports = [
        ("silent", silent.address().port()),
        ("page", page.address().port()),
        ("ollama", embedder.address().port()),
        ("vllm", scripted.server().address().port()),
    ];
    let found = discover_within(&ports, &clients(), PATIENCE).await;
    let api_base = format!("{}/v1", embedder.url());
    assert_eq!(
        found,
        Some(LocalServer {
            provider: "ollama".into(),
            api_base,
            model: "llama3".into()
        })
    );
    assert_eq!(discover_within(&ports[..2], &clients(), SHORT).await, None);
}
