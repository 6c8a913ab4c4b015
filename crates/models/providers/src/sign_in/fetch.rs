//! Requests to login servers.

use std::time::Duration;

use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use nanobot_provider::ProviderError;
use reqwest::{RequestBuilder, Url};
use serde_json::Value;
use url::form_urlencoded;

use super::SignInError;
use crate::HttpClients;
use crate::client::{endpoint_url, network_error};

/// Maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 256 << 10;
/// Time for one request with its answer.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Maximum length of an explanation that is shown, in characters.
const MAX_TEXT: usize = 200;

/// An answer of a login server.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// The body; `Null` if it is no JSON.
    pub(super) body: Value,
}

impl Answer {
    pub(super) fn text(&self, member: &str) -> Option<&str> {
        self.body.get(member).and_then(Value::as_str)
    }

    /// Returns the error code of a refusal, in one of the forms that the servers use.
    pub(super) fn error(&self) -> &str {
        let nested = self.body.pointer("/error/code").and_then(Value::as_str);
        self.text("error").or(nested).unwrap_or_default()
    }

    /// Describes a refusal. The body may contain tokens, so only known members are shown.
    pub(super) fn refusal(&self) -> String {
        let nested = self.body.pointer("/error/message").and_then(Value::as_str);
        let about = ["error_description", "message"]
            .iter()
            .find_map(|member| self.text(member));
        let words = [
            self.status.as_str(),
            self.error(),
            about.or(nested).unwrap_or_default(),
        ];
        let text = words.join(" ");
        let printable = text.trim_end().chars().filter(|c| !c.is_control());
        printable.take(MAX_TEXT).collect()
    }
}

/// Reason why a login server gave no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RenewError {
    /// It refuses the code or token for good.
    #[error("the login server refused: {0}")]
    Refused(String),
    /// The request failed; a later one may succeed.
    #[error(transparent)]
    Failed(ProviderError),
}

impl RenewError {
    /// Classifies a refusal: the server may be busy, or the code or token is not valid. An answer
    /// that is no JSON comes from something in between, and a login must not end by it.
    pub(super) fn of_refusal(answer: &Answer) -> Self {
        let status = answer.status.as_u16();
        match status {
            ..500 if !answer.body.is_object() => {
                Self::unusable(&format!("it answered with status {status} and no JSON"))
            }
            408 | 429 | 500.. => Self::Failed(ProviderError::Server {
                retry_after: None,
                status,
                message: format!("the login server: {}", answer.refusal()),
            }),
            _ => Self::Refused(answer.refusal()),
        }
    }

    pub(super) fn unusable(text: &str) -> Self {
        let text = format!("the answer of the login server: {text}");
        Self::Failed(ProviderError::Malformed(text))
    }
}

impl From<RenewError> for SignInError {
    fn from(error: RenewError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Returns an address below a server.
pub(super) fn address(server: &Url, path: &str) -> Url {
    endpoint_url(server.clone(), path)
}

/// Posts a form.
pub(super) async fn post(
    http: &HttpClients,
    url: &Url,
    fields: &[(&str, &str)],
) -> Result<Answer, ProviderError> {
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    let request = http.client_for(url)?.post(url.clone()).body(form);
    let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, kind)]);
    send(url, request, headers).await
}

/// Gets a document.
pub(super) async fn get(
    http: &HttpClients,
    url: &Url,
    headers: HeaderMap,
) -> Result<Answer, ProviderError> {
    let request = http.client_for(url)?.get(url.clone());
    send(url, request, headers).await
}

async fn send(
    url: &Url,
    request: RequestBuilder,
    mut headers: HeaderMap,
) -> Result<Answer, ProviderError> {
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let request = request.headers(headers).timeout(TIME_LIMIT);
    let response = request
        .send()
        .await
        .map_err(|error| network_error(url, error))?;
    let status = response.status();
    let mut bytes = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| network_error(url, error))?;
        if bytes.len().saturating_add(piece.len()) > MAX_ANSWER {
            let text = format!("the login server sent more than {MAX_ANSWER} bytes");
            return Err(ProviderError::Malformed(text));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Answer {
        status,
        body: nanobot_types::json::from_slice(&bytes).unwrap_or_default(),
    })
}
