//! The window with which a local server runs a model, over fakes of the servers' own endpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nanobot_provider::{Candidate, Generation, ProviderRouter};
use nanobot_providers::ProviderSettings;
use nanobot_testkit::http::{Request, Response, ResponseStep, Server};
use nanobot_testkit::{ModelServer, Reply};
use serde_json::{Value, json};

use super::support::{KEY, candidate, context, hello, quick, settings, words};

/// A path, and the JSON that is served there.
type Routes = Vec<(&'static str, Value)>;

/// A server of documents. It answers every request that no client should send with status 500.
struct Fake {
    server: Server,
    requests: Arc<AtomicUsize>,
}

impl Fake {
    async fn serving(routes: Routes) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let server = Server::start(move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            let response = answer(&routes, &request);
            async move { response }
        });
        let server = server.await.unwrap();
        Self { server, requests }
    }

    fn settings(&self) -> ProviderSettings {
        settings(&format!("{}/v1", self.server.url()))
    }
}

fn answer(routes: &Routes, request: &Request) -> Response {
    let is_shown = request.path() == "/api/show";
    let method = if is_shown { "POST" } else { "GET" };
    let is_valid = request.method == method
        && request.header("authorization") == Some(&format!("Bearer {KEY}"))
        && (!is_shown || request.json() == json!({ "model": "qwen3" }));
    let found = routes.iter().find(|(path, _)| *path == request.path());
    match found {
        Some((_, body)) if is_valid => Response::json(200, body),
        Some(_) => Response::json(500, &json!({})),
        None => Response::json(404, &json!({ "error": "not found" })),
    }
}

async fn tokens(row: &str, settings: &ProviderSettings) -> Option<u32> {
    let candidate = candidate(row, settings, "qwen3");
    let window = candidate.provider.context_window(&candidate.model).await?;
    assert!(!window.advice.is_empty());
    Some(window.tokens)
}

#[tokio::test]
async fn window_is_the_loaded_one_and_never_the_models_own() {
    let loaded = |window: Value| json!({ "models": [{ "name": "other:7b", "model": "other:7b", "context_length": 99_999 }, { "name": "qwen3:latest", "model": "qwen3:latest", "context_length": window }] });
    let none_loaded = || json!({ "models": [] });
    let shown = |parameters: &str| json!({ "parameters": parameters, "model_info": { "general.architecture": "qwen3", "qwen3.context_length": 40_960 } });
    let studio = |entry: Value| json!({ "data": [{ "id": "other", "state": "loaded", "loaded_context_length": 7_777 }, entry] });
    let table: Vec<(&str, Routes, Option<u32>)> = vec![
        (
            "ollama",
            vec![("/api/ps", loaded(json!(4_096)))],
            Some(4_096),
        ),
        (
            "ollama",
            vec![
                ("/api/ps", none_loaded()),
                (
                    "/api/show",
                    shown("stop   \"<|im_end|>\"\nnum_ctx                        8192\n"),
                ),
            ],
            Some(8_192),
        ),
        (
            "ollama",
            vec![
                ("/api/ps", none_loaded()),
                ("/api/show", shown("num_ctx 131072")),
            ],
            Some(40_960),
        ),
        (
            "ollama",
            vec![
                ("/api/ps", none_loaded()),
                ("/api/show", shown("num_gpu 1")),
            ],
            None,
        ),
        (
            "lm_studio",
            vec![(
                "/api/v0/models",
                studio(
                    json!({ "id": "qwen3", "state": "loaded", "max_context_length": 131_072, "loaded_context_length": 8_192 }),
                ),
            )],
            Some(8_192),
        ),
        (
            "lm_studio",
            vec![(
                "/api/v0/models",
                studio(
                    json!({ "id": "qwen3", "state": "not-loaded", "max_context_length": 131_072 }),
                ),
            )],
            None,
        ),
        (
            "vllm",
            vec![(
                "/v1/models",
                json!({ "data": [{ "id": "other", "max_model_len": 1_024 }, { "id": "qwen3", "max_model_len": 32_768 }] }),
            )],
            Some(32_768),
        ),
        (
            "llama_cpp",
            vec![(
                "/props",
                json!({ "default_generation_settings": { "n_ctx": 16_384 }, "total_slots": 2 }),
            )],
            Some(16_384),
        ),
        ("llama_cpp", vec![], None),
    ];
    for (row, routes, expected) in table {
        let routes_text = format!("{routes:?}");
        let fake = Fake::serving(routes).await;
        let found = tokens(row, &fake.settings()).await;
        assert_eq!(found, expected, "{row}: {routes_text}");
    }
}

#[tokio::test]
async fn only_the_rows_of_known_local_servers_are_asked() {
    for row in ["custom", "openai", "openrouter", "atomic_chat", "anthropic"] {
        let fake = Fake::serving(Vec::new()).await;
        assert_eq!(tokens(row, &fake.settings()).await, None, "{row}");
        assert_eq!(fake.requests.load(Ordering::Relaxed), 0, "{row}");
    }
}

