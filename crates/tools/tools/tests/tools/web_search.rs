//! `web_search` against strict fakes of the providers on this machine.

use std::sync::{Arc, Mutex};

use axum::{
    Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{any, get},
};
use nanobot_tools::ToolsConfig;
use serde_json::{Value, json};

use crate::web::{Server, call, moved, registry, search, typed};

/// The requests of providers: method and path with query, credential, body.
type Log = Arc<Mutex<Vec<(String, String, Value)>>>;

/// Headers that carry a credential.
const CREDENTIALS: [&str; 3] = ["authorization", "x-subscription-token", "x-api-key"];

/// Serves all providers, and logs their requests.
fn engines(log: &Log) -> Router {
    let answer = async |State(log): State<Log>, request: Request| {
        let (parts, body) = request.into_parts();
        let asked = format!("{} {}", parts.method, parts.uri);
        let credentials = CREDENTIALS.iter().filter_map(|name| {
            let value = parts.headers.get(*name)?;
            Some(format!("{name}: {}", value.to_str().unwrap()))
        });
        let credentials: Vec<String> = credentials.collect();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        log.lock()
            .unwrap()
            .push((asked, credentials.join(", "), body));
        answer(parts.uri.path(), parts.uri.query().unwrap_or_default())
    };
    Router::new()
        .fallback(any(answer))
        .with_state(Arc::clone(log))
}

fn answer(path: &str, query: &str) -> Response {
    if query.contains("nothing") {
        return axum::Json(json!({})).into_response();
    }
    let hits = |title: &str, url: &str, snippet: &str| {
        let hit = |number: u32| json!({title: format!("<b>T{number}</b>"), url: format!("https://e.example/{number}"), snippet: "d &amp;\n\u{200b}e"});
        json!([hit(1), hit(2), hit(3)])
    };
    let usual = |snippet: &str| hits("title", "url", snippet);
    axum::Json(match path {
        "/brave" => json!({"web": {"results": usual("description")}}),
        "/tavily" | "/search" => json!({"results": usual("content")}),
        "/jina" => json!({"data": [{"title": "T", "url": "https://e.example/", "content": "c".repeat(600)}]}),
        "/kagi" => {
            let mut list = usual("snippet");
            for hit in list.as_array_mut().unwrap() {
                hit["t"] = json!(0);
            }
            list.as_array_mut().unwrap().insert(0, json!({"t": 1, "list": ["related"]}));
            json!({"meta": {"id": "x"}, "data": list})
        }
        "/exa" => json!({"results": usual("text")}),
        "/olostep" => json!({"result": {"links": usual("description")}}),
        "/bocha" => json!({"code": 200, "data": {"webPages": {"value": hits("name", "url", "summary")}}}),
        "/volcengine" => json!({"Result": {"WebResults": hits("Title", "Url", "Snippet")}}),
        "/keenable" => json!({"results": usual("snippet")}),
        "/serper" => json!({"organic": hits("title", "link", "snippet")}),
        "/ddg" => {
            return typed(
                "text/html",
                r#"<a class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fd.example%2F">D</a>"#,
            );
        }
        _ => return StatusCode::NOT_FOUND.into_response(),
    })
    .into_response()
}

pub(crate) fn searching(server: &Server, provider: &str, key: &str) -> ToolsConfig {
    let mut config = ToolsConfig::default();
    config.web.search.provider = provider.to_owned();
    config.web.search.api_key = key.into();
    let urls = &mut config.web.search.endpoints;
    for (endpoint, path) in [
        (&mut urls.brave, "/brave"),
        (&mut urls.tavily, "/tavily"),
        (&mut urls.jina, "/jina"),
        (&mut urls.duckduckgo, "/ddg"),
        (&mut urls.kagi, "/kagi"),
        (&mut urls.exa, "/exa"),
        (&mut urls.olostep, "/olostep"),
        (&mut urls.bocha, "/bocha"),
        (&mut urls.volcengine, "/volcengine"),
        (&mut urls.keenable, "/keenable"),
        (&mut urls.serper, "/serper"),
    ] {
        *endpoint = server.url(path);
    }
    config
}

