//! The login at GitHub: a device code (RFC 8628), and a token that is exchanged for a short one of
//! Copilot.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use nanobot_redact::Secret;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::fetch::{Answer, RenewError, address, get, post};
use super::store::{Grant, now};
use super::{header, is_token};
use crate::HttpClients;

/// Address of the login server.
pub(super) const SERVER: &str = "https://github.com";
/// Address of the server that exchanges its tokens.
const EXCHANGE: &str = "https://api.github.com";

const CLIENT: &str = "Iv1.b507a08c87ecfe98";
const SCOPE: &str = "read:user";
const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:device_code";

/// Interval of the questions if the server names none, and what `slow_down` adds to it.
const INTERVAL: Duration = Duration::from_secs(5);
const INTERVALS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(60);
/// Longest time that a code is waited for.
const LONGEST_WAIT: u64 = 1800;

/// A code for the user.
#[derive(Debug, Deserialize)]
pub(super) struct DeviceCode {
    device_code: Secret,
    pub(super) user_code: String,
    pub(super) verification_uri: String,
    expires_in: Option<u64>,
    interval: Option<u64>,
}

impl DeviceCode {
    /// Returns the time until the code ends.
    pub(super) fn life(&self) -> Duration {
        Duration::from_secs(self.expires_in.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT))
    }
}

/// Asks for a code.
pub(super) async fn device_code(
    http: &HttpClients,
    server: &Url,
) -> Result<DeviceCode, RenewError> {
    let url = address(server, "login/device/code");
    let fields = [("client_id", CLIENT), ("scope", SCOPE)];
    let answer = post(http, &url, &fields)
        .await
        .map_err(RenewError::Failed)?;
    if !answer.status.is_success() {
        return Err(RenewError::of_refusal(&answer));
    }
    let code: DeviceCode = serde_json::from_value(answer.body)
        .map_err(|_unusable| RenewError::unusable("it sent no code"))?;
    let is_shown = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
    let is_web =
        Url::parse(&code.verification_uri).is_ok_and(|url| url.scheme().starts_with("http"));
    if is_shown(&code.user_code) && is_shown(&code.verification_uri) && is_web {
        Ok(code)
    } else {
        Err(RenewError::unusable("it sent no usable code"))
    }
}

/// Waits until the user has entered the code, and exchanges the token. The caller limits the time.
pub(super) async fn wait(
    http: &HttpClients,
    server: &Url,
    code: &DeviceCode,
) -> Result<Grant, RenewError> {
    let url = address(server, "login/oauth/access_token");
    let fields = [
        ("client_id", CLIENT),
        ("device_code", code.device_code.expose()),
        ("grant_type", GRANT_TYPE),
    ];
    let mut interval = between(code.interval.map_or(INTERVAL, Duration::from_secs));
    loop {
        tokio::time::sleep(interval).await;
        let answer = post(http, &url, &fields)
            .await
            .map_err(RenewError::Failed)?;
        match progress(&answer, interval)? {
            Progress::Pending(next) => interval = next,
            Progress::Done(token) => return exchange(http, server, &token).await,
        }
    }
}

/// Result of one question.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    /// The user has not entered the code yet; ask again after this time.
    Pending(Duration),
    /// The token.
    Done(Secret),
}

fn progress(answer: &Answer, interval: Duration) -> Result<Progress, RenewError> {
    if let Some(token) = answer.text("access_token").filter(|token| is_token(token)) {
        return Ok(Progress::Done(Secret::new(token)));
    }
    let named = answer.body.get("interval").and_then(Value::as_u64);
    match answer.error() {
        "authorization_pending" => Ok(Progress::Pending(interval)),
        "slow_down" => {
            let slower = interval.saturating_add(INTERVAL);
            let named = named.map(Duration::from_secs);
            Ok(Progress::Pending(between(
                named.unwrap_or(slower).max(interval),
            )))
        }
        "expired_token" => Err(RenewError::Refused("the code has expired".to_owned())),
        "access_denied" => Err(RenewError::Refused("it was denied".to_owned())),
        _ => Err(RenewError::of_refusal(answer)),
    }
}

fn between(interval: Duration) -> Duration {
    interval.clamp(*INTERVALS.start(), *INTERVALS.end())
}

/// Renews the token of Copilot.
pub(super) async fn renew(
    http: &HttpClients,
    server: &Url,
    old: &Grant,
) -> Result<Grant, RenewError> {
    exchange(http, server, &old.refresh_token).await
}

