//! The login at xAI: OAuth with an authorization code and PKCE, as xAI's own program Grok Build uses
//! it. Facts are from <https://github.com/xai-org/grok-build>, version 1.0.6.
//!
//! Decision: the endpoints are fixed and not read from the discovery document, so that no answer can
//! move them. The id token and its nonce are not checked, because nothing of it is used: the tokens
//! come from the login server by HTTPS, and PKCE binds them to this login.

use http::{HeaderMap, HeaderName, HeaderValue};
use nanobot_redact::Secret;
use reqwest::Url;

use super::callback::CallbackPage;
use super::code_grant::{challenge, code_fields, no_usable_tokens, renewal_fields, tokens};
use super::fetch::{RenewError, address};
use super::store::Grant;
use crate::HttpClients;

/// Address of the login server.
pub(super) const SERVER: &str = "https://auth.x.ai";

/// The page that the browser is sent to. The login server accepts any port, and the page of the
/// consent loads the address by a script.
pub(super) const PAGE: CallbackPage = CallbackPage {
    host: "127.0.0.1",
    path: "/callback",
    script_origin: Some("https://accounts.x.ai"),
};

const CLIENT: &str = "b1a00492-073a-47ea-816f-4c329264a828";
/// Scopes for requests to models. Grok Build asks also for those of its conversations and
/// workspaces.
const SCOPE: &str = "openid profile email offline_access grok-cli:access api:access";
const REFERRER: &str = "nanobot";

/// Headers of all requests to the model. The server refuses versions of Grok Build before 0.1.202,
/// and requests without one.
const HEADERS: [(&str, &str); 6] = [
    ("accept", "text/event-stream"),
    ("x-xai-token-auth", "xai-grok-cli"),
    ("x-authenticateresponse", "authenticate-response"),
    ("x-grok-client-version", "1.0.6"),
    ("x-grok-client-identifier", "nanobot"),
    ("x-grok-client-mode", "headless"),
];
/// Header that names the model of a request.
const MODEL_HEADER: &str = "x-grok-model-override";

/// Returns the address that asks for an authorization.
pub(super) fn authorization(
    server: &Url,
    redirect: &str,
    state: &str,
    nonce: &str,
    verifier: &Secret,
) -> Url {
    let mut url = address(server, "oauth2/authorize");
    url.query_pairs_mut().extend_pairs([
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", redirect),
        ("scope", SCOPE),
        ("code_challenge", &challenge(verifier)),
        ("code_challenge_method", "S256"),
        ("state", state),
        ("nonce", nonce),
        ("referrer", REFERRER),
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
    let tokens = tokens(http, &address(server, "oauth2/token"), fields).await?;
    tokens.grant(server, old, None).ok_or_else(no_usable_tokens)
}

/// Returns the headers of requests to the model, without that of [`model_header`].
pub(super) fn headers() -> HeaderMap {
    let headers = HEADERS.map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    });
    headers.into_iter().collect()
}

/// Returns the header that names a model; `None` for a name that cannot be in a header.
pub(super) fn model_header(model: &str) -> Option<(HeaderName, HeaderValue)> {
    let value = HeaderValue::try_from(model).ok()?;
    Some((HeaderName::from_static(MODEL_HEADER), value))
}
