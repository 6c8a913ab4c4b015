//! The search providers: one table of the requests and the places of the results.
//!
//! The formats are those of the vendors' documentation. A provider without its key or address is
//! replaced by DuckDuckGo, which needs none.

use nanobot_types::json as bounded;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use url::Url;

use super::{Hit, WebSearch, duckduckgo};
use crate::{
    config::SearchEndpoints,
    text::clipped,
    web::{WebError, decode::DecodedBody},
};

/// Maximum length of a snippet, in characters: some providers return whole pages.
const MAX_SNIPPET: usize = 500;

/// Form of the credential in a request.
#[derive(Clone, Copy, Debug)]
enum Credential {
    /// `Authorization` with this word before the key.
    Authorization(&'static str),
    /// A header with the key alone.
    Header(&'static str),
}

/// Content of a request.
#[derive(Debug)]
enum Question {
    /// Parameters of a `GET` request.
    Get(Vec<(&'static str, String)>),
    /// Body of a `POST` request.
    Post(Value),
}

/// A provider with an API key.
struct Provider {
    /// Its name in the configuration.
    name: &'static str,
    /// Its name in messages.
    label: &'static str,
    /// Environment variables with its key, the preferred one first.
    variables: &'static [&'static str],
    endpoint: fn(&SearchEndpoints) -> &str,
    credential: Credential,
    question: fn(&str, u32) -> Question,
    answer: Answer,
}

/// Places in an answer.
#[derive(Clone, Copy)]
struct Answer {
    /// JSON pointer to the list of results.
    results: &'static str,
    title: &'static str,
    url: &'static str,
    /// Fields with a snippet; the first one with text counts.
    snippets: &'static [&'static str],
    /// Field that is 0 for a result and another number for anything else in the list.
    kind: Option<&'static str>,
}

/// The places that most providers use.
const USUAL: Answer = Answer {
    results: "/results",
    title: "title",
    url: "url",
    snippets: &["content"],
    kind: None,
};

const SEARXNG: Answer = USUAL;

const PROVIDERS: [Provider; 10] = [
    Provider {
        name: "brave",
        label: "Brave",
        variables: &["BRAVE_API_KEY"],
        endpoint: |urls| &urls.brave,
        credential: Credential::Header("X-Subscription-Token"),
        question: |query, count| {
            Question::Get(vec![("q", query.to_owned()), ("count", count.to_string())])
        },
        answer: Answer {
            results: "/web/results",
            snippets: &["description"],
            ..USUAL
        },
    },
    Provider {
        name: "tavily",
        label: "Tavily",
        variables: &["TAVILY_API_KEY"],
        endpoint: |urls| &urls.tavily,
        credential: Credential::Authorization("Bearer"),
        question: |query, count| Question::Post(json!({"query": query, "max_results": count})),
        answer: USUAL,
    },
    Provider {
        name: "jina",
        label: "Jina",
        variables: &["JINA_API_KEY"],
        endpoint: |urls| &urls.jina,
        credential: Credential::Authorization("Bearer"),
        question: |query, _| Question::Get(vec![("q", query.to_owned())]),
        answer: Answer {
            results: "/data",
            snippets: &["content", "description"],
            ..USUAL
        },
    },
    Provider {
        name: "kagi",
        label: "Kagi",
        variables: &["KAGI_API_KEY"],
        endpoint: |urls| &urls.kagi,
        credential: Credential::Authorization("Bot"),
        question: |query, count| {
            Question::Get(vec![("q", query.to_owned()), ("limit", count.to_string())])
        },
        answer: Answer {
            results: "/data",
            snippets: &["snippet"],
            kind: Some("t"),
            ..USUAL
        },
    },
    Provider {
        name: "exa",
        label: "Exa",
        variables: &["EXA_API_KEY"],
        endpoint: |urls| &urls.exa,
        credential: Credential::Header("x-api-key"),
        question: |query, count| {
            Question::Post(json!({
                "query": query,
                "type": "auto",
                "numResults": count,
                "contents": {"text": {"maxCharacters": MAX_SNIPPET}},
            }))
        },
        answer: Answer {
            snippets: &["text"],
            ..USUAL
        },
    },
    Provider {
        name: "olostep",
        label: "Olostep",
        variables: &["OLOSTEP_API_KEY"],
        endpoint: |urls| &urls.olostep,
        credential: Credential::Authorization("Bearer"),
        question: |query, _| Question::Post(json!({ "query": query })),
        answer: Answer {
            results: "/result/links",
            snippets: &["description"],
            ..USUAL
        },
    },
    Provider {
        name: "bocha",
        label: "Bocha",
        variables: &["BOCHA_API_KEY"],
        endpoint: |urls| &urls.bocha,
        credential: Credential::Authorization("Bearer"),
        question: |query, count| {
            Question::Post(json!({"query": query, "summary": true, "count": count}))
        },
        answer: Answer {
            results: "/data/webPages/value",
            title: "name",
            snippets: &["summary", "snippet"],
            ..USUAL
        },
    },
    Provider {
        name: "volcengine",
        label: "Volcengine",
        variables: &["VOLCENGINE_SEARCH_API_KEY", "WEB_SEARCH_API_KEY"],
        endpoint: |urls| &urls.volcengine,
        credential: Credential::Authorization("Bearer"),
        question: |query, count| {
            Question::Post(json!({
                "Query": query,
                "SearchType": "web",
                "Count": count,
                "NeedSummary": true,
            }))
        },
        answer: Answer {
            results: "/Result/WebResults",
            title: "Title",
            url: "Url",
            snippets: &["Summary", "Snippet"],
            kind: None,
        },
    },
    Provider {
        name: "keenable",
        label: "Keenable",
        variables: &["KEENABLE_API_KEY"],
        endpoint: |urls| &urls.keenable,
        credential: Credential::Header("X-API-Key"),
        question: |query, count| Question::Post(json!({"query": query, "max_results": count})),
        answer: Answer {
            snippets: &["snippet", "description"],
            ..USUAL
        },
    },
    Provider {
        name: "serper",
        label: "Serper",
        variables: &["SERPER_API_KEY"],
        endpoint: |urls| &urls.serper,
        credential: Credential::Header("X-API-KEY"),
        question: |query, count| Question::Post(json!({"q": query, "num": count})),
        answer: Answer {
            results: "/organic",
            url: "link",
            snippets: &["snippet"],
            ..USUAL
        },
    },
];

impl WebSearch {
    /// Returns the results of the configured provider, or of DuckDuckGo if that one lacks its key
    /// or address.
    pub(super) async fn hits(&self, query: &str, count: u32) -> Result<Vec<Hit>, WebError> {
        let name = match self.config.provider.trim().to_lowercase() {
            name if name.is_empty() => "brave".to_owned(),
            name => name,
        };
        let hits = match PROVIDERS.iter().find(|provider| provider.name == name) {
            Some(provider) => self.ask(provider, query, count).await?,
            None if name == "searxng" => self.searxng(query).await?,
            None if name == "duckduckgo" => None,
            None => return Err(unknown(&name).into()),
        };
        match hits {
            Some(hits) => Ok(hits),
            None => self.duckduckgo(query).await,
        }
    }

    /// Returns `None` without a key.
    async fn ask(
        &self,
        provider: &Provider,
        query: &str,
        count: u32,
    ) -> Result<Option<Vec<Hit>>, WebError> {
        let Some(key) = setting(self.config.api_key.expose(), provider.variables) else {
            return Ok(None);
        };
        let client = self.http.plain()?;
        let endpoint = (provider.endpoint)(&self.config.endpoints);
        let request = match (provider.question)(query, count) {
            Question::Get(parameters) => client.get(endpoint).query(&parameters),
            Question::Post(body) => client.post(endpoint).json(&body),
        };
        let request = match provider.credential {
            Credential::Authorization(word) => {
                request.header("Authorization", format!("{word} {key}"))
            }
            Credential::Header(name) => request.header(name, key),
        };
        let answer = self.request_json(provider.label, request).await?;
        Ok(Some(hits(&answer, provider.answer)))
    }

    /// Returns `None` without an address.
    async fn searxng(&self, query: &str) -> Result<Option<Vec<Hit>>, WebError> {
        let Some(base) = setting(&self.config.base_url, &["SEARXNG_BASE_URL"]) else {
            return Ok(None);
        };
        let url = Url::parse(&format!("{}/search", base.trim_end_matches('/')))
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| format!("the SearXNG address is not an http or https URL: {base}"))?;
        let request = self.http.plain()?.get(url);
        let request = request.query(&[("q", query), ("format", "json")]);
        let answer = self.request_json("SearXNG", request).await?;
        Ok(Some(hits(&answer, SEARXNG)))
    }

    async fn duckduckgo(&self, query: &str) -> Result<Vec<Hit>, WebError> {
        let permit = self.http.duckduckgo().acquire().await;
        let permit = permit.map_err(|error| error.to_string())?;
        let request = self
            .http
            .plain()?
            .get(&self.config.endpoints.duckduckgo)
            .query(&[("q", query)]);
        let body = self.send("DuckDuckGo", request).await?;
        drop(permit);
        // The page is always in UTF-8.
        let page = String::from_utf8_lossy(&body.bytes);
        let found = duckduckgo::hits(&page);
        if found.is_empty() && duckduckgo::is_bot_check(&page) {
            return Err(duckduckgo::BOT_CHECK.to_owned().into());
        }
        Ok(found)
    }

    async fn send(&self, label: &str, request: RequestBuilder) -> Result<DecodedBody, WebError> {
        let failed = |error: WebError| {
            error.map_reason(|reason| format!("search by {label} failed: {reason}"))
        };
        let response = self.http.ask(request).await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(failed(WebError::of_status(response.status())));
        }
        DecodedBody::read(response).await.map_err(failed)
    }

