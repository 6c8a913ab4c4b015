//! Calls of the Web API over one HTTP client.
//!
//! Decision: an answer is judged once, here, into a [`CallError`]; nothing is retried. Redirects are
//! never followed by the client itself, so that a token goes to no host that was not looked at, and
//! every error text is scrubbed of both tokens. Of answers only what is needed is read: Slack adds to
//! them all the time, and a message that was taken must not look refused for that.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use nanobot_channel::{ChannelError, json};
use nanobot_channel_kit::http::{self, Failure, Way};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::CallError;
use crate::{Secret, SlackConfig};

/// What a file may take longer than another request.
pub(crate) const FILE_TIME: Duration = Duration::from_secs(90);
/// How long to wait when Slack says "too many" without saying how long.
const USUAL_WAIT: Duration = Duration::from_secs(5);
/// The longest wait that is believed: clocks cannot add just any number.
const CLOCK_LIMIT: Duration = Duration::from_hours(24 * 365);

/// The Web API and the tokens to use it with.
pub(crate) struct Api {
    pub(crate) bot: Secret,
    app: Secret,
    pub(crate) base: Url,
    way: Way,
    pub(crate) timeout: Duration,
    /// Built with the first call: roots of trust take time and memory.
    client: OnceLock<Result<Client, String>>,
}

impl fmt::Debug for Api {
    /// A proxy may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("base", &self.base.host_str())
            .finish_non_exhaustive()
    }
}

/// What a call is answered with when nothing in the answer matters.
#[derive(Debug, Deserialize)]
pub(crate) struct Done {}

impl Api {
    /// The API by its configuration; opens nothing.
    pub(crate) fn new(
        config: &SlackConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let base = http::api_base(&config.api_base, "https://slack.com/api")?;
        Ok(Self {
            bot: config.bot_token.clone(),
            app: config.app_token.clone(),
            base,
            way: Way::new(config.proxy.as_ref().map(Secret::expose), shared_proxy)?,
            timeout: config.request_timeout(),
            client: OnceLock::new(),
        })
    }

    /// Makes a call that changes something.
    pub(crate) async fn call<P, R>(&self, method: &str, payload: &P) -> Result<R, CallError>
    where
        P: Serialize + Sync + ?Sized,
        R: DeserializeOwned,
    {
        let request = self.client()?.post(self.address(method)?).json(payload);
        self.exchange(request.bearer_auth(self.bot.expose()).timeout(self.timeout))
            .await
    }

    /// Makes a call that only asks. Slack reads no JSON there.
    pub(crate) async fn ask<R>(&self, method: &str, query: &[(&str, &str)]) -> Result<R, CallError>
    where
        R: DeserializeOwned,
    {
        let mut address = self.address(method)?;
        if !query.is_empty() {
            address.query_pairs_mut().extend_pairs(query);
        }
        let request = self.client()?.get(address);
        self.exchange(request.bearer_auth(self.bot.expose()).timeout(self.timeout))
            .await
    }

    /// Asks for the address of a new connection. It holds a ticket: it is not to be shown.
    pub(crate) async fn open_connection(&self) -> Result<String, CallError> {
        #[derive(Deserialize)]
        struct Opened {
            url: String,
        }
        let request = self.client()?.post(self.address("apps.connections.open")?);
        let opened: Opened = self
            .exchange(request.bearer_auth(self.app.expose()).timeout(self.timeout))
            .await?;
        Ok(opened.url)
    }

    /// Sends a request of any kind and reads the answer of the Web API.
    async fn exchange<R: DeserializeOwned>(&self, request: RequestBuilder) -> Result<R, CallError> {
        let response = self.send(request).await?;
        self.read(response).await
    }

    /// Sends a request of any kind.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, CallError> {
        request.send().await.map_err(|error| self.failure(error))
    }

    async fn read<R: DeserializeOwned>(&self, response: Response) -> Result<R, CallError> {
        let status = response.status();
        let pause = asked_pause(response.headers());
        let limited = || CallError::RateLimited(pause);
        if status == StatusCode::TOO_MANY_REQUESTS {
            return Err(limited());
        }
        let body = http::json_body(response)
            .await
            .map_err(|error| self.failure(error))?;
        let verdict: Verdict = match json::from_slice(&body) {
            Ok(verdict) => verdict,
            // Proxies and gateways speak HTML, and know nothing of messages.
            Err(_) if !status.is_success() => {
                return Err(CallError::Unreachable(format!(
                    "something on the way to Slack answered {status}"
                )));
            }
            Err(error) => return Err(self.misunderstood(&error)),
        };
        if verdict.ok {
            return json::from_slice(&body).map_err(|error| self.misunderstood(&error));
        }
        let code = self.scrub(verdict.error.as_deref().unwrap_or("no reason was given"));
        if matches!(code.as_str(), "ratelimited" | "rate_limited") {
            return Err(limited());
        }
        Err(CallError::named(
            code,
            verdict.needed.map(|scope| self.scrub(&scope)),
        ))
    }

    fn misunderstood(&self, error: &serde_json::Error) -> CallError {
        CallError::Interrupted(self.scrub(&format!("the answer cannot be understood: {error}")))
    }

    /// `text` without either token.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.app.scrub(&self.bot.scrub(text))
    }

    fn address(&self, method: &str) -> Result<Url, CallError> {
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}/{method}"))
            .map_err(|error| CallError::Setup(self.scrub(&error.to_string())))
    }

    /// The client, for requests that are none of the Web API's.
    pub(crate) fn client(&self) -> Result<&Client, CallError> {
        let build = || {
            let builder = http::client(&self.way);
            builder
                .build()
                .map_err(|error| self.scrub(&Failure::from(error).text))
        };
        self.client
            .get_or_init(build)
            .as_ref()
            .map_err(|why| CallError::Setup(why.clone()))
    }

    /// What a failed request means. Addresses stay out of it: some hold tickets.
    pub(crate) fn failure(&self, error: reqwest::Error) -> CallError {
        let Failure {
            text,
            may_have_arrived,
        } = error.into();
        let text = self.scrub(&text);
        if may_have_arrived {
            CallError::Interrupted(text)
        } else {
            CallError::Unreachable(text)
        }
    }
}

/// What every answer of the Web API says.
#[derive(Debug, Deserialize)]
struct Verdict {
    ok: bool,
    error: Option<String>,
    needed: Option<String>,
}

/// The pause that Slack asks for.
fn asked_pause(headers: &HeaderMap) -> Duration {
    let asked = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok());
    asked
        .map_or(USUAL_WAIT, Duration::from_secs)
        .min(CLOCK_LIMIT)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_pause_is_one_that_clocks_can_add() {
        let table = [
            ("3", Duration::from_secs(3)),
            (" 0 ", Duration::ZERO),
            ("18446744073709551615", CLOCK_LIMIT),
            ("18446744073709551616", USUAL_WAIT),
            ("-1", USUAL_WAIT),
            ("NaN", USUAL_WAIT),
            ("1e308", USUAL_WAIT),
            ("", USUAL_WAIT),
        ];
        for (value, expected) in table {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(value))]);
            let pause = asked_pause(&headers);
            assert_eq!(pause, expected, "{value}");
            assert!(Instant::now().checked_add(pause).is_some(), "{value}");
        }
        assert_eq!(asked_pause(&HeaderMap::new()), USUAL_WAIT);
    }
}
