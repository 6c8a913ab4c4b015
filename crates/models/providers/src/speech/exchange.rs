//! Requests, retries and time limits shared by all speech protocols.
//!
//! Decision: transient failures are retried a few times within one time limit, because a person
//! waits. If a service names a pause, the next attempt waits at least that long; if the pause
//! exceeds the time limit, the transcription fails at once.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures_util::StreamExt as _;
use http::HeaderMap;
use nanobot_types::json;
use reqwest::{Method, RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::time::Instant;

use super::{SpeechError, SpeechTimeouts};
use crate::HttpClients;
use crate::body::error_body;
use crate::client::network_error;
use crate::fault::{ErrorClassifier, retry_after};

/// Maximum size of a response, in bytes.
pub(super) const MAX_RESPONSE: usize = 4 << 20;
/// Maximum length of an error message that is shown, in characters.
const MAX_MESSAGE_CHARS: usize = 200;

/// Reason why an attempt failed.
#[derive(Debug)]
pub(super) enum AttemptError {
    /// Permanent: a retry would fail too.
    Permanent(SpeechError),
    /// Transient: a retry may succeed, after the pause that the service asks for.
    Transient(SpeechError, Option<Duration>),
}

impl AttemptError {
    /// Creates the failure for a response without the expected content.
    pub(super) fn unexpected(message: &str) -> Self {
        Self::Permanent(SpeechError::Refused {
            status: 200,
            message: message.to_owned(),
        })
    }

    /// Creates the failure for a broken connection.
    pub(super) fn disconnected(why: &impl ToString) -> Self {
        Self::Transient(SpeechError::Unreachable(why.to_string()), None)
    }
}

/// The requests for one recording.
#[derive(Debug)]
pub(super) struct Exchange<'a> {
    pub(super) base: &'a Url,
    pub(super) headers: &'a HeaderMap,
    pub(super) faults: &'a ErrorClassifier,
    pub(super) http: &'a Arc<HttpClients>,
    pub(super) timeouts: &'a SpeechTimeouts,
    pub(super) began: Instant,
    /// Time limit for all requests together.
    pub(super) total: Duration,
}

impl Exchange<'_> {
    /// Returns the URL of an endpoint of the service.
    pub(super) fn address(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}{path}"));
        url
    }

    /// Returns the error for an exceeded time limit.
    pub(super) fn timed_out(&self) -> SpeechError {
        SpeechError::Late {
            seconds: self.total.as_secs(),
        }
    }

    /// Waits, or fails at once if the time limit would be exceeded.
    pub(super) async fn pause(&self, pause: Duration) -> Result<(), SpeechError> {
        if self.began.elapsed().saturating_add(pause) >= self.total {
            return Err(self.timed_out());
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    /// Retries until an attempt succeeds or fails permanently, or until the attempts or the time
    /// are used up.
    pub(super) async fn with_retries<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, SpeechError>
    where
        F: Future<Output = Result<T, AttemptError>>,
    {
        let mut pauses = self.timeouts.pauses.into_iter();
        loop {
            let remaining = self.total.saturating_sub(self.began.elapsed());
            let attempted =
                tokio::time::timeout(remaining.min(self.timeouts.each), attempt()).await;
            let (error, after) = match attempted
                .unwrap_or_else(|_| Err(AttemptError::Transient(self.timed_out(), None)))
            {
                Ok(answer) => return Ok(answer),
                Err(AttemptError::Permanent(error)) => return Err(error),
                Err(AttemptError::Transient(error, after)) => (error, after.unwrap_or_default()),
            };
            let Some(pause) = pauses.next() else {
                return Err(error);
            };
            tracing::debug!(%error, "retrying speech to text");
            if self.pause(pause.max(after)).await.is_err() {
                return Err(error);
            }
        }
    }

    /// Sends a request once and returns the response once its status is known to be a success.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, AttemptError> {
        let client = self.http.client_for(url);
        let client = client.map_err(|error| {
            AttemptError::Permanent(SpeechError::Unreachable(error.to_string()))
        })?;
        let request = fill(
            client
                .request(method, url.clone())
                .headers(self.headers.clone()),
        );
        let response = request
            .send()
            .await
            .map_err(|error| AttemptError::disconnected(&network_error(url, error)))?;
        if response.status().is_success() {
            Ok(response)
        } else {
            Err(self.refusal(response).await)
        }
    }

    /// Sends a request once and parses the JSON response.
    pub(super) async fn request_json(
        &self,
        method: Method,
        url: &Url,
        fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
    ) -> Result<Value, AttemptError> {
        let mut chunks = self.send(method, url, fill).await?.bytes_stream();
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            body.extend_from_slice(
                &chunk.map_err(|error| AttemptError::disconnected(&network_error(url, error)))?,
            );
            if body.len() > MAX_RESPONSE {
                return Err(AttemptError::unexpected("the answer is too long"));
            }
        }
        json::from_slice(&body)
            .map_err(|_not_json| AttemptError::unexpected("the answer is not JSON"))
    }

    /// Returns the message of an error body, with the key redacted.
    pub(super) fn error_message(&self, body: &Value) -> String {
        let message = ["/error/message", "/error", "/message"].into_iter();
        let message = message
            .filter_map(|place| body.pointer(place)?.as_str())
            .next()
            .unwrap_or_default();
        self.faults
            .without_keys(message)
            .chars()
            .take(MAX_MESSAGE_CHARS)
            .collect()
    }

    async fn refusal(&self, response: Response) -> AttemptError {
        let status = response.status().as_u16();
        let after = retry_after(response.headers(), Utc::now());
        let body: Value = json::from_slice(&error_body(response).await).unwrap_or_default();
        let error = SpeechError::Refused {
            status,
            message: self.error_message(&body),
        };
        match status {
            408 | 429 | 500 | 502 | 503 | 504 => AttemptError::Transient(error, after),
            _ => AttemptError::Permanent(error),
        }
    }
}

/// Returns the text at a JSON pointer of a response.
pub(super) fn text(answer: &Value, place: &str) -> Result<String, AttemptError> {
    let text = answer.pointer(place).and_then(Value::as_str);
    text.map(|text| text.trim().to_owned())
        .ok_or_else(|| AttemptError::unexpected("the answer holds no text"))
}
