//! Calls of the Bot API over two HTTP clients: one polls, the other does everything else, so that
//! neither waits for a connection of the other.

use std::path::Path;
use std::time::Duration;

use nanobot_channel::ChannelError;
use nanobot_channel_kit::Rest;
use nanobot_channel_kit::call::{DEFAULT_RETRY_AFTER, MAX_RETRY_AFTER};
use nanobot_channel_kit::http::ProxyMode;
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use teloxide::payloads::GetUpdates;
use teloxide::requests::Payload;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::API_BASE;
use crate::error::{CallError, Refusal};
use crate::{Secret, TelegramConfig};

/// The time that a file may take longer than another request.
const FILE_TIMEOUT: Duration = Duration::from_mins(1);

/// A Bot API server and a token to use it with.
#[derive(Debug)]
pub(crate) struct Api {
    token: Secret,
    /// `true` if it is Telegram's own, so that its paths are none of this machine.
    is_official: bool,
    polls: Rest,
    calls: Rest,
    pool_size: usize,
    pool_timeout: Duration,
    /// A permit for each request that may be under way, polls aside.
    permits: Semaphore,
}

impl Api {
    /// A server by its configuration; opens nothing.
    pub(crate) fn new(
        config: &TelegramConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let pool_size = usize::try_from(config.connection_pool_size).unwrap_or(1);
        let rest = |idle| {
            let proxy = ProxyMode::new(config.proxy.as_ref().map(Secret::expose), shared_proxy)?;
            let rest = Rest::new(&config.api_base, API_BASE, proxy, config.request_timeout())?;
            // The bot's id is public, the rest of the token is not.
            let rest = rest.redacting_part(&config.token, |token| Some(token.split_once(':')?.1));
            Ok::<_, ChannelError>(
                rest.configure_client(move |client| client.pool_max_idle_per_host(idle)),
            )
        };
        let (polls, calls) = (rest(1)?, rest(pool_size)?);
        let official = Url::parse(API_BASE).ok();
        Ok(Self {
            token: config.token.clone(),
            is_official: official.is_some_and(|official| official.host() == calls.base().host()),
            polls,
            calls,
            pool_size,
            pool_timeout: config.pool_timeout(),
            permits: Semaphore::new(pool_size),
        })
    }

    /// Drops the clients and their connections: later requests open new ones.
    pub(crate) fn renew(&self) {
        self.polls.renew();
        self.calls.renew();
    }

    /// Makes a call with a payload of teloxide's and reads what it needs of the result.
    pub(crate) async fn call<P, R>(&self, payload: &P) -> Result<R, CallError>
    where
        P: Payload + Serialize + Sync,
        R: DeserializeOwned,
    {
        self.call_by_name(P::NAME, payload).await
    }

    /// Makes a call that teloxide has no payload for.
    pub(crate) async fn call_by_name<P, R>(&self, method: &str, payload: &P) -> Result<R, CallError>
    where
        P: Serialize + Sync + ?Sized,
        R: DeserializeOwned,
    {
        let _permit = self.acquire_permit().await?;
        let request = self.request(&self.calls, method)?.json(payload);
        self.exchange(&self.calls, request).await
    }

    /// Polls; updates are left as they are, so that one odd update does not spoil the others.
    pub(crate) async fn poll(&self, payload: &GetUpdates) -> Result<Vec<Box<RawValue>>, CallError> {
        let open = Duration::from_secs(payload.timeout.unwrap_or_default().into());
        let request = self.request(&self.polls, GetUpdates::NAME)?.json(payload);
        let request = request.timeout(self.polls.timeout() + open);
        self.exchange(&self.polls, request).await
    }

    /// Sends a file.
    pub(crate) async fn upload<R>(
        &self,
        method: &str,
        form: reqwest::multipart::Form,
    ) -> Result<R, CallError>
    where
        R: DeserializeOwned,
    {
        let _permit = self.acquire_permit().await?;
        let request = self.request(&self.calls, method)?.multipart(form);
        let request = request.timeout(self.calls.timeout() + FILE_TIMEOUT);
        self.exchange(&self.calls, request).await
    }

    /// Fetches a file by the path the server gave for it, unless it is larger than `limit` bytes.
    pub(crate) async fn download(&self, path: &str, limit: u64) -> Result<Vec<u8>, CallError> {
        if !self.is_official && Path::new(path).is_absolute() {
            return read_local(path, limit).await;
        }
        let _permit = self.acquire_permit().await?;
        let place = format!("file/bot{}/{path}", self.token.expose());
        let request = self.calls.request(Method::GET, &place)?;
        let request = request.timeout(self.calls.timeout() + FILE_TIMEOUT);
        let response = self.calls.send(request).await?;
        if !response.status().is_success() {
            return Err(refused(
                response.status().as_u16(),
                "the file cannot be fetched",
            ));
        }
        let bytes = self.calls.body_within(response, limit).await?;
        bytes.ok_or_else(|| refused(413, "the file is larger than allowed"))
    }

