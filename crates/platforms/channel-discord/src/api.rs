//! Calls of the REST API over one HTTP client.
//!
//! Decision: an answer is judged once, here, into a [`CallError`]; nothing is retried. Redirects are
//! not followed, and every error text is scrubbed of the token.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use nanobot_channel::{ChannelError, json};
use nanobot_channel_kit::http::{self, Failure, Way};
use reqwest::multipart::Form;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::CallError;
use crate::limits::Limits;
use crate::route::Route;
use crate::{DiscordConfig, Secret};

/// What a file may take longer than another request.
const FILE_TIME: Duration = Duration::from_secs(90);
/// How long a request waits here for its allowance.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long to wait when the server says "too many" without saying how long.
const USUAL_WAIT: Duration = Duration::from_secs(5);
/// Discord wants to know whose library it talks to.
const USER_AGENT: &str = concat!(
    "DiscordBot (",
    env!("CARGO_PKG_REPOSITORY"),
    ", ",
    env!("CARGO_PKG_VERSION"),
    ") nanobot"
);
/// The longest wait that is believed: clocks cannot add just any number.
pub(crate) const CLOCK_LIMIT: Duration = Duration::from_hours(24 * 365);
/// Where Discord keeps files.
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];
/// How much of an error's details is repeated, in characters.
const DETAILS: usize = 300;

/// What goes with a request.
#[derive(Debug)]
pub(crate) enum Body {
    Empty,
    Json(Value),
    Form(Form),
}

/// A server and a token to use it with.
pub(crate) struct Api {
    pub(crate) token: Secret,
    base: Url,
    way: Way,
    timeout: Duration,
    limits: Limits,
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

impl Api {
    /// A server by its configuration; opens nothing.
    pub(crate) fn new(
        config: &DiscordConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let base = http::api_base(&config.api_base, "https://discord.com/api/v10")?;
        Ok(Self {
            token: config.token.clone(),
            base,
            way: way(config, shared_proxy)?,
            timeout: config.request_timeout(),
            limits: Limits::default(),
            client: OnceLock::new(),
        })
    }

    /// Makes a call and reads what it needs of the answer.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        route: &Route,
        body: Body,
    ) -> Result<R, CallError> {
        let pause = self.limits.pause(&route.bucket);
        if pause > LONGEST_WAIT {
            return Err(CallError::Limited(pause));
        }
        tokio::time::sleep(pause).await;
        let address = format!(
            "{}/{}",
            self.base.as_str().trim_end_matches('/'),
            route.path
        );
        let address = Url::parse(&address).map_err(|error| CallError::Setup(error.to_string()))?;
        let request = self
            .client()?
            .request(route.method.clone(), address)
            .header("authorization", format!("Bot {}", self.token.expose()))
            .timeout(
                self.timeout
                    + if matches!(body, Body::Form(_)) {
                        FILE_TIME
                    } else {
                        Duration::ZERO
                    },
            );
        let request = match body {
            Body::Empty => request,
            Body::Json(value) => request.json(&value),
            Body::Form(form) => request.multipart(form),
        };
        let response = request.send().await.map_err(|error| self.failure(error))?;
        self.read(route, response).await
    }

    async fn read<R: DeserializeOwned>(
        &self,
        route: &Route,
        response: Response,
    ) -> Result<R, CallError> {
        let status = response.status();
        let number = |name: &str| {
            response
                .headers()
                .get(name)?
                .to_str()
                .ok()?
                .parse::<f64>()
                .ok()
        };
        let (left, reset_after, retry_after) = (
            number("x-ratelimit-remaining"),
            number("x-ratelimit-reset-after"),
            number("retry-after"),
        );
        let is_global = response.headers().contains_key("x-ratelimit-global");
        if left == Some(0.0) {
            self.limits
                .hold(&route.bucket, seconds(reset_after).unwrap_or_default());
        }
        let body = http::json_body(response)
            .await
            .map_err(|error| self.failure(error))?;
        if status.is_success() {
            let body = if body.is_empty() {
                b"null".as_slice()
            } else {
                &body
            };
            return json::from_slice(body)
                .map_err(|error| CallError::Misunderstood(self.scrub(&error.to_string())));
        }
        let refusal: Option<Refusal> = json::from_slice(&body).ok();
        if status == StatusCode::TOO_MANY_REQUESTS {
            let told = refusal
                .as_ref()
                .and_then(|refusal| seconds(refusal.retry_after));
            let pause = told.or(seconds(retry_after)).unwrap_or(USUAL_WAIT);
            if is_global || refusal.is_some_and(|refusal| refusal.global) {
                self.limits.hold_all(pause);
            } else {
                self.limits.hold(&route.bucket, pause);
            }
            return Err(CallError::Limited(pause));
        }
        Err(match refusal {
            Some(refusal) => refusal.into_error(self, status.as_u16()),
            None if status == StatusCode::PAYLOAD_TOO_LARGE
                || status == StatusCode::UNAUTHORIZED =>
            {
                CallError::Refused {
                    status: status.as_u16(),
                    code: 0,
                    message: "without a reason".to_owned(),
                }
            }
            // Proxies and gateways speak HTML, and know nothing of the bot and its token.
            None => {
                CallError::Unreachable(format!("something on the way to Discord answered {status}"))
            }
        })
    }

