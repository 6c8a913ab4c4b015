//! Calls of the open API.
//!
//! Of answers only what is needed is read: a message that was accepted must not look refused
//! because QQ added a field.

use std::time::Duration;

use nanobot_channel::{ChannelError, Value};
use nanobot_channel_kit::call::{pause_from_secs, retry_after};
use nanobot_channel_kit::http::ProxyMode;
use nanobot_channel_kit::rest::{FILE_TIMEOUT, RestAnswer};
use nanobot_channel_kit::{Downloads, IpNet, Rest, TokenCache, lifetime};
use reqwest::multipart::Form;
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::config::{API_BASE, TOKEN_URL};
use crate::error::{CallError, Refusal, from_code};
use crate::wire::{number, text};
use crate::{QqConfig, Secret};

/// The numbers of messages that a person at QQ reviews first: they were taken.
const UNDER_REVIEW: [u64; 2] = [304_023, 304_024];

/// The open API and the credentials to use it with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    tokens: Rest,
    downloads: Downloads,
    pub(crate) app_id: String,
    secret: Secret,
    token: TokenCache,
}

/// The content of a request.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    Empty,
    Json(&'a Value),
    /// A file as JSON, which takes longer.
    File(&'a Value),
}

/// The gateway, and the number of sessions that can still be begun.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Gateway {
    pub(crate) url: String,
    pub(crate) shards: u64,
    pub(crate) session_start_limit: Option<StartLimit>,
}

/// The limit of new sessions.
#[derive(Debug, Deserialize)]
pub(crate) struct StartLimit {
    pub(crate) remaining: u64,
    /// Milliseconds until the limit begins anew.
    #[serde(default)]
    pub(crate) reset_after: u64,
}

impl Gateway {
    /// Returns the pause until another session can be begun; `None` if one can be begun now.
    pub(crate) fn pause(&self) -> Option<Duration> {
        let limit = self.session_start_limit.as_ref();
        let limit = limit.filter(|limit| limit.remaining == 0)?;
        #[expect(clippy::cast_precision_loss, reason = "it is bounded anyway")]
        pause_from_secs(limit.reset_after as f64 / 1000.0)
    }
}

impl Api {
    /// Creates the API by its configuration. Does no I/O.
    pub(crate) fn new(
        config: &QqConfig,
        shared_proxy: Option<&str>,
        opened: &[IpNet],
    ) -> Result<Self, ChannelError> {
        let own_proxy = config.proxy.as_ref().map(Secret::expose);
        let rest = |base: &str, example| {
            let proxy = ProxyMode::new(own_proxy, shared_proxy)?;
            let rest = Rest::new(base, example, proxy, config.request_timeout())?;
            Ok::<_, ChannelError>(rest.redacting(&config.secret))
        };
        let tokens = rest(config.token_url(), TOKEN_URL).map_err(|error| match error {
            ChannelError::Config { key, message } if key == "apiBase" => ChannelError::Config {
                key: "tokenUrl".to_owned(),
                message,
            },
            error => error,
        })?;
        Ok(Self {
            rest: rest(config.api_base(), API_BASE)?,
            tokens,
            downloads: Downloads::new(
                rest(config.api_base(), API_BASE)?,
                own_proxy.or(shared_proxy),
                opened,
            ),
            app_id: config.app_id.clone(),
            secret: config.secret.clone(),
            token: TokenCache::default(),
        })
    }

    /// Drops the clients and their connections: later requests open new ones.
    pub(crate) fn renew(&self) {
        self.rest.renew();
        self.tokens.renew();
        self.downloads.renew();
    }

