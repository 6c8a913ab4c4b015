//! Calls of the open API.
//!
//! Of answers only what is needed is read: Feishu adds to them all the time, and a message that was
//! taken must not look refused for that. Path segments come from events, so they are encoded.

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::call::{DEFAULT_RETRY_AFTER, pause_from_secs, retry_after};
use nanobot_channel_kit::http::ProxyMode;
use nanobot_channel_kit::rest::{FILE_TIMEOUT, RestAnswer};
use nanobot_channel_kit::{Rest, TokenCache, lifetime};
use reqwest::header::HeaderMap;
use reqwest::multipart::Form;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::config::FEISHU_BASE;
use crate::error::{CallError, Refusal, from_code};
use crate::{FeishuConfig, Secret};

/// Feishu's own header for the seconds of a pause.
const RATE_LIMIT_RESET: &str = "x-ogw-ratelimit-reset";

/// The open API and the credentials to use it with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    app_id: String,
    app_secret: Secret,
    token: TokenCache,
}

/// A method, a path and a query.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    method: Method,
    path: Vec<String>,
    query: Vec<(&'static str, String)>,
}

impl Endpoint {
    /// Creates an endpoint of `/open-apis`.
    pub(crate) fn new<const N: usize>(method: Method, path: [&str; N]) -> Self {
        let path = ["open-apis"].into_iter().chain(path);
        Self {
            method,
            path: path.map(str::to_owned).collect(),
            query: Vec::new(),
        }
    }

    /// Appends to the path.
    pub(crate) fn under<const N: usize>(mut self, path: [&str; N]) -> Self {
        self.path.extend(path.map(str::to_owned));
        self
    }

    /// Adds a key to the query.
    pub(crate) fn with(mut self, key: &'static str, value: &str) -> Self {
        self.query.push((key, value.to_owned()));
        self
    }

    fn address(&self, base: &Url) -> Result<Url, CallError> {
        let mut address = base.clone();
        match address.path_segments_mut() {
            Ok(mut path) => path.pop_if_empty().extend(&self.path),
            Err(()) => {
                return Err(CallError::Setup("the address has no path".to_owned()));
            }
        };
        if !self.query.is_empty() {
            address.query_pairs_mut().extend_pairs(&self.query);
        }
        Ok(address)
    }
}

/// The body of a request.
#[derive(Debug)]
pub(crate) enum Body {
    /// No body.
    Empty,
    /// JSON.
    Json(Value),
}

/// An answer whose content is in `data`.
#[derive(Debug, Deserialize)]
struct Enveloped<T> {
    data: T,
}

/// The part of every answer that says whether the call was made.
#[derive(Debug, Deserialize)]
struct ApiVerdict {
    code: i64,
    #[serde(default)]
    msg: String,
}

impl Api {
    /// The API by its configuration; opens nothing.
    pub(crate) fn new(
        config: &FeishuConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let proxy = ProxyMode::new(config.proxy.as_ref().map(Secret::expose), shared_proxy)?;
        let rest = Rest::new(config.base(), FEISHU_BASE, proxy, config.request_timeout())?;
        Ok(Self {
            rest: rest.redacting(&config.app_secret),
            app_id: config.app_id.clone(),
            app_secret: config.app_secret.clone(),
            token: TokenCache::default(),
        })
    }

    /// Makes a call of which only the success matters.
    pub(crate) async fn call(&self, endpoint: &Endpoint, body: Body) -> Result<(), CallError> {
        self.exchange(endpoint, &body).await.map(drop)
    }