const TWO: &str = "Results for: tea\n\n1. T1\n   https://e.example/1\n   d & e\n2. T2\n   https://e.example/2\n   d & e";
const DDG: &str = "Results for: tea\n\n1. D\n   https://d.example/";

/// A provider with its key, the answer, and the request that it has to get.
type Case = (&'static str, &'static str, String, (String, String, Value));

fn by_get(path: &str, credential: &str) -> (String, String, Value) {
    (format!("GET {path}"), credential.to_owned(), Value::Null)
}

fn by_post(path: &str, credential: &str, body: Value) -> (String, String, Value) {
    (format!("POST {path}"), credential.to_owned(), body)
}

fn cases() -> Vec<Case> {
    let long = format!(
        "Results for: tea\n\n1. T\n   https://e.example/\n   {}",
        "c".repeat(500)
    );
    let bearer = "authorization: Bearer k";
    let cases = [
        (
            "brave",
            "k",
            TWO,
            by_get("/brave?q=tea&count=2", "x-subscription-token: k"),
        ),
        (
            "",
            " k\n",
            TWO,
            by_get("/brave?q=tea&count=2", "x-subscription-token: k"),
        ),
        (
            "tavily",
            "k",
            TWO,
            by_post("/tavily", bearer, json!({"query": "tea", "max_results": 2})),
        ),
        ("jina", "k", long.as_str(), by_get("/jina?q=tea", bearer)),
        (
            "kagi",
            "k",
            TWO,
            by_get("/kagi?q=tea&limit=2", "authorization: Bot k"),
        ),
        (
            "exa",
            "k",
            TWO,
            by_post(
                "/exa",
                "x-api-key: k",
                json!({"query": "tea", "type": "auto", "numResults": 2, "contents": {"text": {"maxCharacters": 500}}}),
            ),
        ),
        (
            "olostep",
            "k",
            TWO,
            by_post("/olostep", bearer, json!({"query": "tea"})),
        ),
        (
            "bocha",
            "k",
            TWO,
            by_post(
                "/bocha",
                bearer,
                json!({"query": "tea", "summary": true, "count": 2}),
            ),
        ),
        (
            "volcengine",
            "k",
            TWO,
            by_post(
                "/volcengine",
                bearer,
                json!({"Query": "tea", "SearchType": "web", "Count": 2, "NeedSummary": true}),
            ),
        ),
        (
            "keenable",
            "k",
            TWO,
            by_post(
                "/keenable",
                "x-api-key: k",
                json!({"query": "tea", "max_results": 2}),
            ),
        ),
        (
            "Serper",
            "k",
            TWO,
            by_post("/serper", "x-api-key: k", json!({"q": "tea", "num": 2})),
        ),
        ("DuckDuckGo", "", DDG, by_get("/ddg?q=tea", "")),
        ("brave", "", DDG, by_get("/ddg?q=tea", "")),
        ("kagi", "", DDG, by_get("/ddg?q=tea", "")),
        ("searxng", "", DDG, by_get("/ddg?q=tea", "")),
    ];
    cases
        .into_iter()
        .map(|(provider, key, expected, asked)| (provider, key, expected.to_owned(), asked))
        .collect()
}

#[tokio::test]
async fn each_search_provider_gets_its_own_request_format() {
    let log = Log::default();
    let server = Server::start(engines(&log)).await;
    for (provider, key, expected, asked) in cases() {
        let config = searching(&server, provider, key);
        let answer = search(&config, json!({"query": "tea", "count": 2})).await;
        assert_eq!(answer, expected, "{provider}");
        assert_eq!(log.lock().unwrap().pop().unwrap(), asked, "{provider}");
    }
    let mut config = searching(&server, "searxng", "");
    config.web.search.base_url = format!("{}/", server.base);
    let answer = search(&config, json!({"query": "tea", "count": 2})).await;
    assert_eq!(answer, TWO);
    let asked = by_get("/search?q=tea&format=json", "");
    assert_eq!(log.lock().unwrap().pop().unwrap(), asked);
    let config = searching(&server, "brave", "k");
    let none = search(&config, json!({"query": "nothing"})).await;
    assert_eq!(none, "No results for: nothing");
}