    /// Fetches a file that came with a message, unless it is larger than `limit` bytes.
    pub(crate) async fn download(&self, address: &str, limit: u64) -> Result<Vec<u8>, CallError> {
        let refused = |status, message: &str| CallError::Refused {
            status,
            code: 0,
            message: message.to_owned(),
        };
        let address = Url::parse(address)
            .ok()
            .filter(|address| self.keeps_files(address));
        let address = address.ok_or_else(|| refused(400, "its address is none of Discord's"))?;
        let request = self
            .client()?
            .get(address)
            .timeout(self.timeout + FILE_TIME);
        let response = request.send().await.map_err(|error| self.failure(error))?;
        if !response.status().is_success() {
            return Err(refused(
                response.status().as_u16(),
                "the file cannot be fetched",
            ));
        }
        let bytes = http::body_within(response, limit)
            .await
            .map_err(|error| self.failure(error))?;
        bytes.ok_or_else(|| refused(413, "the file is larger than allowed"))
    }

    fn keeps_files(&self, address: &Url) -> bool {
        let is_discords = address.scheme() == "https"
            && address
                .host_str()
                .is_some_and(|host| FILE_HOSTS.contains(&host));
        is_discords || address.origin() == self.base.origin()
    }

    /// A request for another address of the platform, with neither token nor timeout.
    pub(crate) fn get(&self, address: &str) -> Result<RequestBuilder, CallError> {
        Ok(self.client()?.get(address))
    }

    fn client(&self) -> Result<&Client, CallError> {
        let build = || {
            let builder = http::client(&self.way);
            builder
                .user_agent(USER_AGENT)
                .build()
                .map_err(|error| self.scrub(&Failure::from(error).text))
        };
        self.client
            .get_or_init(build)
            .as_ref()
            .map_err(|why| CallError::Setup(why.clone()))
    }

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

    /// `text` without the token, nor the last part of it, which is its signature.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.token.scrub_with(text, |token| {
            token.rsplit_once('.').map(|(_, signature)| signature)
        })
    }
}

/// The name and the password are for the channel's own proxy alone.
fn way(config: &DiscordConfig, shared: Option<&str>) -> Result<Way, ChannelError> {
    let own = config.proxy.as_ref().map(Secret::expose);
    let way = Way::new(own, shared)?;
    Ok(
        match config.proxy_username.as_deref().filter(|_| own.is_some()) {
            Some(name) => way.with_login(
                name,
                config
                    .proxy_password
                    .as_ref()
                    .map(Secret::expose)
                    .unwrap_or_default(),
            ),
            None => way,
        },
    )
}

/// What Discord says with a refusal.
#[derive(Debug, Deserialize)]
struct Refusal {
    #[serde(default)]
    code: u64,
    message: Option<String>,
    errors: Option<Value>,
    retry_after: Option<f64>,
    #[serde(default)]
    global: bool,
}

impl Refusal {
    fn into_error(self, api: &Api, status: u16) -> CallError {
        let mut message = self
            .message
            .unwrap_or_else(|| "the server gave no reason".to_owned());
        if let Some(errors) = self.errors {
            message = format!(
                "{message} {}",
                errors.to_string().chars().take(DETAILS).collect::<String>()
            );
        }
        CallError::Refused {
            status,
            code: self.code,
            message: api.scrub(&message),
        }
    }
}

/// A wait in seconds; `None` for what is no number of seconds. Longer ones count as [`CLOCK_LIMIT`].
fn seconds(number: Option<f64>) -> Option<Duration> {
    number
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .map(|wait| wait.min(CLOCK_LIMIT))
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_pause_is_one_that_clocks_can_add() {
        let table = [
            (Some(1.5), Some(Duration::from_millis(1500))),
            (Some(0.0), Some(Duration::ZERO)),
            (Some(u64::MAX as f64), None),
            (Some(1e18), Some(CLOCK_LIMIT)),
            (Some(1e308), None),
            (Some(-1.0), None),
            (Some(f64::NAN), None),
            (Some(f64::INFINITY), None),
            (None, None),
        ];
        for (told, expected) in table {
            let pause = seconds(told);
            assert_eq!(pause, expected, "{told:?}");
            assert!(
                Instant::now()
                    .checked_add(pause.unwrap_or_default())
                    .is_some(),
                "{told:?}"
            );
        }
    }
}
