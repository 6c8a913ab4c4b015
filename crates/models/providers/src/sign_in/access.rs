//! The token with which a provider is called, renewed before it ends.

use std::sync::Arc;

use nanobot_provider::ProviderError;
use nanobot_redact::Secret;
use reqwest::Url;

use super::fetch::Answer;
use super::login::server;
use super::store::{Grant, TokenFile};
use super::{SignIn, SignInError, advice, codex, copilot};
use crate::factory::section_key;
use crate::{BuildError, HttpClients, ProviderSettings, ProviderSpec, Selection};

/// Access to one provider.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(super) spec: &'static ProviderSpec,
    pub(super) sign_in: SignIn,
    /// Address of the login server.
    pub(super) server: Url,
    pub(super) file: TokenFile,
    pub(super) http: Arc<HttpClients>,
}

/// Reason why a login server gave no tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RenewError {
    /// It refuses the code or token for good.
    #[error("the login server refused: {0}")]
    Refused(String),
    /// The request failed; a later one may succeed.
    #[error(transparent)]
    Failed(ProviderError),
}

impl RenewError {
    /// Classifies a refusal: the server may be busy, or the code or token is not valid.
    pub(super) fn of_refusal(answer: &Answer) -> Self {
        let status = answer.status.as_u16();
        match status {
            408 | 429 | 500.. => Self::Failed(ProviderError::Server {
                status,
                message: format!("the login server: {}", answer.refusal()),
            }),
            _ => Self::Refused(answer.refusal()),
        }
    }

    pub(super) fn unusable(text: &str) -> Self {
        let text = format!("the answer of the login server: {text}");
        Self::Failed(ProviderError::Malformed(text))
    }
}

impl From<RenewError> for SignInError {
    fn from(error: RenewError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Access {
    /// Returns the access that these settings describe. Nothing is read.
    pub(crate) fn of(
        selection: &Selection,
        settings: &ProviderSettings,
        http: Arc<HttpClients>,
    ) -> Result<Self, BuildError> {
        let Selection { name, spec } = selection;
        let unsupported = |why| BuildError::Unsupported {
            label: spec.label,
            why,
        };
        let sign_in = spec.sign_in.ok_or_else(|| unsupported("it has no login"))?;
        let folder = settings.token_folder.as_deref();
        let folder = folder.ok_or_else(|| unsupported("its login needs a folder for tokens"))?;
        let server = server(sign_in, settings.login_base.as_deref());
        Ok(Self {
            spec,
            sign_in,
            server: server.ok_or_else(|| BuildError::BadLoginBase {
                section: section_key(name),
            })?,
            file: TokenFile::of(spec, folder),
            http,
        })
    }

    /// Returns tokens that do not end soon. A token that cannot be renewed at the moment is used
    /// until its end.
    pub(super) async fn grant(&self) -> Result<Grant, ProviderError> {
        let grant = self.stored().await?;
        if !grant.must_be_renewed() {
            return Ok(grant);
        }
        match self.renewed(&grant.access_token).await {
            Err(error) if !matches!(error, ProviderError::Auth(_)) && !grant.has_ended() => {
                tracing::warn!(provider = self.spec.name, %error, "could not renew a login");
                Ok(grant)
            }
            renewed => renewed,
        }
    }

    /// Returns other tokens than those that were refused or end, unless another process has renewed
    /// them.
    pub(super) async fn renewed(&self, old: &Secret) -> Result<Grant, ProviderError> {
        let lock = self
            .file
            .lock()
            .await
            .map_err(|error| self.failed(&error))?;
        let grant = self.stored().await?;
        if grant.access_token != *old {
            return Ok(grant);
        }
        let renewed = match self.sign_in {
            SignIn::Codex => codex::renew(&self.http, &self.server, &grant).await,
            SignIn::Copilot => copilot::renew(&self.http, &self.server, &grant).await,
        };
        let stored = match renewed {
            Ok(grant) => lock.write(&grant).await.map(|()| grant),
            Err(RenewError::Failed(error)) => return Err(error),
            Err(RenewError::Refused(reason)) => {
                tracing::warn!(provider = self.spec.name, reason, "a login has ended");
                let text = format!("the login has ended ({reason}); {}", advice(self.spec));
                lock.remove().await.map_err(|error| self.failed(&error))?;
                return Err(ProviderError::Auth(text));
            }
        };
        stored.map_err(|error| self.failed(&error))
    }

    async fn stored(&self) -> Result<Grant, ProviderError> {
        let stored = self.file.read().await;
        let stored = stored.map_err(|error| self.failed(&error))?;
        stored
            .filter(|grant| grant.server == self.server.as_str())
            .ok_or_else(|| {
                ProviderError::Auth(format!(
                    "there is no login at {}; {}",
                    self.spec.label,
                    advice(self.spec)
                ))
            })
    }

    fn failed(&self, error: &SignInError) -> ProviderError {
        ProviderError::Auth(format!("{error}; {}", advice(self.spec)))
    }
}

/// Returns an address below a server.
pub(super) fn address(server: &Url, path: &str) -> Url {
    crate::factory::endpoint_url(server.clone(), path)
}
