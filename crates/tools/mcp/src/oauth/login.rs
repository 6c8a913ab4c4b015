//! A login: the authorization code grant with PKCE (RFC 7636) and the resource parameter (RFC 8707).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use ipnet::IpNet;
use nanobot_redact::Secret;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use url::{Url, form_urlencoded};
use uuid::Uuid;

use super::callback::Callback;
use super::client::OAuthClient;
use super::fetch::Fetcher;
use super::grant::{Grant, GrantFile};
use super::metadata::{Discovery, discover};
use super::request::{TokenFailure, request};
use crate::McpError;
use crate::config::McpOAuthConfig;

/// Time from the beginning of a login to its end.
const TIME_LIMIT: Duration = Duration::from_secs(300);

/// A login that waits for the operator. It is one attempt: the first answer ends it.
#[derive(Debug)]
pub struct McpLogin {
    name: String,
    fetcher: Fetcher,
    discovery: Discovery,
    client: OAuthClient,
    callback: Callback,
    state: Secret,
    verifier: Secret,
    address: Url,
    file: GrantFile,
    deadline: Instant,
}

/// Begins a login at a server. `headers` are those that the operator configured for it.
pub(crate) async fn begin(
    name: &str,
    url: &Url,
    config: &McpOAuthConfig,
    headers: HeaderMap,
    opened: &[IpNet],
    file: GrantFile,
) -> Result<McpLogin, McpError> {
    let deadline = Instant::now() + TIME_LIMIT;
    let fetcher = Fetcher::new(url, opened)?;
    let mut discovery = discover(&fetcher, headers).await?;
    if !config.scopes.is_empty() {
        discovery.scopes = config.scopes.join(" ");
    }
    let callback = Callback::listen().await?;
    let (issuer, redirect) = (&discovery.issuer, callback.address());
    let client = OAuthClient::of(config, issuer, &fetcher, redirect, &discovery.scopes).await?;
    let (state, verifier) = (random(), random());
    let address = address(&discovery, &client, redirect, &state, &verifier);
    Ok(McpLogin {
        name: name.to_owned(),
        fetcher,
        discovery,
        client,
        callback,
        state,
        verifier,
        address,
        file,
        deadline,
    })
}

impl McpLogin {
    /// Returns the address that the operator opens in a browser.
    #[must_use]
    pub const fn address(&self) -> &Url {
        &self.address
    }

    /// Waits for the browser's answer, or for the address of its last page from `pasted`, and stores
    /// the tokens. A future that ends with `None` is ignored.
    ///
    /// # Errors
    /// Returns [`McpError::Authorization`] if the answer is not to this login, the login was
    /// refused, or five minutes have passed since its beginning, and [`McpError::Record`] if the
    /// tokens cannot be stored.
    pub async fn finish(
        self,
        pasted: impl Future<Output = Option<String>>,
    ) -> Result<(), McpError> {
        let finish = async {
            let code = self.code(&self.answer(pasted).await)?;
            self.exchange(&code).await
        };
        let finished = tokio::time::timeout_at(self.deadline, finish).await;
        finished.unwrap_or_else(|_elapsed| Err(failed("the login was not completed in 5 minutes")))
    }

    /// Returns the query of the answer.
    async fn answer(&self, pasted: impl Future<Output = Option<String>>) -> String {
        let pasted = async {
            match pasted.await {
                Some(line) => line,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            query = self.callback.query() => query,
            line = pasted => {
                let query = line.split_once('?').map_or("", |(_, query)| query);
                query.split('#').next().unwrap_or_default().trim().to_owned()
            }
        }
    }

    /// Checks an answer and returns its code.
    fn code(&self, query: &str) -> Result<Secret, McpError> {
        let value = |wanted: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.into_owned())
        };
        if !self.state.is(value("state").unwrap_or_default().as_bytes()) {
            return Err(failed("the answer does not belong to this login"));
        }
        let issuer = &self.discovery.issuer;
        let is_right = match value("iss") {
            Some(named) => named == issuer.issuer,
            None => !issuer.authorization_response_iss_parameter_supported,
        };
        if !is_right {
            return Err(failed("the answer is of another authorization server"));
        }
        if let Some(error) = value("error") {
            let about = value("error_description").unwrap_or_default();
            return Err(failed(&format!("it was refused: {error} {about}")));
        }
        let code = value("code").filter(|code| !code.is_empty());
        code.map(Secret::new)
            .ok_or_else(|| failed("the answer has no code"))
    }

    async fn exchange(&self, code: &Secret) -> Result<(), McpError> {
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", self.callback.address()),
            ("code_verifier", self.verifier.expose()),
            ("resource", self.discovery.resource.as_str()),
        ];
        let endpoint = &self.discovery.issuer.token_endpoint;
        let tokens = request(&self.fetcher, endpoint, &self.client, &fields).await;
        let tokens = tokens.map_err(|failure| match failure {
            TokenFailure::Refused(reason) => failed(&reason),
            TokenFailure::Failed(error) => error,
        })?;
        let grant = Grant {
            url: self.fetcher.server().to_string(),
            resource: self.discovery.resource.clone(),
            token_endpoint: endpoint.clone(),
            client: self.client.clone(),
            renew_at: tokens.renew_at(),
            access_token: tokens.access_token,
            refresh_token: tokens.refresh_token,
        };
        self.file.lock().await?.set(&self.name, Some(grant)).await?;
        Ok(())
    }
}

/// Returns the address that asks for an authorization.
fn address(
    discovery: &Discovery,
    client: &OAuthClient,
    redirect: &str,
    state: &Secret,
    verifier: &Secret,
) -> Url {
    let mut address = discovery.issuer.authorization_endpoint.clone();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.expose()));
    let mut query = address.query_pairs_mut();
    query.extend_pairs([
        ("response_type", "code"),
        ("client_id", &client.id),
        ("redirect_uri", redirect),
        ("state", state.expose()),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", &discovery.resource),
    ]);
    if !discovery.scopes.is_empty() {
        query.append_pair("scope", &discovery.scopes);
    }
    drop(query);
    address
}

/// Returns 64 hexadecimal digits with 244 random bits of the operating system.
fn random() -> Secret {
    Secret::new(format!(
        "{}{}",
        Uuid::new_v4().simple(),
        Uuid::new_v4().simple()
    ))
}

fn failed(text: &str) -> McpError {
    McpError::Authorization(crate::session::short(text))
}
