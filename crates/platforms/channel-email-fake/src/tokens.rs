//! The mailbox's OAuth provider, which issues access tokens for a refresh token (RFC 6749, section
//! 6).

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::account::USER;

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
