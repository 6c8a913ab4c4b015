//! `ssrf.jsonl` through every tool that connects to addresses of others.
//!
//! A proxy on this machine stands for the internet: it answers by the script of a row and records which
//! hosts it is asked for. The guard checks each address before the proxy is asked, by the scripted
//! resolver. Connections without a proxy are tested by `connects_only_to_the_checked_address`.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use axum::{
    Router,
    extract::Request,
    http::{Method, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::any,
};
use nanobot_guard::{Resolver, UrlGuard};
use nanobot_testkit::InProcess;
use nanobot_tools::{DownloadLimits, HttpClients, ToolsConfig};
use serde::Deserialize;
use serde_json::json;

use crate::web::{Server, call, moved, registry};

/// The row about an address that the operator configured, which no guard checks.
const CONFIGURED: &str = "provider_base_from_config";

#[derive(Clone, Deserialize)]
struct Row {
    id: String,
    url: String,
    sink: String,
    expect: String,
    reason: String,
    #[serde(default)]
    dns: HashMap<String, Vec<Vec<IpAddr>>>,
    #[serde(default)]
    http: HashMap<String, Answer>,
    #[serde(default)]
    config: Config,
}

#[derive(Clone, Deserialize)]
struct Answer {
    location: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
struct Config {
    #[serde(default)]
    ssrf_allow: Vec<String>,
}

/// Answers by the script: one list per lookup, of which the last repeats.
#[derive(Debug)]
struct Script(Mutex<HashMap<String, Vec<Vec<IpAddr>>>>);

#[async_trait]
impl Resolver for Script {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut script = self.0.lock().unwrap();
        let key = if script.contains_key(host) { host } else { "*" };
        let answers = script.get_mut(key).ok_or(io::ErrorKind::NotFound)?;
        Ok(if answers.len() > 1 {
            answers.remove(0)
        } else {
            answers[0].clone()
        })
    }
}

/// A proxy that answers by the script of a row, and `{}` to anything else.
async fn internet(row: &Row) -> Server {
    let script = row.http.clone();
    let answer = move |request: Request| {
        let location = script
            .get(&request.uri().to_string())
            .and_then(|answer| answer.location.clone());
        async move {
            match location {
                // A tunnel is as far as an encrypted request gets here.
                _ if request.method() == Method::CONNECT => StatusCode::BAD_GATEWAY.into_response(),
                Some(location) => moved(&location),
                None => reached(),
            }
        }
    };
    Server::start(Router::new().fallback(any(answer))).await
}

fn reached() -> Response {
    (
        [(header::CONTENT_TYPE, "application/json")],
        "{\"reached\": []}",
    )
        .into_response()
}

/// A way to give an address of a row to this program.
#[derive(Clone, Copy, Debug)]
enum Sink {
    Fetch,
    RedirectOfFetch,
    RedirectOfSearch,
    Download,
}

/// Uses the address; returns `true` if that was not refused by a rule.
async fn connects(row: &Row, sink: Sink) -> (bool, Vec<String>) {
    let mut row = row.clone();
    let start = "http://start.example/";
    let url = row.url.clone();
    if !matches!(sink, Sink::Fetch | Sink::Download) {
        let location = Some(url.clone());
        row.http.insert(start.to_owned(), Answer { location });
        row.http.insert(
            format!("{start}search?q=tea&format=json"),
            Answer {
                location: Some(url.clone()),
            },
        );
        let public = vec![vec![IpAddr::from([93, 184, 215, 14])]];
        row.dns.insert("start.example".to_owned(), public);
    }
    let internet = internet(&row).await;
    let mut config = ToolsConfig::default();
    config.web.proxy = Some(internet.base.clone());
    config.web.search.provider = "searxng".to_owned();
    config.web.search.base_url = start.to_owned();
    let opened = row.config.ssrf_allow.iter();
    let opened = opened.map(|network| network.parse().unwrap()).collect();
    let guard = UrlGuard::new(Arc::new(Script(Mutex::new(row.dns.clone()))), opened);
    let outcome = match sink {
        Sink::Fetch => {
            call(
                &registry(&config, guard),
                "web_fetch",
                json!({ "url": url }),
            )
            .await
        }
        Sink::RedirectOfFetch => {
            call(
                &registry(&config, guard),
                "web_fetch",
                json!({ "url": start }),
            )
            .await
        }
        Sink::RedirectOfSearch => {
            call(
                &registry(&config, guard),
                "web_search",
                json!({"query": "tea"}),
            )
            .await
        }
        Sink::Download => {
            let http = HttpClients::new(&config.web, Arc::new(guard), Arc::new(InProcess));
            let limits = DownloadLimits {
                bytes: 1000,
                time: Duration::from_secs(30),
            };
            format!("{:?}", http.download(&url, limits).await)
        }
    };
    let is_refused = [
        "URL validation failed",
        "cannot be parsed",
        "Insecure",
        "not an https URL",
        "RelativeUrl",
        "relative URL",
        "invalid ",
        "empty host",
    ]
    .iter()
    .any(|words| outcome.contains(words));
    let asked = internet.requests();
    let asked = asked
        .into_iter()
        .filter(|asked| !asked.contains("start.example"));
    (!is_refused, asked.collect())
}

#[tokio::test]
async fn corpus_verdicts_match_in_every_sink() {
    let corpus = include_str!("../../../../dev/testkit/corpus/ssrf.jsonl");
    let rows: Vec<Row> = corpus
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (mut failed, mut checks) = (Vec::new(), 0);
    for row in rows.iter().filter(|row| row.sink != CONFIGURED) {
        for sink in [
            Sink::Fetch,
            Sink::RedirectOfFetch,
            Sink::RedirectOfSearch,
            Sink::Download,
        ] {
            let is_allowed = row.expect == "allow";
            // A download is never unencrypted.
            if is_allowed && matches!(sink, Sink::Download) && !row.url.starts_with("https:") {
                continue;
            }
            let is_redirect = matches!(sink, Sink::RedirectOfFetch | Sink::RedirectOfSearch);
            // A header is ASCII, and a reference without slashes or text is relative to its page.
            if is_redirect && !(row.url.is_ascii() && row.url.contains("://")) {
                continue;
            }
            let mut row = row.clone();
            if !is_allowed {
                // The proxy can answer requests that are not encrypted.
                row.url = row.url.replacen("https://r", "http://r", 1);
                let plain = |text: &String| text.replace("https://r", "http://r");
                let http = row.http.iter().map(|(url, answer)| {
                    let location = answer.location.as_ref().map(plain);
                    (plain(url), Answer { location })
                });
                row.http = http.collect();
            }
            checks += 1;
            let (is_connected, asked) = connects(&row, sink).await;
            let scripted =
                |asked: &String| row.http.keys().any(|url| asked == &format!("GET {url}"));
            let is_right = if is_allowed {
                is_connected && !asked.is_empty()
            } else {
                (is_redirect || !is_connected) && asked.iter().all(scripted)
            };
            if !is_right {
                failed.push(format!(
                    "{} {sink:?} {} ({}): {is_connected} {asked:?}",
                    row.id, row.url, row.reason
                ));
            }
        }
    }
    nanobot_testkit::summarize(&format!(
        "addresses: {} of {checks} uses of {} rows by 4 sinks hold",
        checks - failed.len(),
        rows.len() - 1
    ));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