#[tokio::test]
async fn repeated_searches_are_answered_from_memory() {
    let log = Log::default();
    let server = Server::start(engines(&log)).await;
    let mut config = searching(&server, "brave", "k");
    let tools = registry(&config, config.url_guard().unwrap());
    for (arguments, is_cached, requests) in [
        (json!({"query": "tea", "count": 2}), false, 1),
        (json!({"query": " tea ", "count": 2}), true, 1),
        (json!({"query": "tea", "count": 3}), false, 2),
        (json!({"query": "nothing"}), false, 3),
        (json!({"query": "nothing"}), false, 4),
    ] {
        let answer = call(&tools, "web_search", arguments).await;
        assert_eq!(
            answer.ends_with("\n\n(Cached, 0 minutes old.)"),
            is_cached,
            "{answer}"
        );
        assert_eq!(log.lock().unwrap().len(), requests);
    }
    config.web.search.cache_minutes = 0;
    let tools = registry(&config, config.url_guard().unwrap());
    for requests in [5, 6] {
        call(&tools, "web_search", json!({"query": "tea"})).await;
        assert_eq!(log.lock().unwrap().len(), requests);
    }
}

#[tokio::test]
async fn failed_search_explains_without_the_key() {
    let page = "<div class=\"anomaly-modal__title\">Select all ducks</div>";
    let routes = Router::new().route(
        "/ddg",
        get(async move || (StatusCode::ACCEPTED, typed("text/html", page))),
    );
    let server = Server::start(routes).await;
    let table = [
        ("brave", "Error: search by Brave failed: HTTP 404 Not Found"),
        (
            "gogle",
            "Error: unknown search provider 'gogle' (tools.web.search.provider knows brave, tavily",
        ),
        (
            "duckduckgo",
            "Error: DuckDuckGo shows its bot check instead of results",
        ),
    ];
    for (provider, expected) in table {
        let config = searching(&server, provider, "SECRET");
        let answer = search(&config, json!({"query": "tea"})).await;
        assert!(
            answer.starts_with(expected) && !answer.contains("SECRET"),
            "{answer}"
        );
    }
    let mut config = searching(&server, "searxng", "");
    config.web.search.base_url = "ftp://x".to_owned();
    let answer = search(&config, json!({"query": "tea"})).await;
    assert!(
        answer.starts_with("Error: the SearXNG address is not an http or https URL: ftp://x"),
        "{answer}"
    );
    assert_eq!(format!("{:?}", config.web.search.api_key), "<none>");
}

/// The configured address may be private. A redirect may stay at its origin; elsewhere it follows the
/// rules for addresses of strangers, without the key.
#[tokio::test]
async fn redirects_of_providers_are_checked() {
    let other = Server::start(Router::new().fallback(any(async || axum::Json(json!({}))))).await;
    let elsewhere = other.url("/x");
    let routes = Router::new()
        .route("/search", get(async || moved("/moved")))
        .route(
            "/moved",
            get(async || {
                axum::Json(json!({"results": [{"title": "M", "url": "https://m.example/"}]}))
            }),
        )
        .route("/brave", get(async move || moved(&elsewhere)))
        .route("/serper", any(async || moved("/moved")));
    let server = Server::start(routes).await;
    let mut config = searching(&server, "searxng", "");
    config.web.search.base_url.clone_from(&server.base);
    let answer = search(&config, json!({"query": "tea"})).await;
    assert_eq!(answer, "Results for: tea\n\n1. M\n   https://m.example/");
    let config = searching(&server, "brave", "SECRET");
    let answer = search(&config, json!({"query": "tea"})).await;
    assert!(
        answer.starts_with(
            "Error: search by Brave failed: URL validation failed: host '127.0.0.1' is the private"
        ),
        "{answer}"
    );
    let config = searching(&server, "serper", "SECRET");
    let answer = search(&config, json!({"query": "tea"})).await;
    assert!(
        answer.contains("the service redirects to another address"),
        "{answer}"
    );
    assert_eq!(other.requests(), [""; 0]);
}