    /// Makes a call and returns the `data` of the answer.
    pub(crate) async fn data<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        body: Body,
    ) -> Result<T, CallError> {
        let answer: Enveloped<T> = self.whole(endpoint, body).await?;
        Ok(answer.data)
    }

    /// Makes a call and returns the whole answer.
    pub(crate) async fn whole<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        body: Body,
    ) -> Result<T, CallError> {
        let answer = self.exchange(endpoint, &body).await?;
        self.rest.read(&answer.body)
    }

    /// Uploads a form, which `form` creates for each attempt.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        form: impl Fn() -> Form,
    ) -> Result<T, CallError> {
        let timeout = self.rest.timeout() + FILE_TIMEOUT;
        let answer = self.authorized(|token| {
            let form = form();
            async move {
                let request = self.request(endpoint, &token)?.timeout(timeout);
                self.judged(request.multipart(form), &token).await
            }
        });
        let answer: Enveloped<T> = self.rest.read(&answer.await?.body)?;
        Ok(answer.data)
    }

    /// Begins a download. The response is either the file or an error status.
    pub(crate) async fn download(&self, endpoint: &Endpoint) -> Result<Response, CallError> {
        let timeout = self.rest.timeout() + FILE_TIMEOUT;
        self.authorized(|token| async move {
            let request = self.request(endpoint, &token)?.timeout(timeout);
            let response = self.rest.send(request).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            // Says why in JSON.
            let (status, headers) = (response.status(), response.headers().clone());
            let body = self.rest.body_within(response, 1 << 16).await?;
            let answer = RestAnswer {
                status,
                headers,
                body: body.unwrap_or_default(),
            };
            match self.judge(&answer, Some(&token)) {
                Err(error) => Err(error),
                Ok(()) => Err(Rest::intermediary_error("Feishu", status)),
            }
        })
        .await
    }

    /// Returns the address and the settings of a new long connection.
    pub(crate) async fn connection<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        let credentials =
            json!({"AppID": self.app_id, "AppSecret": self.app_secret.expose_exact()});
        let request = self
            .rest
            .request(Method::POST, "callback/ws/endpoint")?
            .header("locale", "en")
            .json(&credentials);
        let answer = self.rest.answer(request).await?;
        self.judge(&answer, None)?;
        let answer: Enveloped<T> = self.rest.read(&answer.body)?;
        Ok(answer.data)
    }

    async fn exchange(&self, endpoint: &Endpoint, body: &Body) -> Result<RestAnswer, CallError> {
        self.authorized(|token| async move {
            let request = self.request(endpoint, &token)?;
            let request = match body {
                Body::Empty => request,
                Body::Json(body) => request.json(body),
            };
            self.judged(request, &token).await
        })
        .await
    }

    /// Makes a call with a token, and once more with a new token if that was refused.
    async fn authorized<T, F>(&self, call: impl Fn(Secret) -> F) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let token = self.token().await?;
        match call(token.clone()).await {
            Err(error) if error.is(Refusal::is_about_the_token) => {
                tracing::debug!(%error, "the access token was refused; a new one is fetched");
                self.token.drop_refused(&token).await;
                call(self.token().await?).await
            }
            outcome => outcome,
        }
    }

    /// Returns the access token. Fetching one changes nothing, so its failure is never ambiguous.
    async fn token(&self) -> Result<Secret, CallError> {
        #[derive(Deserialize)]
        struct Granted {
            tenant_access_token: Secret,
            #[serde(default, deserialize_with = "lifetime")]
            expire: Duration,
        }
        let fetch = async {
            let credentials =
                json!({"app_id": self.app_id, "app_secret": self.app_secret.expose_exact()});
            let path = "open-apis/auth/v3/tenant_access_token/internal";
            let request = self.rest.request(Method::POST, path)?.json(&credentials);
            let answer = self.rest.answer(request).await?;
            self.judge(&answer, None)?;
            let granted: Granted = self.rest.read(&answer.body)?;
            Ok((granted.tenant_access_token, granted.expire))
        };
        self.token.get(fetch).await.map_err(CallError::unambiguous)
    }

    fn request(&self, endpoint: &Endpoint, token: &Secret) -> Result<RequestBuilder, CallError> {
        let address = endpoint.address(self.rest.base())?;
        let request = self.rest.request_to(endpoint.method.clone(), address)?;
        Ok(request.bearer_auth(token.expose_exact()))
    }

    async fn judged(
        &self,
        request: RequestBuilder,
        token: &Secret,
    ) -> Result<RestAnswer, CallError> {
        let answer = self.rest.answer(request).await?;
        self.judge(&answer, Some(token))?;
        Ok(answer)
    }

    /// Returns an error unless the call was made.
    fn judge(&self, answer: &RestAnswer, token: Option<&Secret>) -> Result<(), CallError> {
        let verdict: ApiVerdict = match self.rest.read(&answer.body) {
            Err(_) if answer.status == StatusCode::TOO_MANY_REQUESTS => {
                return Err(CallError::RateLimited(pause(&answer.headers)));
            }
            Err(_) if !answer.status.is_success() => {
                return Err(Rest::intermediary_error("Feishu", answer.status));
            }
            verdict => verdict?,
        };
        if verdict.code == 0 {
            return Ok(());
        }
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(CallError::RateLimited(pause(&answer.headers)));
        }
        let text = self.rest.scrub(&verdict.msg);
        let text = token.map_or(text.clone(), |token| token.scrub(&text));
        Err(match from_code(verdict.code, &text) {
            CallError::RateLimited(_) => CallError::RateLimited(pause(&answer.headers)),
            error => error,
        })
    }
}

/// Returns the pause that an answer asks for.
fn pause(headers: &HeaderMap) -> Duration {
    let own = headers
        .get(RATE_LIMIT_RESET)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .and_then(pause_from_secs);
    own.or_else(|| retry_after(headers))
        .unwrap_or(DEFAULT_RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn path_segments_of_events_are_encoded() {
        let base = Url::parse("https://x.test/proxy").unwrap();
        let endpoint = Endpoint::new(Method::GET, ["im", "v1", "messages", "../../a?b"]);
        assert_eq!(
            endpoint
                .with("type", "a&b")
                .address(&base)
                .unwrap()
                .as_str(),
            "https://x.test/proxy/open-apis/im/v1/messages/..%2F..%2Fa%3Fb?type=a%26b"
        );
        let dots = Endpoint::new(Method::GET, ["im", "..", "x"]);
        let root = Url::parse("https://x.test").unwrap();
        assert!(
            dots.address(&root)
                .unwrap()
                .path()
                .starts_with("/open-apis/")
        );
    }

    #[test]
    fn pause_is_that_of_the_first_known_header() {
        let headers = |pairs: &[(&'static str, &'static str)]| -> HeaderMap {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| {
                    let name = reqwest::header::HeaderName::from_static(name);
                    (name, HeaderValue::from_static(value))
                })
                .collect()
        };
        let table: [(&[_], u64); 4] = [
            (&[("x-ogw-ratelimit-reset", "7"), ("retry-after", "3")], 7),
            (
                &[("x-ogw-ratelimit-reset", "soon"), ("retry-after", "3")],
                3,
            ),
            (&[("x-ogw-ratelimit-reset", "-1")], 5),
            (&[], 5),
        ];
        for (pairs, seconds) in table {
            assert_eq!(pause(&headers(pairs)).as_secs(), seconds, "{pairs:?}");
        }
    }
}
