//! Requests for tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, header};
use nanobot_redact::Secret;
use serde::Deserialize;
use url::Url;

use super::client::OAuthClient;
use super::fetch::{Body, Fetcher};
use crate::McpError;

/// Time before the end of a token at which it is renewed, in seconds.
const MARGIN: u64 = 60;
/// Maximum lifetime that is believed, in seconds.
const LONGEST_LIFE: u64 = 10 * 365 * 86_400;

/// Tokens of an answer.
#[derive(Debug, Deserialize)]
pub(super) struct Tokens {
    pub(super) access_token: Secret,
    token_type: String,
    expires_in: Option<u64>,
    pub(super) refresh_token: Option<Secret>,
}

/// Reason why there are no tokens.
#[derive(Debug)]
pub(super) enum TokenFailure {
    /// The authorization server refuses the code or the refresh token for good.
    Refused(String),
    /// The request failed; a later one may succeed.
    Failed(McpError),
}

impl Tokens {
    /// Returns the time at which the access token has to be renewed, in seconds since 1970: a minute
    /// before it ends, or after half of a short life.
    pub(super) fn renew_at(&self) -> Option<u64> {
        let life = self.expires_in?.min(LONGEST_LIFE);
        let used = life.saturating_sub(MARGIN.min(life.div_ceil(2)));
        Some(now().saturating_add(used))
    }
}

/// Returns the time in seconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// Asks for tokens. `fields` are those of the grant, besides the client.
pub(super) async fn request(
    fetcher: &Fetcher,
    endpoint: &Url,
    client: &OAuthClient,
    fields: &[(&str, &str)],
) -> Result<Tokens, TokenFailure> {
    let (mut fields, mut headers) = (fields.to_vec(), HeaderMap::new());
    client.authenticate(&mut fields, &mut headers);
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let answer = fetcher.send(endpoint, Body::Form(&fields), headers).await;
    let answer = answer.map_err(TokenFailure::Failed)?;
    let failed =
        |text: &str| TokenFailure::Failed(McpError::Authorization(crate::session::short(text)));
    if !answer.status.is_success() {
        let (status, error) = answer.refusal();
        let text = format!("the authorization server refused: {status} {error}");
        return Err(match error {
            "invalid_grant" | "invalid_client" | "unauthorized_client" => {
                TokenFailure::Refused(crate::session::short(&text))
            }
            _ => failed(&text),
        });
    }
    // The error of the parser would show a part of the tokens.
    let tokens: Tokens = serde_json::from_value(answer.body)
        .map_err(|_unusable| failed("the authorization server sent no tokens"))?;
    if !tokens.token_type.eq_ignore_ascii_case("bearer") {
        return Err(failed("the authorization server sent no bearer token"));
    }
    if bearer(&tokens.access_token).is_none() {
        return Err(failed("the authorization server sent an unusable token"));
    }
    Ok(tokens)
}

/// Returns the header value of a token; `None` if it cannot be in a header.
pub(super) fn bearer(token: &Secret) -> Option<HeaderValue> {
    if token.expose().is_empty() {
        return None;
    }
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose())).ok()?;
    value.set_sensitive(true);
    Some(value)
}