async fn exchange(http: &HttpClients, server: &Url, token: &Secret) -> Result<Grant, RenewError> {
    let is_own = server.as_str().trim_end_matches('/') == SERVER;
    let at = if is_own {
        Url::parse(EXCHANGE).ok()
    } else {
        None
    };
    let url = address(at.as_ref().unwrap_or(server), "copilot_internal/v2/token");
    let mut headers = headers();
    if let Some(value) = header(&format!("token {}", token.expose())) {
        headers.insert(AUTHORIZATION, value);
    }
    let answer = get(http, &url, headers).await.map_err(RenewError::Failed)?;
    if !answer.status.is_success() {
        return Err(RenewError::of_refusal(&answer));
    }
    read(server, &answer, token).ok_or_else(|| RenewError::unusable("it sent no usable token"))
}

fn read(server: &Url, answer: &Answer, refresh_token: &Secret) -> Option<Grant> {
    let access_token = answer.text("token").filter(|token| is_token(token))?;
    let api = answer
        .body
        .pointer("/endpoints/api")
        .and_then(Value::as_str);
    let mut grant = Grant {
        server: server.to_string(),
        access_token: Secret::new(access_token),
        refresh_token: refresh_token.clone(),
        ends_at: None,
        renew_at: None,
        account: None,
        api: api.filter(|api| is_api(api)).map(str::to_owned),
    };
    let ends_at = answer.body.get("expires_at").and_then(Value::as_u64);
    grant.set_life(ends_at.map(|at| at.saturating_sub(now())));
    Some(grant)
}

/// `true` for an address that may receive tokens: by HTTPS, or on this machine.
fn is_api(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        url.username().is_empty()
            && (url.scheme() == "https" || (url.scheme() == "http" && is_here))
    })
}

/// Returns the headers of all requests but those for a code. Copilot serves only editors that it
/// knows.
pub(super) fn headers() -> HeaderMap {
    let headers = [
        ("editor-version", "vscode/1.99.0"),
        ("editor-plugin-version", "copilot-chat/0.26.0"),
        ("copilot-integration-id", "vscode-chat"),
    ];
    let headers = headers.into_iter().map(|(name, value)| {
        let name = http::HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    headers.collect()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_answer_of_the_device_flow_has_its_reaction() {
        let seconds = Duration::from_secs;
        let table = [
            (
                json!({ "error": "authorization_pending" }),
                Ok(Progress::Pending(seconds(5))),
            ),
            (
                json!({ "error": "slow_down" }),
                Ok(Progress::Pending(seconds(10))),
            ),
            (
                json!({ "error": "slow_down", "interval": 12 }),
                Ok(Progress::Pending(seconds(12))),
            ),
            (
                json!({ "error": "slow_down", "interval": 1 }),
                Ok(Progress::Pending(seconds(5))),
            ),
            (
                json!({ "error": "slow_down", "interval": u64::MAX }),
                Ok(Progress::Pending(seconds(60))),
            ),
            (
                json!({ "access_token": "gho_1" }),
                Ok(Progress::Done(Secret::new("gho_1"))),
            ),
            (
                json!({ "access_token": "a\nb", "error": "x" }),
                Err("200 x"),
            ),
            (
                json!({ "error": "expired_token" }),
                Err("the code has expired"),
            ),
            (json!({ "error": "access_denied" }), Err("it was denied")),
            (
                json!({ "error": "unsupported", "error_description": "no\u{1b}[31m" }),
                Err("200 unsupported no[31m"),
            ),
        ];
        for (body, expected) in table {
            let answer = Answer {
                status: StatusCode::OK,
                body: body.clone(),
            };
            let found = progress(&answer, seconds(5)).map_err(|error| error.to_string());
            match expected {
                Ok(expected) => assert_eq!(found, Ok(expected), "{body}"),
                Err(text) => assert!(
                    found.as_ref().is_err_and(|error| error.contains(text)),
                    "{body}: {found:?}"
                ),
            }
        }
    }

    #[test]
    fn only_a_confidential_address_receives_the_token() {
        let table = [
            ("https://api.individual.githubcopilot.com", true),
            ("http://127.0.0.1:1", true),
            ("http://api.githubcopilot.com", false),
            ("https://user@api.githubcopilot.com", false),
            ("ftp://x", false),
            ("x", false),
        ];
        for (text, expected) in table {
            assert_eq!(is_api(text), expected, "{text}");
        }
    }
}
