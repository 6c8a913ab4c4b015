//! Providers with a login instead of a key: OpenAI Codex, GitHub Copilot and xAI Grok.
//!
//! Decision: a login is a command of the operator, and a provider without one fails like a provider
//! without a key. The tokens are in a file per provider. They are read for every request, so that a
//! login or logout of another process counts at once, and a refresh holds the lock of the file,
//! because a refresh token that two processes use may end the login. Requests to login servers are
//! ordinary HTTPS requests of [`HttpClients`](crate::HttpClients), with bounded answers.

mod access;
mod callback;
mod code_grant;
mod codex;
mod copilot;
mod fetch;
mod grok;
mod login;
mod provider;
mod store;

use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderValue};

pub(crate) use self::access::Access;
pub use self::login::{PendingLogin, begin_login, logout};
pub(crate) use self::provider::{SignedIn, Wire};
use self::store::{Grant, TokenFile};
use crate::{ApiKey, ProviderSpec, SignIn, TABLE};

/// Reason why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The provider has no login that can be used; the text says why.
    #[error("{0}")]
    None(String),
    /// The login was not completed, or the tokens could not be used.
    #[error("the login failed: {0}")]
    Failed(String),
    /// The tokens cannot be read or written.
    #[error("{}: {source}", path.display())]
    Store {
        /// Path of the file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

/// Returns the names of the providers with a login in a folder.
#[must_use]
pub fn logged_in(folder: &Path) -> Vec<&'static str> {
    let is_logged_in = |spec: &&ProviderSpec| {
        spec.sign_in.is_some() && matches!(TokenFile::of(spec, folder).read_now(), Ok(Some(_)))
    };
    TABLE
        .iter()
        .filter(is_logged_in)
        .map(|spec| spec.name)
        .collect()
}

/// Returns the tokens of all logins in a folder, for redaction; none of a file that cannot be read.
#[must_use]
pub fn known_tokens(folder: &Path) -> Vec<String> {
    let rows = TABLE.iter().filter(|spec| spec.sign_in.is_some());
    rows.filter_map(|spec| TokenFile::of(spec, folder).read_now().ok().flatten())
        .flat_map(|grant| grant.secrets())
        .collect()
}

impl SignIn {
    /// Returns the headers with which a provider is called.
    fn headers(self, grant: &Grant) -> HeaderMap {
        let mut headers = match self {
            Self::Codex => codex::headers(grant),
            Self::Copilot => copilot::headers(),
            Self::Grok => grok::headers(),
        };
        if let Some(bearer) = header(&format!("Bearer {}", grant.access_token.expose())) {
            headers.insert(http::header::AUTHORIZATION, bearer);
        }
        headers
    }
}

/// Returns a header value that is not logged; `None` if the text cannot be in a header.
fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// `true` if a token can be in a header.
fn is_token(text: &str) -> bool {
    matches!(ApiKey::parse(text), Ok(Some(_)))
}

/// Returns the advice to log in.
fn advice(spec: &ProviderSpec) -> String {
    format!(
        "run `nanobot provider login {}`",
        spec.name.replace('_', "-")
    )
}