    /// Waits for a permit for one more concurrent request.
    async fn acquire_permit(&self) -> Result<SemaphorePermit<'_>, CallError> {
        let full =
            || CallError::Unreachable(format!("all {} connections are in use", self.pool_size));
        let waited = tokio::time::timeout(self.pool_timeout, self.permits.acquire()).await;
        waited
            .map_err(|_too_late| full())?
            .map_err(|_closed| full())
    }

    fn request(&self, rest: &Rest, method: &str) -> Result<RequestBuilder, CallError> {
        rest.request(
            Method::POST,
            &format!("bot{}/{method}", self.token.expose()),
        )
    }

    async fn exchange<R: DeserializeOwned>(
        &self,
        rest: &Rest,
        request: RequestBuilder,
    ) -> Result<R, CallError> {
        let whole = rest.answer(request).await?;
        let status = whole.status;
        let answer: ApiAnswer<'_> = match rest.read(&whole.body) {
            Err(_) if status == StatusCode::PAYLOAD_TOO_LARGE => ApiAnswer::default(),
            Err(_) if !status.is_success() => {
                return Err(Rest::intermediary_error("the server", status));
            }
            answer => answer?,
        };
        match answer.result {
            Some(result) if answer.ok => rest.read(result.get().as_bytes()),
            _ => Err(answer.refusal(rest, status.as_u16())),
        }
    }
}

/// Reads a file that a Bot API server on this machine, run with `--local`, has stored itself.
async fn read_local(path: &str, limit: u64) -> Result<Vec<u8>, CallError> {
    let gone =
        |error: std::io::Error| refused(404, &format!("the file cannot be read here: {error}"));
    if tokio::fs::metadata(path).await.map_err(gone)?.len() > limit {
        return Err(refused(413, "the file is larger than allowed"));
    }
    tokio::fs::read(path).await.map_err(gone)
}

pub(crate) fn refused(code: u16, description: &str) -> CallError {
    CallError::Refused(Refusal {
        code,
        description: description.to_owned(),
        migrated_to: None,
    })
}

/// An answer of the Bot API.
#[derive(Debug, Default, Deserialize)]
struct ApiAnswer<'a> {
    #[serde(default)]
    ok: bool,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error_code: Option<u16>,
    description: Option<String>,
    parameters: Option<Parameters>,
}

#[derive(Debug, Default, Deserialize)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

impl ApiAnswer<'_> {
    fn refusal(self, rest: &Rest, status: u16) -> CallError {
        let Parameters {
            retry_after,
            migrate_to_chat_id,
        } = self.parameters.unwrap_or_default();
        let code = self.error_code.unwrap_or(status);
        if code == 429 && migrate_to_chat_id.is_none() {
            let pause = retry_after.map(Duration::from_secs);
            return CallError::RateLimited(
                pause.unwrap_or(DEFAULT_RETRY_AFTER).min(MAX_RETRY_AFTER),
            );
        }
        let description = self.description;
        let description = description.as_deref();
        CallError::Refused(Refusal {
            code,
            description: rest.scrub(description.unwrap_or("the server answered without a reason")),
            migrated_to: migrate_to_chat_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use nanobot_channel::json;
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn retry_after_is_bounded_and_parsed_leniently() {
        let api = Api::new(&TelegramConfig::default(), None).unwrap();
        let table = [
            ("3", Some(Duration::from_secs(3))),
            ("18446744073709551615", Some(MAX_RETRY_AFTER)),
            ("18446744073709551616", None),
            ("-1", None),
            ("1e308", None),
            // The usual pause.
            ("null", Some(Duration::from_secs(5))),
        ];
        for (value, expected) in table {
            let text = format!(
                r#"{{"ok": false, "error_code": 429, "parameters": {{"retry_after": {value}}}}}"#
            );
            // Another value is no answer of Telegram.
            let refusal = json::from_str::<ApiAnswer<'_>>(&text)
                .ok()
                .map(|answer| answer.refusal(&api.calls, 429));
            let pause = refusal.as_ref().and_then(CallError::retry_after);
            assert_eq!(pause, expected, "{value}");
            assert!(
                Instant::now()
                    .checked_add(pause.unwrap_or_default())
                    .is_some(),
                "{value}"
            );
        }
    }
}
