//! Calls of the Bot API over two HTTP clients: one polls, the other does everything else, so that
//! neither waits for a connection of the other.
//!
//! Decision: an answer is judged once, here, into a [`CallError`]; nothing is retried. Redirects are
//! not followed, because the address holds the token, and every error text is scrubbed of it.

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{ChannelError, json};
use nanobot_channel_kit::http::{self, Failure, Way};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use teloxide::payloads::GetUpdates;
use teloxide::requests::Payload;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::config::API_BASE;
use crate::error::CallError;
use crate::{Secret, TelegramConfig};

/// What a file may take longer than another request.
const FILE_TIME: Duration = Duration::from_mins(1);
/// The longest wait that is believed: clocks cannot add just any number.
const CLOCK_LIMIT: Duration = Duration::from_hours(24 * 365);

/// A Bot API server and a token to use it with.
pub(crate) struct Api {
    token: Secret,
    base: Url,
    /// It is Telegram's own, so what it calls a path is none of this machine.
    is_official: bool,
    way: Way,
    timeout: Duration,
    pool_size: usize,
    pool_timeout: Duration,
    /// A permit for each request that may be under way, polls aside.
    places: Semaphore,
    /// Built with the first call: roots of trust take time and memory.
    clients: Mutex<Option<Clients>>,
}

