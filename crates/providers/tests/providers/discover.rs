//! Finding a model server on this machine.

use nanobot_providers::{Found, discover_local};
use nanobot_testkit::ModelServer;
use nanobot_testkit::http::{Response, Server};
use serde_json::json;

use super::support::clients;

#[tokio::test]
async fn the_first_that_answers_like_a_model_server_is_taken() {
    let page = Server::start(|_| async { Response::json(200, &json!({ "hello": "world" })) }).await.unwrap();
    let embedder = Server::start(|_| async {
        Response::json(200, &json!({ "object": "list", "data": [{ "id": "nomic-embed-text" }, { "id": "llama3" }] }))
    })
    .await
    .unwrap();
    let silent = Server::start(|_| std::future::pending::<Response>()).await.unwrap();
    let scripted = ModelServer::scripted([]).await.unwrap();
    let ports = [
        ("silent", silent.address().port()),
        ("page", page.address().port()),
        ("ollama", embedder.address().port()),
        ("vllm", scripted.server().address().port()),
    ];
    let found = discover_local(&ports, &clients()).await;
    let api_base = format!("{}/v1", embedder.url());
    assert_eq!(found, Some(Found { provider: "ollama".into(), api_base, model: "llama3".into() }));
    assert_eq!(discover_local(&ports[..2], &clients()).await, None);
}
