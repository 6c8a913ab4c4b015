//! The token with which a provider is called, renewed before it ends.

use std::sync::Arc;

use nanobot_provider::ProviderError;
use nanobot_redact::Secret;
use reqwest::Url;

use super::fetch::RenewError;
use super::store::{Grant, TokenFile};
use super::{SignInError, advice, codex, copilot, grok};
use crate::build_error::section_key;
use crate::{BuildError, HttpClients, ProviderSettings, ProviderSpec, Selection, SignIn};

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
            SignIn::Grok => grok::renew(&self.http, &self.server, &grant).await,
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

/// Parses the address of a login server.
fn server(sign_in: SignIn, configured: Option<&str>) -> Option<Url> {
    let configured = configured.map(str::trim).filter(|text| !text.is_empty());
    let text = configured.unwrap_or(match sign_in {
        SignIn::Codex => codex::SERVER,
        SignIn::Copilot => copilot::SERVER,
        SignIn::Grok => grok::SERVER,
    });
    let url = Url::parse(text.trim_end_matches('/')).ok()?;
    let is_here = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    (url.scheme() == "https" || (url.scheme() == "http" && is_here)).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sent_to_confidential_login_servers_only() {
        for (text, is_accepted) in [
            ("", true),
            ("https://login.example.org", true),
            ("http://127.0.0.1:1", true),
            ("http://login.example.org", false),
            ("login", false),
        ] {
            assert_eq!(
                server(SignIn::Codex, Some(text)).is_some(),
                is_accepted,
                "{text}"
            );
        }
    }
}
