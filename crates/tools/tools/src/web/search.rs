//! `web_search`.

mod providers;

use std::{sync::Arc, time::Duration};

use nanobot_extract::plain;
use nanobot_tool::ToolContext;
use nanobot_types::{Effect, ToolResult};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{WebError, client::HttpClients};
use crate::{config::SearchConfig, operation::Operation};

const MAX_RESULTS: u32 = 10;

#[derive(Debug)]
pub(crate) struct WebSearch {
    config: SearchConfig,
    http: Arc<HttpClients>,
    /// Serializes requests to DuckDuckGo, which rejects concurrent ones.
    one_at_a_time: Semaphore,
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
    pub(crate) const fn new(config: SearchConfig, http: Arc<HttpClients>) -> Self {
        Self {
            config,
            http,
            one_at_a_time: Semaphore::const_new(1),
        }
    }

    async fn search(&self, arguments: &WebSearchArguments) -> Result<String, WebError> {
        let count = arguments
            .count
            .unwrap_or(self.config.max_results)
            .clamp(1, MAX_RESULTS);
        let limit = Duration::from_secs(self.config.timeout.max(1));
        let search = self.hits(&arguments.query, count);
        let Ok(hits) = tokio::time::timeout(limit, search).await else {
            return Err(WebError::passing(format!(
                "the search took longer than {} seconds",
                limit.as_secs()
            )));
        };
        Ok(listed(&arguments.query, &hits?, count))
    }
}

fn listed(query: &str, hits: &[Hit], count: u32) -> String {
    if hits.is_empty() {
        return format!("No results for: {query}");
    }
    let mut text = format!("Results for: {query}\n");
    for (number, hit) in (1..=count).zip(hits) {
        let (title, snippet) = (plain(&hit.title), plain(&hit.snippet));
        text.push_str(&format!("\n{number}. {title}\n   {}", hit.url));
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
                "count": {"type": "integer", "minimum": 1, "maximum": MAX_RESULTS},
            },
            "required": ["query"],
        })
    }

    async fn run(&self, arguments: WebSearchArguments, context: &ToolContext) -> ToolResult {
        let outcome = tokio::select! {
            outcome = self.search(&arguments) => outcome,
            () = context.cancel.cancelled() => Err("the search was stopped".to_owned().into()),
        };
        match outcome {
            Ok(output) => ToolResult::ok(output),
            Err(error) => error.result(format!("Error: {}", error.reason)),
        }
    }
}

/// Lists the results on a DuckDuckGo page as the model reads them.
pub(super) fn results_on(page: &str) -> String {
    listed("", &providers::duckduckgo_hits(page), MAX_RESULTS)
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
