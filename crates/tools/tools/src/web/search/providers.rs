//! The search providers: the request for each, and the location of the results in its response.

use nanobot_types::json as bounded;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use url::Url;

use super::{Hit, WebSearch};
use crate::{
    text::clipped,
    web::{WebError, decode::DecodedBody},
};

/// Maximum length of a result's snippet from Jina's search, in characters.
const JINA_SNIPPET: usize = 500;

impl WebSearch {
    /// Returns the results of the configured provider, or of DuckDuckGo if that one lacks its key
    /// or address.
    pub(super) async fn hits(&self, query: &str, count: u32) -> Result<Vec<Hit>, WebError> {
        let provider = self.config.provider.trim().to_lowercase();
        let hits = match provider.as_str() {
            "" | "brave" => self.brave(query, count).await?,
            "tavily" => self.tavily(query, count).await?,
            "searxng" => self.searxng(query).await?,
            "jina" => self.jina(query).await?,
            "duckduckgo" => None,
            other => {
                return Err(format!(
                    "unknown search provider '{other}' (tools.web.search.provider knows brave, \
                     tavily, duckduckgo, searxng and jina)"
                )
                .into());
            }
        };
        match hits {
            Some(hits) => Ok(hits),
            None => self.duckduckgo(query).await,
        }
    }

    async fn brave(&self, query: &str, count: u32) -> Result<Option<Vec<Hit>>, WebError> {
        let Some(key) = self.key("BRAVE_API_KEY") else {
            return Ok(None);
        };
        let request = self
            .http
            .plain()?
            .get(&self.config.endpoints.brave)
            .query(&[("q", query), ("count", &count.to_string())])
            .header("Accept", "application/json")
            .header("X-Subscription-Token", key);
        let answer = request_json("Brave", request).await?;
        Ok(Some(hits(answer.pointer("/web/results"), "description")))
    }

    async fn tavily(&self, query: &str, count: u32) -> Result<Option<Vec<Hit>>, WebError> {
        let Some(key) = self.key("TAVILY_API_KEY") else {
            return Ok(None);
        };
        let request = self
            .http
            .plain()?
            .post(&self.config.endpoints.tavily)
            .bearer_auth(key)
            .json(&json!({"query": query, "max_results": count}));
        let answer = request_json("Tavily", request).await?;
        Ok(Some(hits(answer.get("results"), "content")))
    }

    async fn searxng(&self, query: &str) -> Result<Option<Vec<Hit>>, WebError> {
        let Some(base) = setting(&self.config.base_url, "SEARXNG_BASE_URL") else {
            return Ok(None);
        };
        let url = Url::parse(&format!("{}/search", base.trim_end_matches('/')))
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| format!("the SearXNG address is not an http or https URL: {base}"))?;
        let request = self
            .http
            .plain()?
            .get(url)
            .query(&[("q", query), ("format", "json")]);
        let answer = request_json("SearXNG", request).await?;
        Ok(Some(hits(answer.get("results"), "content")))
    }

    async fn jina(&self, query: &str) -> Result<Option<Vec<Hit>>, WebError> {
        let Some(key) = self.key("JINA_API_KEY") else {
            return Ok(None);
        };
        let request = self
            .http
            .plain()?
            .get(&self.config.endpoints.jina)
            .query(&[("q", query)])
            .header("Accept", "application/json")
            .bearer_auth(key);
        let answer = request_json("Jina", request).await?;
        let mut found = hits(answer.get("data"), "content");
        for hit in &mut found {
            hit.snippet = clipped(&hit.snippet, JINA_SNIPPET).0.to_owned();
        }
        Ok(Some(found))
    }

    async fn duckduckgo(&self, query: &str) -> Result<Vec<Hit>, WebError> {
        let permit = self
            .one_at_a_time
            .acquire()
            .await
            .map_err(|error| error.to_string())?;
        let request = self
            .http
            .plain()?
            .get(&self.config.endpoints.duckduckgo)
            .query(&[("q", query)]);
        let body = send("DuckDuckGo", request).await?;
        // The page is always in UTF-8.
        let page = String::from_utf8_lossy(&body.bytes);
        drop(permit);
        let found = duckduckgo_hits(&page);
        if found.is_empty() && page.contains("anomaly-modal") {
            return Err("DuckDuckGo asks for a proof of being human; set another \
                        tools.web.search.provider"
                .to_owned()
                .into());
        }
        Ok(found)
    }

    fn key(&self, variable: &str) -> Option<String> {
        setting(self.config.api_key.expose(), variable)
    }
}

