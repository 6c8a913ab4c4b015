//! The token of a connection: sent with every request, renewed before it ends and once after the
//! server refused it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use nanobot_redact::{Secret, Secrets};
use url::Url;

use super::fetch::Fetcher;
use super::grant::{Grant, GrantFile};
use super::request::{TokenFailure, now, request};
use crate::McpError;

/// Access of one server. Without a login it sends no token.
#[derive(Debug)]
pub(crate) struct Access {
    name: String,
    /// `None` if no login applies: for processes and with a configured header.
    url: Option<Url>,
    file: GrantFile,
    opened: Vec<IpNet>,
    secrets: Secrets,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    grant: Option<Grant>,
    problem: Option<Problem>,
}

/// Reason why the server refuses requests.
#[derive(Debug)]
enum Problem {
    /// There are no tokens, or the server refused these.
    LoginNeeded(Option<Secret>),
    /// The tokens could not be renewed.
    Failed(String),
}

impl Access {
    pub(crate) fn new(
        name: &str,
        url: Option<Url>,
        file: GrantFile,
        opened: Vec<IpNet>,
        secrets: Secrets,
    ) -> Self {
        Self {
            name: name.to_owned(),
            url,
            file,
            opened,
            secrets,
            state: Mutex::default(),
        }
    }

    /// Reads the tokens, at the beginning of a connection. Tokens that cannot be read count as
    /// missing.
    pub(crate) async fn load(&self) {
        let grant = self.stored().await;
        *self.lock_state() = State::default();
        self.adopt(grant);
    }

    /// Returns a token that does not end soon, if there is a login. A token that cannot be renewed
    /// is returned as it is: it may still be valid.
    pub(crate) async fn token(&self) -> Option<Secret> {
        let (token, ends) = {
            let mut state = self.lock_state();
            state.problem = None;
            let grant = state.grant.as_ref()?;
            let ends = grant.renew_at.is_some_and(|at| at <= now());
            let may_renew = grant.refresh_token.is_some();
            (grant.access_token.clone(), ends && may_renew)
        };
        if !ends {
            return Some(token);
        }
        self.renew(Some(&token)).await.or(Some(token))
    }

    /// Returns another token than the one that was refused or ends; `None` if there is none, which
    /// is the [problem](Self::problem) then.
    pub(crate) async fn renew(&self, old: Option<&Secret>) -> Option<Secret> {
        let renewed = match self.renewed(old).await {
            Ok(Some(grant)) => grant,
            Ok(None) => {
                self.adopt(None);
                self.refuse(old);
                return None;
            }
            Err(error) => {
                let text = format!("its login could not be renewed: {}", error.chain());
                tracing::warn!(server = %self.name, error = text, "could not renew a login");
                self.lock_state().problem = Some(Problem::Failed(text));
                return None;
            }
        };
        let token = renewed.access_token.clone();
        self.adopt(Some(renewed));
        Some(token)
    }

    /// Notes that the server refused a token although it was just renewed.
    pub(crate) fn refuse(&self, token: Option<&Secret>) {
        self.lock_state().problem = Some(Problem::LoginNeeded(token.cloned()));
    }

    /// Returns the reason why the server refuses requests, if it does.
    pub(crate) fn problem(&self) -> Option<McpError> {
        Some(match self.lock_state().problem.as_ref()? {
            Problem::LoginNeeded(_) if self.url.is_none() => McpError::HeaderRefused,
            Problem::LoginNeeded(_) => McpError::LoginNeeded {
                name: self.name.clone(),
            },
            Problem::Failed(text) => McpError::Authorization(text.clone()),
        })
    }

    /// `true` if only a login of the operator helps.
    pub(crate) fn needs_login(&self) -> bool {
        let state = self.lock_state();
        self.url.is_some() && matches!(state.problem, Some(Problem::LoginNeeded(_)))
    }

    /// `true` if the operator has logged in since the server refused requests.
    pub(crate) async fn has_new_login(&self) -> bool {
        if !self.needs_login() {
            return false;
        }
        let Some(grant) = self.stored().await else {
            return false;
        };
        match &self.lock_state().problem {
            Some(Problem::LoginNeeded(refused)) => refused.as_ref() != Some(&grant.access_token),
            _ => true,
        }
    }

    async fn stored(&self) -> Option<Grant> {
        match self.file.grant(&self.name, self.url.as_ref()?).await {
            Ok(grant) => grant,
            Err(error) => {
                let error = error.chain();
                tracing::warn!(server = %self.name, error, "could not read the tokens of MCP servers");
                None
            }
        }
    }

    /// Renews the tokens, unless another process has done so. `None` means that there is no login
    /// any more.
    async fn renewed(&self, old: Option<&Secret>) -> Result<Option<Grant>, McpError> {
        let Some(url) = &self.url else {
            return Ok(None);
        };
        let lock = self.file.lock().await?;
        let Some(mut grant) = self.file.grant(&self.name, url).await? else {
            return Ok(None);
        };
        if old != Some(&grant.access_token) {
            return Ok(Some(grant));
        }
        let Some(refresh_token) = grant.refresh_token.clone() else {
            return Ok(None);
        };
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh_token.expose()),
            ("resource", &grant.resource),
        ];
        let fetcher = Fetcher::new(url, &self.opened)?;
        match request(&fetcher, &grant.token_endpoint, &grant.client, &fields).await {
            Ok(tokens) => {
                grant.renew_at = tokens.renew_at();
                grant.access_token = tokens.access_token;
                // A server that does not rotate sends none.
                grant.refresh_token = tokens.refresh_token.or(Some(refresh_token));
                self.secrets.add(grant.secrets());
                lock.set(&self.name, Some(grant.clone())).await?;
                Ok(Some(grant))
            }
            Err(TokenFailure::Refused(reason)) => {
                tracing::warn!(server = %self.name, reason, "the login at an MCP server has ended");
                lock.set(&self.name, None).await?;
                Ok(None)
            }
            Err(TokenFailure::Failed(error)) => Err(error),
        }
    }

    fn adopt(&self, grant: Option<Grant>) {
        if let Some(grant) = &grant {
            self.secrets.add(grant.secrets());
        }
        self.lock_state().grant = grant;
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
