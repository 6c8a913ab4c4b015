//! Login of a channel: the caller asks for its credentials, the platform checks them, and they are
//! written into the configuration.
//!
//! Decision: login also enables the channel, because a channel that is set up and does not run
//! looks broken. A running gateway starts it by itself.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelError, Credential, SetupTask, SignInPrompt};
use nanobot_channels::ChannelsError;
use nanobot_config::{ConfigDraft, SavedConfig};
use serde_json::{Value, json};
use uuid::Uuid;

use super::channel_status::probe_account;
use crate::assembly::channels::{ConfiguredChannel, configured_channels};
use crate::error::chain;
use crate::{Runtime, RuntimeError};

/// Length of the random part of a code, in characters.
const CODE_LENGTH: usize = 12;

/// A key that is learned from an action of the user.
#[derive(Debug)]
pub struct PendingKey {
    channel: Arc<dyn Channel>,
    code: String,
    task: SetupTask,
}

impl PendingKey {
    /// Returns the key of the section.
    #[must_use]
    pub fn key(&self) -> &'static str {
        self.task.key
    }

    /// Returns the steps for the user.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.task.text
    }

    /// Waits until the user has done it. The caller limits the time.
    ///
    /// # Errors
    /// Returns the reason if the key cannot be learned.
    pub async fn discover(&self) -> Result<String, String> {
        let Some(pending_key) = self.channel.key_discovery() else {
            return Err("there is nothing to learn".to_owned());
        };
        pending_key
            .discover(&self.code)
            .await
            .map_err(|error| error.to_string())
    }
}

/// A login in progress.
#[derive(Debug)]
pub struct ChannelLogin {
    configured: ConfiguredChannel,
    credentials: &'static [Credential],
    /// The platform's section in a new configuration.
    defaults: Value,
    changed_keys: Vec<&'static str>,
    is_new_kind: bool,
}

impl ChannelLogin {
    /// Returns the login of the channel called `name`, configured or not. Its platform is `kind`,
    /// else the configured one, else the one called `name`.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Channels`] if this build does not have the platform.
    pub fn new(runtime: &Runtime, name: &str, kind: Option<&str>) -> Result<Self, RuntimeError> {
        let found = configured_channels(runtime)?
            .into_iter()
            .find(|configured| configured.name.as_str() == name);
        let configured_kind = found.as_ref().map(|configured| configured.kind.clone());
        let kind = kind
            .map(str::to_owned)
            .or(configured_kind.clone())
            .unwrap_or_else(|| name.to_owned());
        let factory = runtime.extensions().channels.factory(&kind)?;
        let (credentials, defaults) = (factory.credentials(), factory.default_config());
        let is_new_kind = kind != configured_kind.unwrap_or_else(|| name.to_owned());
        let configured = found.map_or_else(|| ConfiguredChannel::read(runtime, name), Ok)?;
        Ok(Self {
            configured: configured.of_kind(kind),
            credentials,
            defaults,
            changed_keys: Vec::new(),
            is_new_kind,
        })
    }

