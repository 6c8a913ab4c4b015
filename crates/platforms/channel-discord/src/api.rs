//! Calls of the REST API, within its rate limits.

use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::Rest;
use nanobot_channel_kit::call::{DEFAULT_RETRY_AFTER, pause_from_secs, retry_after};
use nanobot_channel_kit::http::ProxyMode;
use nanobot_channel_kit::rest::{FILE_TIMEOUT, RestAnswer, SecretPart};
use reqwest::header::HeaderMap;
use reqwest::multipart::Form;
use reqwest::{Method, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::API_BASE;
use crate::error::{CallError, Refusal};
use crate::limits::Limits;
use crate::route::Route;
use crate::{DiscordConfig, Secret};

/// The time that a request waits here for its allowance.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Discord requires the name of the library.
const USER_AGENT: &str = concat!(
    "DiscordBot (",
    env!("CARGO_PKG_REPOSITORY"),
    ", ",
    env!("CARGO_PKG_VERSION"),
    ") nanobot"
);
/// Hosts of Discord's files.
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];
/// Limit of an error's details, in characters.
const MAX_DETAILS_LENGTH: usize = 300;

/// The body of a request.
#[derive(Debug)]
pub(crate) enum Body {
    Empty,
    Json(Value),
    Form(Form),
}

/// A server and a token to use it with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    pub(crate) token: Secret,
    limits: Limits,
}

impl Api {
    /// A server by its configuration; opens nothing.
    pub(crate) fn new(
        config: &DiscordConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let proxy = proxy_mode(config, shared_proxy)?;
        let rest = Rest::new(&config.api_base, API_BASE, proxy, config.request_timeout())?;
        // The last part of a token is its signature.
        let signature: SecretPart = |token| token.rsplit_once('.').map(|(_, signature)| signature);
        Ok(Self {
            rest: rest
                .redacting_part(&config.token, signature)
                .configure_client(|client| client.user_agent(USER_AGENT)),
            token: config.token.clone(),
            limits: Limits::default(),
        })
    }

    /// Returns the id of the bot. A token begins with it, and keeps it when it is reset.
    pub(crate) fn bot_id(&self) -> &str {
        let token = self.token.expose();
        token.split_once('.').map_or("", |(id, _)| id)
    }

    /// Makes a call and reads what it needs of the answer.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        route: &Route,
        body: Body,
    ) -> Result<R, CallError> {
        let pause = self.limits.pause(&route.bucket);
        if pause > MAX_WAIT {
            return Err(CallError::RateLimited(pause));
        }
        tokio::time::sleep(pause).await;
        let request = self
            .rest
            .request(route.method.clone(), &route.path)?
            .header("authorization", format!("Bot {}", self.token.expose()));
        let request = match body {
            Body::Empty => request,
            Body::Json(value) => request.json(&value),
            Body::Form(form) => request
                .multipart(form)
                .timeout(self.rest.timeout() + FILE_TIMEOUT),
        };
        self.parse_answer(route, &self.rest.answer(request).await?)
    }

    fn parse_answer<R: DeserializeOwned>(
        &self,
        route: &Route,
        answer: &RestAnswer,
    ) -> Result<R, CallError> {
        let (status, headers) = (answer.status, &answer.headers);
        if header_number(headers, "x-ratelimit-remaining") == Some(0.0) {
            let reset = header_number(headers, "x-ratelimit-reset-after").and_then(pause_from_secs);
            self.limits.hold(&route.bucket, reset.unwrap_or_default());
        }
        if status.is_success() {
            return self.rest.read(match answer.body.as_slice() {
                [] => b"null",
                body => body,
            });
        }
        let refusal: Option<ErrorBody> = self.rest.read::<_, Refusal>(&answer.body).ok();
        if status == StatusCode::TOO_MANY_REQUESTS {
            let in_body = refusal.as_ref().and_then(|body| body.retry_after);
            let requested = in_body
                .and_then(pause_from_secs)
                .or_else(|| retry_after(headers));
            let pause = requested.unwrap_or(DEFAULT_RETRY_AFTER);
            let is_global = headers.contains_key("x-ratelimit-global");
            if is_global || refusal.is_some_and(|body| body.global) {
                self.limits.hold_all(pause);
            } else {
                self.limits.hold(&route.bucket, pause);
            }
            return Err(CallError::RateLimited(pause));
        }
        Err(match (refusal, status) {
            (Some(refusal), _) => refusal.into_error(self, status.as_u16()),
            (None, StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNAUTHORIZED) => {
                refused(status.as_u16(), "without a reason")
            }
            (None, _) => Rest::intermediary_error("Discord", status),
        })
    }

    /// Fetches a file that came with a message, unless it is larger than `limit` bytes.
    pub(crate) async fn download(&self, address: &str, limit: u64) -> Result<Vec<u8>, CallError> {
        let address = Url::parse(address)
            .ok()
            .filter(|address| self.is_file_host(address))
            .ok_or_else(|| refused(400, "its address is none of Discord's"))?;
        let request = self.rest.request_to(Method::GET, address)?;
        let request = request.timeout(self.rest.timeout() + FILE_TIMEOUT);
        let response = self.rest.send(request).await?;
        if !response.status().is_success() {
            return Err(refused(
                response.status().as_u16(),
                "the file cannot be fetched",
            ));
        }
        let bytes = self.rest.body_within(response, limit).await?;
        bytes.ok_or_else(|| refused(413, "the file is larger than allowed"))
    }

    fn is_file_host(&self, address: &Url) -> bool {
        let is_discords = address.scheme() == "https"
            && address
                .host_str()
                .is_some_and(|host| FILE_HOSTS.contains(&host));
        is_discords || address.origin() == self.rest.base().origin()
    }
}