    async fn request_json(&self, label: &str, request: RequestBuilder) -> Result<Value, WebError> {
        let request = request.header("Accept", "application/json");
        let body = self.send(label, request).await?;
        bounded::from_slice(&body.bytes).map_err(|error| {
            format!("search by {label} failed: the answer is not JSON ({error})").into()
        })
    }
}

fn unknown(name: &str) -> String {
    let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
    format!(
        "unknown search provider '{name}' (tools.web.search.provider knows {}, duckduckgo and \
         searxng)",
        names.join(", ")
    )
}

/// Returns the names of all environment variables that hold a key of a search provider.
pub fn search_key_variables() -> impl Iterator<Item = &'static str> {
    PROVIDERS
        .iter()
        .flat_map(|provider| provider.variables.iter().copied())
}

/// Returns the configured value, else that of the first environment variable with one.
fn setting(configured: &str, variables: &[&str]) -> Option<String> {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let inherited = |name: &&str| std::env::var(name).ok().and_then(|text| given(&text));
    given(configured).or_else(|| variables.iter().find_map(inherited))
}

/// Reads the results of an answer.
fn hits(answer: &Value, places: Answer) -> Vec<Hit> {
    let text = |item: &Value, key: &str| {
        let text = item.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let is_result = |item: &&Value| {
        let kind = places.kind.and_then(|key| item.get(key)?.as_i64());
        kind.is_none_or(|kind| kind == 0)
    };
    let snippet = |item: &Value| {
        let mut texts = places.snippets.iter().map(|key| text(item, key));
        let snippet = texts.find(|text| !text.is_empty());
        clipped(&snippet.unwrap_or_default(), MAX_SNIPPET)
            .0
            .to_owned()
    };
    let list = answer.pointer(places.results).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter(is_result)
        .map(|item| Hit {
            title: text(item, places.title),
            url: text(item, places.url),
            snippet: snippet(item),
        })
        .collect()
}