    /// Returns the credentials to ask for, in this order.
    #[must_use]
    pub fn credentials(&self) -> &'static [Credential] {
        self.credentials
    }

    /// `true` if the credential is configured, so that it need not be given.
    #[must_use]
    pub fn has_credential(&self, credential: &Credential) -> bool {
        match self.configured.raw.section.get(credential.key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.trim().is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        }
    }

    /// `true` if another credential replaces this one, so that it is not asked for.
    #[must_use]
    pub fn is_replaced(&self, credential: &Credential) -> bool {
        let other = |key| self.credentials.iter().find(|other| other.key == key);
        let other = credential.replaced_by.and_then(other);
        other.is_some_and(|other| self.has_credential(other))
    }

    /// `true` if the login has steps of its own on the platform, such as the scan of a code.
    #[must_use]
    pub fn has_sign_in(&self) -> bool {
        self.trial_channel()
            .is_ok_and(|channel| channel.sign_in().is_some())
    }

    /// Records a credential. For a boolean one, everything but a yes is a no; the items of a list
    /// are separated by commas.
    pub fn set_credential(&mut self, credential: &Credential, text: &str) {
        let text = text.trim();
        let value = match self.defaults.get(credential.key) {
            Some(Value::Array(_)) => {
                let items = text.split(',').map(str::trim);
                items.filter(|item| !item.is_empty()).collect()
            }
            Some(Value::Bool(_)) => Value::from(matches!(
                text.to_lowercase().as_str(),
                "yes" | "y" | "true" | "1"
            )),
            _ => Value::from(text),
        };
        if !self.configured.raw.section.is_object() {
            self.configured.raw.section = json!({});
        }
        if let Some(section) = self.configured.raw.section.as_object_mut() {
            section.insert(credential.key.to_owned(), value);
            self.changed_keys.push(credential.key);
        }
    }

    /// Removes a credential that is not required.
    pub fn clear_credential(&mut self, credential: &Credential) {
        self.set_credential(credential, "");
    }

    /// Checks the credentials at the platform. Returns the account that the platform reports;
    /// `None` if the platform cannot be asked.
    ///
    /// # Errors
    /// Returns the reason if the channel cannot be used.
    pub async fn probe(&self) -> Result<Option<String>, String> {
        probe_account(self.trial_channel()?)
            .await
            .map_err(|error: ChannelError| error.to_string())
    }

    /// Logs in together with a person who acts on the platform. Returns the account; `None` if the
    /// credentials are all that the platform needs.
    ///
    /// # Errors
    /// Returns the reason if the login failed.
    pub async fn sign_in(&self, prompt: &dyn SignInPrompt) -> Result<Option<String>, String> {
        let channel = self.trial_channel()?;
        let Some(sign_in) = channel.sign_in() else {
            return Ok(None);
        };
        let signed_in = sign_in.sign_in(prompt).await;
        signed_in.map(Some).map_err(|error| error.to_string())
    }

    /// Makes the channel as it would be after the login.
    fn trial_channel(&self) -> Result<Arc<dyn Channel>, String> {
        let mut trial = self.configured.clone();
        if let Some(section) = trial.raw.section.as_object_mut() {
            section.insert("enabled".to_owned(), Value::from(true));
        }
        trial.channel().map_err(|error| match error {
            // The caller names the channel.
            ChannelsError::Create { source, .. } => source.to_string(),
            error => chain(&error),
        })
    }

    /// Returns the steps by which the program learns a key that the user would not know.
    #[must_use]
    pub fn pending_key(&self) -> Option<PendingKey> {
        let channel = self.trial_channel().ok()?;
        let code = format!(
            "nanobot-{}",
            Uuid::new_v4()
                .simple()
                .to_string()
                .chars()
                .take(CODE_LENGTH)
                .collect::<String>()
        );
        let task = channel.key_discovery()?.task(&code)?;
        Some(PendingKey {
            channel,
            code,
            task,
        })
    }

    /// Records the learned key.
    pub fn set_discovered(&mut self, pending_key: &PendingKey, value: &str) {
        if let Some(section) = self.configured.raw.section.as_object_mut() {
            section.insert(pending_key.task.key.to_owned(), Value::from(value));
            self.changed_keys.push(pending_key.task.key);
        }
    }

    /// Writes the credentials into the configuration and enables the channel. Every other key stays
    /// as it is. Returns the file and the backup of the old one.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if the file cannot be written, or has changed in the
    /// meantime.
    pub fn save(&self, runtime: &Runtime) -> Result<(PathBuf, Option<PathBuf>), RuntimeError> {
        let config = runtime.config();
        let mut draft = config.draft();
        self.apply(&mut draft)?;
        let backup = match draft.save(chrono::Utc::now())? {
            SavedConfig::Written { backup } => backup,
            _ => None,
        };
        Ok((config.paths().config_file.clone(), backup))
    }

    /// Puts the credentials into a draft and enables the channel there.
    pub(super) fn apply(&self, draft: &mut ConfigDraft) -> Result<(), RuntimeError> {
        let key = |key: &str| format!("channels.{}.{key}", self.configured.name);
        if self.is_new_kind {
            draft.set(&key("kind"), &Value::from(self.configured.kind.as_str()))?;
        }
        draft.set(&key("enabled"), &Value::from(true))?;
        for changed in &self.changed_keys {
            if let Some(value) = self.configured.raw.section.get(*changed) {
                draft.set(&key(changed), value)?;
            }
        }
        Ok(())
    }
}