fn header_number(headers: &HeaderMap, name: &str) -> Option<f64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

fn refused(status: u16, message: &str) -> CallError {
    CallError::Refused(Refusal {
        status,
        code: 0,
        message: message.to_owned(),
    })
}

/// Name and password apply only to the channel's own proxy.
fn proxy_mode(config: &DiscordConfig, shared: Option<&str>) -> Result<ProxyMode, ChannelError> {
    let own = config.proxy.as_ref().map(Secret::expose);
    let proxy = ProxyMode::new(own, shared)?;
    let password = config.proxy_password.as_ref().map(Secret::expose);
    Ok(
        match config.proxy_username.as_deref().filter(|_| own.is_some()) {
            Some(name) => proxy.with_login(name, password.unwrap_or_default()),
            None => proxy,
        },
    )
}

/// Discord's words with a refusal.
#[derive(Debug, Deserialize)]
struct ErrorBody {
    #[serde(default)]
    code: u64,
    message: Option<String>,
    errors: Option<Value>,
    retry_after: Option<f64>,
    #[serde(default)]
    global: bool,
}

impl ErrorBody {
    fn into_error(self, api: &Api, status: u16) -> CallError {
        let mut message = self
            .message
            .unwrap_or_else(|| "the server gave no reason".to_owned());
        if let Some(errors) = self.errors {
            let details: String = errors
                .to_string()
                .chars()
                .take(MAX_DETAILS_LENGTH)
                .collect();
            message = format!("{message} {details}");
        }
        CallError::Refused(Refusal {
            status,
            code: self.code,
            message: api.rest.scrub(&message),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_fetched_from_hosts_of_discord_only() {
        let api = Api::new(&DiscordConfig::default(), None).unwrap();
        let is_fetched = |address: &str| {
            let address = Url::parse(address);
            address.is_ok_and(|address| api.is_file_host(&address))
        };
        assert!(is_fetched(
            "https://cdn.discordapp.com/attachments/1/2/a.png"
        ));
        assert!(!is_fetched(
            "http://cdn.discordapp.com/attachments/1/2/a.png"
        ));
        for row in nanobot_testkit::corpus::rows("ssrf").unwrap() {
            assert!(!is_fetched(row.text("url")), "{}", row.id);
        }
    }
}