#[tokio::test]
async fn an_answer_is_remembered_and_a_model_that_was_not_loaded_is_asked_for_again() {
    let fake = Fake::serving(vec![(
        "/props",
        json!({ "default_generation_settings": { "n_ctx": 4_096 } }),
    )])
    .await;
    let known = candidate("llama_cpp", &fake.settings(), "qwen3");
    for _ in 0..3 {
        let window = known.provider.context_window(&known.model).await.unwrap();
        assert_eq!(window.tokens, 4_096);
    }
    assert_eq!(fake.requests.load(Ordering::Relaxed), 1);

    let calls = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |request| {
        let is_list = request.path() == "/api/ps";
        let is_loaded = is_list && calls.fetch_add(1, Ordering::Relaxed) > 0;
        let models = match is_loaded {
            true => json!([{ "model": "qwen3:latest", "context_length": 2_048 }]),
            false => json!([]),
        };
        async move { Response::json(200, &json!({ "models": models })) }
    });
    let server = server.await.unwrap();
    let later = candidate("ollama", &settings(&server.url()), "qwen3");
    let ask = || later.provider.context_window(&later.model);
    assert_eq!(ask().await, None);
    assert_eq!(ask().await.map(|window| window.tokens), Some(2_048));
}

#[tokio::test]
async fn absurd_answers_leave_the_window_unknown() {
    let numbers = [
        json!(0),
        json!(-1),
        json!(1e18),
        json!(1_000_000_000_000_000_000_u64),
        json!("4096"),
        json!(null),
        json!([4096]),
    ];
    for number in numbers {
        let routes = vec![
            (
                "/api/ps",
                json!({ "models": [{ "model": "qwen3", "context_length": number }] }),
            ),
            ("/api/show", json!({ "parameters": "num_ctx -1" })),
            (
                "/api/v0/models",
                json!({ "data": [{ "id": "qwen3", "loaded_context_length": number }] }),
            ),
            (
                "/v1/models",
                json!({ "data": [{ "id": "qwen3", "max_model_len": number }] }),
            ),
            (
                "/props",
                json!({ "default_generation_settings": { "n_ctx": number } }),
            ),
        ];
        let fake = Fake::serving(routes).await;
        for row in ["ollama", "lm_studio", "vllm", "llama_cpp"] {
            let found = tokens(row, &fake.settings()).await;
            assert_eq!(found, None, "{row}: {number}");
        }
    }
}

#[tokio::test]
async fn pages_huge_bodies_and_broken_connections_leave_the_window_unknown() {
    let page = || {
        Response::bytes(
            200,
            "text/html",
            "<html><body>Welcome to nginx!</body></html>",
        )
    };
    let huge = || {
        let chunk = ResponseStep::text("[".repeat(1 << 20));
        Response::chunked(200, "application/json", vec![chunk; 10])
    };
    let broken = || {
        let steps = vec![ResponseStep::text("{\"models\": ["), ResponseStep::Reset];
        Response::chunked(200, "application/json", steps)
    };
    let answers: [fn() -> Response; 3] = [page, huge, broken];
    for (index, response) in answers.into_iter().enumerate() {
        let server = Server::start(move |_| async move { response() })
            .await
            .unwrap();
        for row in ["ollama", "lm_studio", "vllm", "llama_cpp"] {
            let found = tokens(row, &settings(&server.url())).await;
            assert_eq!(found, None, "{row}: {index}");
        }
    }
}

#[tokio::test]
async fn a_silent_server_is_given_up_and_left_alone() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    let server = Server::start(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::pending::<Response>()
    });
    let server = server.await.unwrap();
    let silent = candidate("llama_cpp", &settings(&server.url()), "qwen3");
    for _ in 0..3 {
        assert_eq!(silent.provider.context_window(&silent.model).await, None);
    }
    assert_eq!(requests.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn local_rows_get_only_the_standard_members_of_a_request() {
    let standard = [
        "max_tokens",
        "messages",
        "model",
        "stream",
        "stream_options",
        "tool_choice",
        "tools",
    ];
    for row in ["ollama", "lm_studio", "vllm", "llama_cpp"] {
        let body = body_of_request(row, json!({})).await;
        let mut members: Vec<_> = body.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(members, standard, "{row}");
        assert_eq!(body["max_tokens"], json!(8_192), "{row}");
        let usage = json!({ "include_usage": true });
        assert_eq!(body["stream_options"], usage, "{row}");
    }
}

/// A server refuses an answer of 8,192 tokens in a window of 4,096, or drops the prompt for it.
#[tokio::test]
async fn an_answer_is_limited_to_half_of_a_known_window() {
    let list = json!({ "data": [{ "id": "qwen3", "max_model_len": 4_096 }] });
    let body = body_of_request("vllm", list).await;
    assert_eq!(body["max_tokens"], json!(2_048));
}

/// Returns the body of a request to a server with this list of models, after its window was asked
/// for. The configuration sets no temperature.
async fn body_of_request(row: &str, list: Value) -> Value {
    let server = ModelServer::scripted([Reply::text("ok")]).await.unwrap();
    server.serve("/v1/models", list);
    let candidate = Candidate {
        generation: Generation {
            temperature: None,
            ..Generation::default()
        },
        ..candidate(row, &settings(&server.base_url()), "qwen3")
    };
    let router = ProviderRouter::new([candidate], quick());
    router.context_window(&"".into()).await;
    let response = router.chat_with_failover(hello(), &context()).await;
    assert_eq!(words(&response), "ok", "{row}: {response:?}");
    server.requests()[0].json.clone()
}
