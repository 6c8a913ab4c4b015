//! The login at ChatGPT: OAuth with an authorization code and PKCE.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue};
use nanobot_redact::Secret;
use reqwest::Url;
use serde_json::Value;

use super::callback::CallbackPage;
use super::code_grant::{Tokens, challenge, code_fields, no_usable_tokens, renewal_fields, tokens};
use super::fetch::{RenewError, address};
use super::store::Grant;
use super::{header, is_token};
use crate::HttpClients;

/// Address of the login server.
pub(super) const SERVER: &str = "https://auth.openai.com";
/// Port of the address that the browser is sent to. The login server accepts no other one.
pub(super) const CALLBACK_PORT: u16 = 1455;
/// The page at that address.
pub(super) const PAGE: CallbackPage = CallbackPage {
    host: "localhost",
    path: "/auth/callback",
    script_origin: None,
};

const CLIENT: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
const SCOPE: &str = "openid profile email offline_access";
const ORIGINATOR: &str = "nanobot";

/// Returns the address that asks for an authorization.
pub(super) fn authorization(server: &Url, redirect: &str, state: &str, verifier: &Secret) -> Url {
    let mut url = address(server, "oauth/authorize");
    url.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", redirect),
        ("scope", SCOPE),
        ("code_challenge", &challenge(verifier)),
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
    let fields = code_fields(CLIENT, redirect, code, verifier);
    grant(http, server, &fields, None).await
}

/// Renews the tokens.
pub(super) async fn renew(
    http: &HttpClients,
    server: &Url,
    old: &Grant,
) -> Result<Grant, RenewError> {
    grant(http, server, &renewal_fields(CLIENT, old), Some(old)).await
}

async fn grant(
    http: &HttpClients,
    server: &Url,
    fields: &[(&str, &str)],
    old: Option<&Grant>,
) -> Result<Grant, RenewError> {
    let tokens = tokens(http, &address(server, "oauth/token"), fields).await?;
    let account = named_account(&tokens, old).ok_or_else(no_usable_tokens)?;
    tokens
        .grant(server, old, Some(account))
        .ok_or_else(no_usable_tokens)
}

/// Returns the account of tokens, without which the model cannot be called.
fn named_account(tokens: &Tokens, old: Option<&Grant>) -> Option<String> {
    account(&tokens.access_token)
        .or_else(|| account(tokens.id_token.as_ref()?))
        .or_else(|| old?.account.clone())
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
