//! Calls of the Web API.
//!
//! Redirects are never followed by the client itself, so that a token goes to no host that was not
//! looked at. Of answers only what is needed is read: Slack adds to them all the time, and a
//! message that was taken must not look refused for that.

use nanobot_channel::ChannelError;
use nanobot_channel_kit::Rest;
use nanobot_channel_kit::call::{DEFAULT_RETRY_AFTER, retry_after};
use nanobot_channel_kit::http::ProxyMode;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::API_BASE;
use crate::error::{CallError, from_code};
use crate::{Secret, SlackConfig};

/// The Web API and the tokens to use it with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    pub(crate) bot: Secret,
    app: Secret,
}

/// An answer of which nothing matters.
#[derive(Debug, Deserialize)]
pub(crate) struct NoContent {}

impl Api {
    /// The API by its configuration; opens nothing.
    pub(crate) fn new(
        config: &SlackConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let proxy = ProxyMode::new(config.proxy.as_ref().map(Secret::expose), shared_proxy)?;
        let rest = Rest::new(&config.api_base, API_BASE, proxy, config.request_timeout())?;
        Ok(Self {
            rest: rest
                .redacting(&config.bot_token)
                .redacting(&config.app_token),
            bot: config.bot_token.clone(),
            app: config.app_token.clone(),
        })
    }

    /// Makes a call that changes something.
    pub(crate) async fn call<P, R>(&self, method: &str, payload: &P) -> Result<R, CallError>
    where
        P: Serialize + Sync + ?Sized,
        R: DeserializeOwned,
    {
        let request = self.rest.request(Method::POST, method)?.json(payload);
        self.exchange(request.bearer_auth(self.bot.expose())).await
    }

    /// Makes a call that changes nothing. Slack reads no JSON there.
    pub(crate) async fn query<R>(
        &self,
        method: &str,
        query: &[(&str, &str)],
    ) -> Result<R, CallError>
    where
        R: DeserializeOwned,
    {
        let mut address = self.rest.address(method)?;
        if !query.is_empty() {
            address.query_pairs_mut().extend_pairs(query);
        }
        let request = self.rest.request_to(Method::GET, address)?;
        self.exchange(request.bearer_auth(self.bot.expose())).await
    }

    /// Returns the address of a new connection. It holds a ticket: it is not to be shown.
    pub(crate) async fn open_connection(&self) -> Result<String, CallError> {
        #[derive(Deserialize)]
        struct Opened {
            url: String,
        }
        let request = self.rest.request(Method::POST, "apps.connections.open")?;
        let opened: Opened = self
            .exchange(request.bearer_auth(self.app.expose()))
            .await?;
        Ok(opened.url)
    }

    async fn exchange<R: DeserializeOwned>(&self, request: RequestBuilder) -> Result<R, CallError> {
        let answer = self.rest.answer(request).await?;
        let pause = retry_after(&answer.headers).unwrap_or(DEFAULT_RETRY_AFTER);
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(CallError::RateLimited(pause));
        }
        let verdict: ApiVerdict = match self.rest.read(&answer.body) {
            Err(_) if !answer.status.is_success() => {
                return Err(Rest::intermediary_error("Slack", answer.status));
            }
            verdict => verdict?,
        };
        if verdict.ok {
            return self.rest.read(&answer.body);
        }
        let scrub = |text: String| self.rest.scrub(&text);
        let code = verdict
            .error
            .map_or_else(|| "no reason was given".to_owned(), scrub);
        Err(match from_code(code, verdict.needed.map(scrub)) {
            CallError::RateLimited(_) => CallError::RateLimited(pause),
            error => error,
        })
    }
}

/// The part of every answer that says whether the call was made.
#[derive(Debug, Deserialize)]
struct ApiVerdict {
    ok: bool,
    error: Option<String>,
    needed: Option<String>,
}
