//! The parts that all logins with an authorization code and PKCE (RFC 7636) have in common.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nanobot_redact::Secret;
use reqwest::Url;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::fetch::{RenewError, post};
use super::is_token;
use super::store::Grant;
use crate::HttpClients;

/// The tokens of a login server.
#[derive(Deserialize)]
pub(super) struct Tokens {
    pub(super) access_token: Secret,
    refresh_token: Option<Secret>,
    expires_in: Option<u64>,
    pub(super) id_token: Option<Secret>,
}

impl Tokens {
    /// Returns the grant of these tokens; `None` if they cannot be used. A server that does not
    /// rotate refresh tokens sends none, and the `old` one stays valid.
    pub(super) fn grant(
        self,
        server: &Url,
        old: Option<&Grant>,
        account: Option<String>,
    ) -> Option<Grant> {
        let refresh_token = self
            .refresh_token
            .or_else(|| old.map(|old| old.refresh_token.clone()))?;
        let mut grant = Grant {
            server: server.to_string(),
            access_token: self.access_token,
            refresh_token,
            ends_at: None,
            renew_at: None,
            account,
            api: None,
        };
        grant.set_life(self.expires_in);
        is_token(grant.access_token.expose()).then_some(grant)
    }
}

/// Returns the fields that exchange the code of an authorization.
pub(super) fn code_fields<'a>(
    client: &'a str,
    redirect: &'a str,
    code: &'a Secret,
    verifier: &'a Secret,
) -> [(&'a str, &'a str); 5] {
    [
        ("grant_type", "authorization_code"),
        ("client_id", client),
        ("code", code.expose()),
        ("code_verifier", verifier.expose()),
        ("redirect_uri", redirect),
    ]
}

/// Returns the fields that renew the tokens of a grant.
pub(super) fn renewal_fields<'a>(client: &'a str, old: &'a Grant) -> [(&'a str, &'a str); 3] {
    [
        ("grant_type", "refresh_token"),
        ("refresh_token", old.refresh_token.expose()),
        ("client_id", client),
    ]
}

/// Returns the challenge of a verifier.
pub(super) fn challenge(verifier: &Secret) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()))
}

/// Asks the token endpoint `url` for tokens.
pub(super) async fn tokens(
    http: &HttpClients,
    url: &Url,
    fields: &[(&str, &str)],
) -> Result<Tokens, RenewError> {
    let answer = post(http, url, fields).await.map_err(RenewError::Failed)?;
    if !answer.status.is_success() {
        return Err(RenewError::of_refusal(&answer));
    }
    serde_json::from_value(answer.body).map_err(|_no_tokens| no_usable_tokens())
}

/// Returns the error for tokens that cannot be used.
pub(super) fn no_usable_tokens() -> RenewError {
    RenewError::unusable("it sent no usable tokens")
}
