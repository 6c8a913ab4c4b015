//! Logins at providers: their state, a login, and a logout.

use nanobot_providers::{PendingLogin, ProviderSpec, SignInError, TABLE, begin_login, logout};

use crate::assembly::model::clients;
use crate::assembly::provider_sections::{self, ProviderAccess};
use crate::{Runtime, RuntimeError};

/// The logins of a home.
#[derive(Debug)]
pub struct ProviderLogins<'a> {
    runtime: &'a Runtime,
}

/// A login that waits for the operator.
#[derive(Debug)]
pub struct ProviderLogin {
    label: &'static str,
    pending: PendingLogin,
}

impl<'a> ProviderLogins<'a> {
    /// Returns the logins. Reads nothing.
    #[must_use]
    pub const fn of(runtime: &'a Runtime) -> Self {
        Self { runtime }
    }

    /// Returns the providers that have something configured, and those with a login. Contacts none,
    /// and returns no secrets.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the configuration cannot be used.
    pub fn status(&self) -> Result<Vec<ProviderAccess>, RuntimeError> {
        provider_sections::accesses(self.runtime.config())
    }

    /// Begins a login at a provider.
    ///
    /// # Errors
    /// Returns [`RuntimeError::SignIn`] if the provider has no login, or its login server does not
    /// answer.
    pub async fn begin(&self, name: &str) -> Result<ProviderLogin, RuntimeError> {
        let spec = spec(name)?;
        let config = self.runtime.config();
        let (selection, settings) = provider_sections::settings_of(config, spec.name)?;
        let pending = begin_login(&selection, &settings, clients(config)?).await;
        Ok(ProviderLogin {
            label: spec.label,
            pending: pending.map_err(|source| failed(spec.label, source))?,
        })
    }

    /// Removes the tokens of a provider. Returns `true` if there were some.
    ///
    /// # Errors
    /// Returns [`RuntimeError::SignIn`] if the provider has no login, or the tokens cannot be
    /// removed.
    pub async fn log_out(&self, name: &str) -> Result<bool, RuntimeError> {
        let spec = spec(name)?;
        let config = self.runtime.config();
        let (selection, settings) = provider_sections::settings_of(config, spec.name)?;
        let removed = logout(&selection, &settings, clients(config)?).await;
        removed.map_err(|source| failed(spec.label, source))
    }
}

impl ProviderLogin {
    /// Returns the provider's display name.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        self.label
    }

    /// Returns the address that the operator opens in a browser.
    #[must_use]
    pub fn address(&self) -> &str {
        self.pending.address()
    }

    /// Returns the code to enter at the address, if there is one.
    #[must_use]
    pub fn user_code(&self) -> Option<&str> {
        self.pending.user_code()
    }

    /// `true` if another program has the port of the browser's answer, so that it has to be pasted.
    #[must_use]
    pub fn must_be_pasted(&self) -> bool {
        self.pending.must_be_pasted()
    }

    /// Waits for the browser's answer, or for its address or code from `pasted`, and stores the
    /// tokens. Dropping the future ends the login.
    ///
    /// # Errors
    /// Returns [`RuntimeError::SignIn`] if the login was refused or not completed in time, or the
    /// tokens cannot be stored.
    pub async fn finish(
        self,
        pasted: impl Future<Output = Option<String>>,
    ) -> Result<(), RuntimeError> {
        let finished = self.pending.finish(pasted).await;
        finished.map_err(|source| failed(self.label, source))
    }
}

fn failed(label: &str, source: SignInError) -> RuntimeError {
    RuntimeError::SignIn {
        provider: label.to_owned(),
        source,
    }
}

fn spec(name: &str) -> Result<&'static ProviderSpec, RuntimeError> {
    if let Some(spec) = ProviderSpec::find(name).filter(|spec| spec.sign_in.is_some()) {
        return Ok(spec);
    }
    let known = TABLE.iter().filter(|spec| spec.sign_in.is_some());
    let known: Vec<String> = known.map(|spec| spec.name.replace('_', "-")).collect();
    let reason = format!("it has no login; these have one: {}", known.join(", "));
    Err(failed(name, SignInError::None(reason)))
}