/// Returns the configured value, else that of the environment variable; `None` if both are empty.
fn setting(configured: &str, variable: &str) -> Option<String> {
    let configured = Some(configured.trim().to_owned()).filter(|text| !text.is_empty());
    let inherited = || {
        std::env::var(variable)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    configured
        .or_else(inherited)
        .filter(|text| !text.is_empty())
}

async fn send(provider: &str, request: RequestBuilder) -> Result<DecodedBody, WebError> {
    let failed = |error: WebError| {
        error.map_reason(|reason| format!("search by {provider} failed: {reason}"))
    };
    let response = request.send().await.map_err(|error| failed(error.into()))?;
    if !response.status().is_success() {
        return Err(failed(WebError::of_status(response.status())));
    }
    DecodedBody::read(response).await.map_err(failed)
}

async fn request_json(provider: &str, request: RequestBuilder) -> Result<Value, WebError> {
    let body = send(provider, request).await?;
    bounded::from_slice(&body.bytes).map_err(|error| {
        format!("search by {provider} failed: the answer is not JSON ({error})").into()
    })
}

/// Reads the results in `list`, with their snippets in the field `snippet`.
fn hits(list: Option<&Value>, snippet: &str) -> Vec<Hit> {
    let text = |item: &Value, key: &str| {
        item.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|item| Hit {
            title: text(item, "title"),
            url: text(item, "url"),
            snippet: text(item, snippet),
        })
        .collect()
}

/// Maximum number of results parsed from a page, which is more than are ever listed.
const ENOUGH: usize = super::MAX_RESULTS as usize + 1;

/// Parses the links and snippets of a result page, in order. Attributes come in any order, so a
/// link is found by its class and its URL is looked up in the same tag. Runs in a single pass,
/// which stops at a link that is not closed.
pub(super) fn duckduckgo_hits(page: &str) -> Vec<Hit> {
    let mut found: Vec<Hit> = Vec::new();
    let mut rest = page;
    while let Some((attributes, after)) = next_link(rest)
        && found.len() < ENOUGH
    {
        rest = after;
        let is_title = attributes.contains("class=\"result__a\"");
        if !is_title && !attributes.contains("class=\"result__snippet\"") {
            continue;
        }
        let Some((content, after)) = rest.split_once("</a>") else {
            break;
        };
        rest = after;
        let address = attributes
            .split_once("href=\"")
            .and_then(|(_, rest)| rest.split('"').next());
        let Some(url) = address.and_then(target_of) else {
            continue;
        };
        if is_title {
            found.push(Hit {
                title: content.to_owned(),
                url,
                snippet: String::new(),
            });
        } else if let Some(hit) = found.last_mut().filter(|hit| hit.url == url) {
            hit.snippet = content.to_owned();
        }
    }
    found
}

/// Returns the attributes of the next link, and the text after its tag.
fn next_link(page: &str) -> Option<(&str, &str)> {
    let mut rest = page;
    loop {
        let (_, tag) = rest.split_once("<a")?;
        if tag.starts_with(|next: char| next.is_ascii_whitespace()) {
            return tag.split_once('>');
        }
        rest = tag;
    }
}

/// Returns the target URL of a result: links go through a redirect that carries the target in a
/// parameter. Advertisements have none.
fn target_of(link: &str) -> Option<String> {
    let link = link.replace("&amp;", "&");
    let url = Url::parse("https://duckduckgo.com/")
        .ok()?
        .join(&link)
        .ok()?;
    if url
        .domain()
        .is_some_and(|domain| domain.ends_with("duckduckgo.com"))
    {
        return url
            .query_pairs()
            .find(|(key, _)| key == "uddg")
            .map(|(_, target)| target.into_owned());
    }
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_results_and_skips_advertisements() {
        let page = r##"
            <a rel="nofollow" class="result__a" href="https://duckduckgo.com/y.js?ad=1">Ad</a>
            <h2><a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Ft.example%2Fa%3Fb%3D1&amp;rut=9">The <b>tea</b></a></h2>
            <a class="result__snippet" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Ft.example%2Fa%3Fb%3D1&amp;rut=9">Hot <b>water</b></a>
            <a href="https://plain.example/" class="result__a">Plain</a>"##;
        let expected = [
            Hit {
                title: "The <b>tea</b>".into(),
                url: "https://t.example/a?b=1".into(),
                snippet: "Hot <b>water</b>".into(),
            },
            Hit {
                title: "Plain".into(),
                url: "https://plain.example/".into(),
                snippet: String::new(),
            },
        ];
        assert_eq!(duckduckgo_hits(page), expected);
    }
}