/// The clients for the two kinds of requests.
#[derive(Clone)]
struct Clients {
    polls: Client,
    calls: Client,
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
        config: &TelegramConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let base = http::api_base(&config.api_base, "https://api.telegram.org")?;
        let pool_size = usize::try_from(config.connection_pool_size).unwrap_or(1);
        Ok(Self {
            token: config.token.clone(),
            is_official: Url::parse(API_BASE).is_ok_and(|official| official.host() == base.host()),
            base,
            way: Way::new(config.proxy.as_ref().map(Secret::expose), shared_proxy)?,
            timeout: config.request_timeout(),
            pool_size,
            pool_timeout: config.pool_timeout(),
            places: Semaphore::new(pool_size),
            clients: Mutex::default(),
        })
    }

    /// Leaves every connection behind: what follows is asked over new ones.
    pub(crate) fn renew(&self) {
        *self.clients.lock().unwrap_or_else(PoisonError::into_inner) = None;
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
        let _place = self.place().await?;
        self.exchange(
            self.clients()?.calls,
            method,
            |request| request.json(payload),
            self.timeout,
        )
        .await
    }

    /// Polls; what comes is left as it is, so that one odd update does not spoil the others.
    pub(crate) async fn poll(&self, payload: &GetUpdates) -> Result<Vec<Box<RawValue>>, CallError> {
        let open = Duration::from_secs(payload.timeout.unwrap_or_default().into());
        self.exchange(
            self.clients()?.polls,
            GetUpdates::NAME,
            |request| request.json(payload),
            self.timeout + open,
        )
        .await
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
        let _place = self.place().await?;
        self.exchange(
            self.clients()?.calls,
            method,
            |request| request.multipart(form),
            self.timeout + FILE_TIME,
        )
        .await
    }

    /// Fetches a file by the path the server gave for it, unless it is larger than `limit` bytes.
    pub(crate) async fn download(&self, path: &str, limit: u64) -> Result<Vec<u8>, CallError> {
        if !self.is_official && Path::new(path).is_absolute() {
            return read_local(path, limit).await;
        }
        let _place = self.place().await?;
        let place = format!("file/bot{}/{path}", self.token.expose());
        let request = self
            .clients()?
            .calls
            .get(self.address(&place)?)
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

    /// A place among the requests that are under way.
    async fn place(&self) -> Result<SemaphorePermit<'_>, CallError> {
        let full =
            || CallError::Unreachable(format!("all {} connections are in use", self.pool_size));
        let waited = tokio::time::timeout(self.pool_timeout, self.places.acquire()).await;
        waited
            .map_err(|_too_late| full())?
            .map_err(|_closed| full())
    }

    async fn exchange<R: DeserializeOwned>(
        &self,
        client: Client,
        method: &str,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder + Send,
        timeout: Duration,
    ) -> Result<R, CallError> {
        let address = self.address(&format!("bot{}/{method}", self.token.expose()))?;
        let request = fill(client.post(address)).timeout(timeout);
        let response = request.send().await.map_err(|error| self.failure(error))?;
        self.read(response).await
    }

    async fn read<R: DeserializeOwned>(&self, response: Response) -> Result<R, CallError> {
        let status = response.status();
        let body = http::json_body(response)
            .await
            .map_err(|error| self.failure(error))?;
        let answer: Answer<'_> = match json::from_slice(&body) {
            Ok(answer) => answer,
            Err(_) if status == StatusCode::PAYLOAD_TOO_LARGE => {
                return Err(Answer::default().refusal(self, 413));
            }
            // Proxies and gateways speak HTML, and know nothing of the bot and its token.
            Err(_) if !status.is_success() => {
                return Err(CallError::Unreachable(format!(
                    "something on the way to the server answered {status}"
                )));
            }
            Err(error) => return Err(self.misunderstood(&error)),
        };
        match answer.result {
            Some(result) if answer.ok => {
                json::from_str(result.get()).map_err(|error| self.misunderstood(&error))
            }
            _ => Err(answer.refusal(self, status.as_u16())),
        }
    }

    fn misunderstood(&self, error: &serde_json::Error) -> CallError {
        CallError::Misunderstood(self.scrub(&error.to_string()))
    }

    fn address(&self, place: &str) -> Result<Url, CallError> {
        let base = self.base.as_str().trim_end_matches('/');
        Url::parse(&format!("{base}/{place}"))
            .map_err(|error| CallError::Setup(self.scrub(&error.to_string())))
    }

    fn clients(&self) -> Result<Clients, CallError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clients) = &*clients {
            return Ok(clients.clone());
        }
        let built = Clients {
            polls: self.build(1)?,
            calls: self.build(self.pool_size)?,
        };
        Ok(clients.insert(built).clone())
    }

    fn build(&self, idle: usize) -> Result<Client, CallError> {
        let builder = http::client(&self.way).pool_max_idle_per_host(idle);
        builder
            .build()
            .map_err(|error| CallError::Setup(self.scrub(&Failure::from(error).text)))
    }

    /// `text` without the token, nor the part of it behind the bot's id.
    fn scrub(&self, text: &str) -> String {
        self.token
            .scrub_with(text, |token| token.split_once(':').map(|(_, key)| key))
    }

    fn failure(&self, error: reqwest::Error) -> CallError {
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

/// Reads what a Bot API server on this machine, run with `--local`, has stored itself.
async fn read_local(path: &str, limit: u64) -> Result<Vec<u8>, CallError> {
    let gone =
        |error: std::io::Error| refused(404, &format!("the file cannot be read here: {error}"));
    if tokio::fs::metadata(path).await.map_err(gone)?.len() > limit {
        return Err(refused(413, "the file is larger than allowed"));
    }
    tokio::fs::read(path).await.map_err(gone)
}

fn refused(code: u16, description: &str) -> CallError {
    CallError::Refused {
        code,
        description: description.to_owned(),
        retry_after: None,
        migrated_to: None,
    }
}

/// An answer of the Bot API.
#[derive(Debug, Default, Deserialize)]
struct Answer<'a> {
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

impl Answer<'_> {
    fn refusal(self, api: &Api, status: u16) -> CallError {
        let parameters = self.parameters.unwrap_or_default();
        CallError::Refused {
            code: self.error_code.unwrap_or(status),
            description: api.scrub(
                self.description
                    .as_deref()
                    .unwrap_or("the server answered without a reason"),
            ),
            retry_after: parameters
                .retry_after
                .map(|seconds| Duration::from_secs(seconds).min(CLOCK_LIMIT)),
            migrated_to: parameters.migrate_to_chat_id,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_pause_is_one_that_clocks_can_add() {
        let api = Api::new(&TelegramConfig::default(), None).unwrap();
        let table = [
            ("3", Some(Duration::from_secs(3))),
            ("18446744073709551615", Some(CLOCK_LIMIT)),
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
            // What is no number of seconds is no answer of Telegram's.
            let refusal = json::from_str::<Answer<'_>>(&text)
                .ok()
                .map(|answer| answer.refusal(&api, 429));
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