    /// Makes a call and returns its answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Body<'_>,
    ) -> Result<T, CallError> {
        self.authorized(|| {
            let request = self.rest.request(method.clone(), path)?;
            Ok(match body {
                Body::Empty => request,
                Body::Json(body) => request.json(body),
                Body::File(body) => request
                    .json(body)
                    .timeout(self.rest.timeout() + FILE_TIMEOUT),
            })
        })
        .await
    }

    /// Sends a form, which `form` creates for each attempt.
    pub(crate) async fn send_form<T: DeserializeOwned>(
        &self,
        path: &str,
        form: impl Fn() -> Form,
    ) -> Result<T, CallError> {
        self.authorized(|| {
            let request = self.rest.request(Method::POST, path)?.multipart(form());
            Ok(request.timeout(self.rest.timeout() + FILE_TIMEOUT))
        })
        .await
    }

    /// Begins a download from an address that QQ gave. The token does not go along.
    pub(crate) async fn download(&self, address: Url) -> Result<Response, CallError> {
        self.downloads.begin(&self.rest, address).await
    }

    /// Asks for the name of the bot.
    pub(crate) async fn identify(&self) -> Result<String, CallError> {
        #[derive(Deserialize)]
        struct Me {
            #[serde(default, deserialize_with = "text")]
            username: String,
        }
        let me: Me = self.call(Method::GET, "users/@me", Body::Empty).await?;
        Ok(me.username)
    }

    /// Asks for the gateway.
    pub(crate) async fn gateway(&self) -> Result<Gateway, CallError> {
        self.call(Method::GET, "gateway/bot", Body::Empty).await
    }

    /// Returns the current token, in the form of the header and of the gateway.
    pub(crate) async fn token(&self) -> Result<Secret, CallError> {
        // Fetching a token changes nothing, so its failure is never ambiguous.
        let token = self.token.get(self.fetch_token()).await;
        token.map_err(CallError::unambiguous)
    }

    /// Drops a token that was refused, unless there is another one by now.
    pub(crate) async fn drop_token(&self, refused: &Secret) {
        self.token.drop_refused(refused).await;
    }

    /// Makes a call with a token, and once more with a new token if that was refused.
    async fn authorized<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> Result<RequestBuilder, CallError>,
    ) -> Result<T, CallError> {
        let call = async |token: &Secret| {
            let request = request()?
                .header("Authorization", token.expose_exact())
                .header("X-Union-Appid", &self.app_id);
            self.judged(&self.rest, request, Some(token)).await
        };
        let first = self.token().await?;
        let answer = match call(&first).await {
            Err(error) if error.is(Refusal::is_about_the_token) => {
                tracing::debug!(%error, "the access token was refused; a new one is fetched");
                self.drop_token(&first).await;
                call(&self.token().await?).await
            }
            outcome => outcome,
        };
        self.rest.read(&answer?.body)
    }

    async fn fetch_token(&self) -> Result<(Secret, Duration), CallError> {
        #[derive(Deserialize)]
        struct Granted {
            #[serde(default, deserialize_with = "text")]
            access_token: String,
            #[serde(default, deserialize_with = "lifetime")]
            expires_in: Duration,
        }
        let body = json!({"appId": self.app_id, "clientSecret": self.secret.expose_exact()});
        let request = self
            .tokens
            .request_to(Method::POST, self.tokens.base().clone())?;
        let answer = self.judged(&self.tokens, request.json(&body), None).await?;
        let granted: Granted = self.tokens.read(&answer.body)?;
        if granted.access_token.is_empty() {
            return Err(CallError::Unreachable("QQ gave no access token".to_owned()));
        }
        let token = Secret::new(format!("QQBot {}", granted.access_token));
        Ok((token, granted.expires_in))
    }

    /// Sends a request. Returns an error unless the call was made: an answer with the status 200
    /// may be a refusal, too.
    async fn judged(
        &self,
        rest: &Rest,
        request: RequestBuilder,
        token: Option<&Secret>,
    ) -> Result<RestAnswer, CallError> {
        let answer = rest.answer(request).await?;
        let verdict: Verdict = match rest.read(&answer.body) {
            Err(_) if answer.status == StatusCode::TOO_MANY_REQUESTS => Verdict::default(),
            Err(_) if !answer.status.is_success() => {
                return Err(Rest::intermediary_error("QQ", answer.status));
            }
            verdict => verdict?,
        };
        let is_taken = match verdict.code() {
            0 => answer.status.is_success(),
            code => UNDER_REVIEW.contains(&code),
        };
        if is_taken {
            return Ok(answer);
        }
        if verdict.code() == 0 && is_foreign(answer.status) {
            return Err(Rest::intermediary_error("QQ", answer.status));
        }
        let scrubbed = rest.scrub(&verdict.message);
        let scrubbed = token.map_or(scrubbed.clone(), |token| {
            token.scrub_with(&scrubbed, bare_token)
        });
        let pause = retry_after(&answer.headers);
        Err(from_code(answer.status, verdict.code(), &scrubbed, pause))
    }
}

/// `true` for a status without a number that is not known from QQ.
fn is_foreign(status: StatusCode) -> bool {
    !matches!(
        status,
        StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE
    )
}

/// Returns the token without the word before it.
pub(crate) fn bare_token(token: &str) -> Option<&str> {
    token.strip_prefix("QQBot ")
}

/// The part of an answer that says whether the call was made.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Verdict {
    #[serde(deserialize_with = "number")]
    code: u64,
    #[serde(deserialize_with = "number")]
    err_code: u64,
    #[serde(deserialize_with = "text")]
    message: String,
}

impl Verdict {
    /// Returns the number of a refusal; 0 if there is none.
    fn code(&self) -> u64 {
        if self.code == 0 {
            self.err_code
        } else {
            self.code
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_a_refusal_is_found_in_every_form() {
        let table = [
            (json!({"code": 11_244, "message": "x"}), 11_244),
            (json!({"code": "11244"}), 11_244),
            (json!({"err_code": 40_034_024}), 40_034_024),
            (json!({"id": "ROBOT1.0_x", "timestamp": "t"}), 0),
            (json!({"code": null, "message": 5}), 0),
        ];
        for (answer, code) in table {
            let verdict: Verdict = serde_json::from_value(answer.clone()).unwrap();
            assert_eq!(verdict.code(), code, "{answer}");
        }
    }

    #[test]
    fn exhausted_sessions_give_a_bounded_pause() {
        let pause = |limit: Value| {
            let gateway = json!({"url": "wss://x.test", "session_start_limit": limit});
            let gateway: Gateway = serde_json::from_value(gateway).unwrap();
            gateway.pause().map(|pause| pause.as_secs())
        };
        assert_eq!(pause(json!({"remaining": 1, "reset_after": 5000})), None);
        assert_eq!(pause(json!({"remaining": 0, "reset_after": 5000})), Some(5));
        assert_eq!(
            pause(json!({"remaining": 0, "reset_after": u64::MAX})),
            Some(31_536_000)
        );
        assert_eq!(pause(Value::Null), None);
    }
}
