//! The mailbox's OAuth provider, which issues access tokens for a refresh token (RFC 6749, section
//! 6).

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nanobot_testkit::Watched;
use nanobot_testkit::http::{Request, Response};
use serde_json::json;
use url::form_urlencoded;

use crate::account::USER;
use crate::state::MailState;

/// The initial refresh token of the mailbox.
pub const REFRESH_TOKEN: &str = "Refresh-token-of-the-fake 0";
/// Client id of the program's registration.
pub const CLIENT_ID: &str = "client-of-the-fake";
/// Client secret of the program's registration.
pub const CLIENT_SECRET: &str = "Client-secret-of-the-fake";

/// State of the provider.
#[derive(Debug)]
pub(crate) struct TokenProvider {
    pub(crate) refresh: Option<String>,
    /// `true` if every answer contains a new refresh token.
    pub(crate) rotates: bool,
    /// Announced lifetime of access tokens, in seconds.
    pub(crate) lasts: u64,
    /// Number of access tokens issued.
    pub(crate) given: usize,
    /// Access tokens that are accepted.
    pub(crate) valid: BTreeSet<String>,
}

impl Default for TokenProvider {
    fn default() -> Self {
        Self {
            refresh: Some(REFRESH_TOKEN.to_owned()),
            rotates: false,
            lasts: 3600,
            given: 0,
            valid: BTreeSet::new(),
        }
    }
}

impl TokenProvider {
    /// Returns `true` if an `XOAUTH2` response contains an accepted token.
    pub(crate) fn lets_in(&self, shown: &str) -> bool {
        let decoded = STANDARD.decode(shown).unwrap_or_default();
        self.valid.iter().any(|token| {
            format!("user={USER}\x01auth=Bearer {token}\x01\x01").as_bytes() == decoded
        })
    }

    /// Returns the reasons sent before a login is refused.
    pub(crate) fn reasons() -> String {
        STANDARD.encode(
            json!({"status": "400", "schemes": "Bearer", "scope": "https://mail.test/"})
                .to_string(),
        )
    }
}

/// Answers a token request.
pub(crate) fn answer(state: &Watched<MailState>, request: &Request) -> Response {
    let is_form = request
        .header("content-type")
        .is_some_and(|kind| kind == "application/x-www-form-urlencoded");
    if request.method != "POST" || request.path() != "/token" || !is_form {
        state.change(|state| {
            state
                .violations
                .push(format!("{} {}", request.method, request.target));
        });
        return Response::json(404, &json!({}));
    }
    let form: Vec<(String, String)> = form_urlencoded::parse(&request.body).into_owned().collect();
    let field = |name: &str| {
        form.iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let refused = |status, error: &str, why: &str| {
        Response::json(status, &json!({"error": error, "error_description": why}))
    };
    if field("grant_type").as_deref() != Some("refresh_token") {
        return refused(400, "unsupported_grant_type", "only refresh_token");
    }
    if field("client_id").as_deref() != Some(CLIENT_ID)
        || field("client_secret").as_deref() != Some(CLIENT_SECRET)
    {
        return refused(401, "invalid_client", "The OAuth client was not found.");
    }
    state.change(|state| {
        let provider = &mut state.provider;
        if provider.refresh.is_none() || field("refresh_token") != provider.refresh {
            return refused(400, "invalid_grant", "Token has been expired or revoked.");
        }
        provider.given += 1;
        let token = format!("Access-token-of-the-fake.{}", provider.given);
        provider.valid.insert(token.clone());
        let mut answer =
            json!({"access_token": token, "expires_in": provider.lasts, "token_type": "Bearer"});
        if provider.rotates {
            let next = format!("Refresh-token-of-the-fake {}", provider.given);
            if let Some(keys) = answer.as_object_mut() {
                keys.insert("refresh_token".to_owned(), next.as_str().into());
            }
            provider.refresh = Some(next);
        }
        Response::json(200, &answer)
    })
}
