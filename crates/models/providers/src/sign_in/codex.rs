//! The login at ChatGPT: OAuth with an authorization code and PKCE (RFC 7636).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use nanobot_redact::Secret;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::fetch::{Answer, RenewError, address, post};
use super::store::Grant;
use super::{header, is_token};
use crate::HttpClients;

/// Address of the login server.
pub(super) const SERVER: &str = "https://auth.openai.com";
/// Port of the address that the browser is sent to. The login server accepts no other one.
pub(super) const CALLBACK_PORT: u16 = 1455;
/// Path of that address.
pub(super) const CALLBACK_PATH: &str = "/auth/callback";

const CLIENT: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const SCOPE: &str = "openid profile email offline_access";
const ORIGINATOR: &str = "nanobot";

#[derive(Deserialize)]
struct Tokens {
    access_token: Secret,
    refresh_token: Option<Secret>,
    expires_in: Option<u64>,
    id_token: Option<Secret>,
}

/// Returns the address that asks for an authorization.
pub(super) fn authorization(server: &Url, redirect: &str, state: &str, verifier: &Secret) -> Url {
    let mut url = address(server, "oauth/authorize");
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()));
    url.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", redirect),
        ("scope", SCOPE),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("id_token_add_organizations", "true"),
        ("codex_cli_simplified_flow", "true"),
        ("state", state),
        ("originator", ORIGINATOR),
    ]);
    url
}

/// Exchanges the code of an authorization.
pub(super) async fn exchange(
    http: &HttpClients,
    server: &Url,
    redirect: &str,
    code: &Secret,
    verifier: &Secret,
) -> Result<Grant, RenewError> {
    let fields = [
        ("grant_type", "authorization_code"),
        ("client_id", CLIENT),
        ("code", code.expose()),
        ("code_verifier", verifier.expose()),
        ("redirect_uri", redirect),
    ];
    grant(http, server, &fields, None).await
}

/// Renews the tokens.
pub(super) async fn renew(
    http: &HttpClients,
    server: &Url,
    old: &Grant,
) -> Result<Grant, RenewError> {
    let fields = [
        ("grant_type", "refresh_token"),
        ("refresh_token", old.refresh_token.expose()),
        ("client_id", CLIENT),
    ];
    grant(http, server, &fields, Some(old)).await
}

async fn grant(
    http: &HttpClients,
    server: &Url,
    fields: &[(&str, &str)],
    old: Option<&Grant>,
) -> Result<Grant, RenewError> {
    let answer = post(http, &address(server, "oauth/token"), fields)
        .await
        .map_err(RenewError::Failed)?;
    if !answer.status.is_success() {
        return Err(RenewError::of_refusal(&answer));
    }
    read(server, answer, old).ok_or_else(|| RenewError::unusable("it sent no usable tokens"))
}

/// Reads tokens. A server that does not rotate sends no refresh token.
fn read(server: &Url, answer: Answer, old: Option<&Grant>) -> Option<Grant> {
    let tokens: Tokens = serde_json::from_value(answer.body).ok()?;
    let refresh_token = tokens
        .refresh_token
        .or_else(|| old.map(|old| old.refresh_token.clone()))?;
    let account = account(&tokens.access_token)
        .or_else(|| account(tokens.id_token.as_ref()?))
        .or_else(|| old?.account.clone())?;
    let mut grant = Grant {
        server: server.to_string(),
        access_token: tokens.access_token,
        refresh_token,
        ends_at: None,
        renew_at: None,
        account: Some(account),
        api: None,
    };
    grant.set_life(tokens.expires_in);
    is_token(grant.access_token.expose()).then_some(grant)
}

/// Returns the account in a token. It comes from the login server by HTTPS, so the signature is not
/// checked.
fn account(token: &Secret) -> Option<String> {
    let claims = token.expose().split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Value = nanobot_types::json::from_slice(&claims).ok()?;
    let account = claims
        .get("https://api.openai.com/auth")?
        .get("chatgpt_account_id")?;
    let account = account.as_str()?;
    is_token(account).then(|| account.to_owned())
}

/// Returns the headers of requests to the model.
pub(super) fn headers(grant: &Grant) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(account) = grant.account.as_deref().and_then(header) {
        headers.insert("chatgpt-account-id", account);
    }
    for (name, value) in [
        ("openai-beta", "responses=experimental"),
        ("originator", ORIGINATOR),
        ("accept", "text/event-stream"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}
