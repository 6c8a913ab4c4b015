//! `web_search`.

mod cache;
mod duckduckgo;
mod providers;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use nanobot_escape::without_hidden;
use nanobot_extract::plain;
use nanobot_tool::{CallReview, ToolContext};
use nanobot_types::{Effect, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};

use self::cache::SearchCache;
pub use self::providers::search_key_variables;
use super::{WebError, client::HttpClients};
use crate::{config::SearchConfig, operation::Operation};

const MAX_RESULTS: u32 = 10;

#[derive(Debug)]
pub(crate) struct WebSearch {
    config: SearchConfig,
    http: Arc<HttpClients>,
    cache: SearchCache,
}

#[derive(Deserialize)]
pub(crate) struct WebSearchArguments {
    query: String,
    count: Option<u32>,
}

/// One result, as the provider formats it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Hit {
    title: String,
    url: String,
    snippet: String,
}

impl WebSearch {
    pub(crate) fn new(config: SearchConfig, http: Arc<HttpClients>) -> Self {
        Self {
            config,
            http,
            cache: SearchCache::default(),
        }
    }

    async fn search(&self, arguments: &WebSearchArguments) -> Result<String, WebError> {
        let count = arguments
            .count
            .unwrap_or(self.config.max_results)
            .clamp(1, MAX_RESULTS);
        let limit = Duration::from_secs(self.config.timeout.max(1));
        let lifetime = Duration::from_secs(self.config.cache_minutes.saturating_mul(60));
        let query = arguments.query.trim();
        if let Some((results, age)) = self.cache.find((query, count), lifetime, Instant::now()) {
            let minutes = age.as_secs() / 60;
            return Ok(format!("{results}\n\n(Cached, {minutes} minutes old.)"));
        }
        let search = self.hits(query, count);
        let Ok(hits) = tokio::time::timeout(limit, search).await else {
            return Err(WebError::passing(format!(
                "the search took longer than {} seconds",
                limit.as_secs()
            )));
        };
        let hits = hits?;
        let results = listed(query, &hits, count);
        if !hits.is_empty() {
            self.cache.keep((query, count), &results, Instant::now());
        }
        Ok(results)
    }
}

/// Lists results in lines of their own. Hidden characters are removed, so that a model reads what a
/// person would see.
fn listed(query: &str, hits: &[Hit], count: u32) -> String {
    if hits.is_empty() {
        return format!("No results for: {query}");
    }
    let mut text = format!("Results for: {query}\n");
    for (number, hit) in (1..=count).zip(hits) {
        let clean = |text: &str| plain(&without_hidden(text));
        let (title, snippet) = (clean(&hit.title), clean(&hit.snippet));
        let url: String = without_hidden(&hit.url).split_whitespace().collect();
        text.push_str(&format!("\n{number}. {title}\n   {url}"));
        if !snippet.is_empty() {
            text.push_str(&format!("\n   {snippet}"));
        }
    }
    text
}

impl Operation for WebSearch {
    type Arguments = WebSearchArguments;
    const NAME: &'static str = "web_search";
    const DESCRIPTION: &'static str = "Search the web.";
    const EFFECT: Effect = Effect::Pure;

    fn parameters() -> Value {
        json!({
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "count": {"type": "integer"},
            },
            "required": ["query"],
        })
    }

    async fn review(&self, _: &Value, _: &ToolContext) -> CallReview {
        CallReview {
            destination: Some("a search engine".to_owned()),
            ..CallReview::default()
        }
    }

    async fn run(&self, arguments: WebSearchArguments, context: &ToolContext) -> ToolResult {
        let outcome = tokio::select! {
            outcome = self.search(&arguments) => outcome,
            () = context.cancel.cancelled() => Err("the search was stopped".to_owned().into()),
        };
        match outcome {
            Ok(output) => ToolResult::ok(output).from_strangers(Self::NAME),
            Err(error) => error.result(format!("Error: {}", error.reason)),
        }
    }
}

/// Lists the results on a DuckDuckGo page as the model reads them.
pub(super) fn results_on(page: &str) -> String {
    listed("", &duckduckgo::hits(page), MAX_RESULTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_numbered_and_cleaned() {
        let hits = [
            Hit {
                title: "<b>Tea</b> &amp; more".into(),
                url: "https://t.example/".into(),
                snippet: "hot\n  water".into(),
            },
            Hit {
                title: "Second".into(),
                url: "https://s.example/".into(),
                snippet: String::new(),
            },
            Hit {
                title: "Third".into(),
                ..Hit::default()
            },
        ];
        assert_eq!(
            listed("tea", &hits, 2),
            "Results for: tea\n\n1. Tea & more\n   https://t.example/\n   hot water\n2. Second\n   https://s.example/"
        );
        assert_eq!(listed("tea", &[], 2), "No results for: tea");
    }
}
