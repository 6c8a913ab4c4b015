//! Calls of the REST API.

use nanobot_channel::ChannelError;
use nanobot_channel_kit::attachment::FetchError;
use nanobot_channel_kit::call::{DEFAULT_RETRY_AFTER, retry_after};
use nanobot_channel_kit::http::ProxyMode;
use nanobot_channel_kit::rest::FILE_TIMEOUT;
use nanobot_channel_kit::{Rest, Secret};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::{API_BASE, BeaconConfig};
use crate::error::{BeaconRefusal, CallError};

/// A server and the token for it.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) rest: Rest,
    token: Secret,
}

#[derive(Debug, Deserialize)]
struct ErrorBody {
    error: String,
}

impl Api {
    /// Creates the client. Does no I/O.
    pub(crate) fn new(
        config: &BeaconConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let proxy = ProxyMode::new(None, shared_proxy)?;
        let rest = Rest::new(&config.api_base, API_BASE, proxy, config.request_timeout())?;
        Ok(Self {
            rest: rest.redacting(&config.token),
            token: config.token.clone(),
        })
    }

    /// Calls a method and reads its result.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<R, CallError> {
        let request = self.rest.request(Method::POST, path)?.json(body);
        let request = request.bearer_auth(self.token.expose());
        let answer = self.rest.answer(request).await?;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            let pause = retry_after(&answer.headers).unwrap_or(DEFAULT_RETRY_AFTER);
            return Err(CallError::RateLimited(pause));
        }
        if answer.status.is_success() {
            return self.rest.read(&answer.body);
        }
        let body: Result<ErrorBody, CallError> = self.rest.read(&answer.body);
        Err(match body {
            Ok(body) => CallError::Refused(BeaconRefusal {
                status: answer.status.as_u16(),
                word: self.rest.scrub(&body.error),
            }),
            Err(_) => Rest::intermediary_error("Beacon", answer.status),
        })
    }

    /// Downloads a file of at most `limit` bytes.
    pub(crate) async fn download(
        &self,
        id: &str,
        limit: u64,
    ) -> Result<Vec<u8>, FetchError<BeaconRefusal>> {
        let mut address = self.rest.address("v1/file")?;
        address.query_pairs_mut().append_pair("id", id);
        let request = self.rest.request_to(Method::GET, address)?;
        let request = request.bearer_auth(self.token.expose());
        let request = request.timeout(self.rest.timeout() + FILE_TIMEOUT);
        let response = self.rest.send(request).await?;
        if !response.status().is_success() {
            return Err(FetchError::Status(response.status().as_u16()));
        }
        let bytes = self.rest.body_within(response, limit).await?;
        bytes.ok_or(FetchError::TooLarge { limit })
    }
}
