//! Login of a channel: the caller asks for its credentials, the platform checks them, and they are
//! written into the configuration.
//!
//! Decision: login also enables the channel, because a channel that is set up and does not run
//! looks broken. A running gateway starts it by itself.

use std::path::PathBuf;
use std::sync::Arc;

use nanobot_channel::{Channel, ChannelError, Credential, SetupTask};
use nanobot_config::SavedConfig;
use serde_json::{Value, json};
use uuid::Uuid;

use super::channel_status::ask;
use crate::assembly::channels::{ConfiguredChannel, wanted};
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
    pub async fn learn(&self) -> Result<String, String> {
        let Some(lesson) = self.channel.lesson() else {
            return Err("there is nothing to learn".to_owned());
        };
        lesson
            .learn(&self.code)
            .await
            .map_err(|error| error.to_string())
    }
}

/// A login in progress.
#[derive(Debug)]
pub struct ChannelLogin {
    wanted: ConfiguredChannel,
    credentials: &'static [Credential],
    /// The platform's section in a new configuration.
    defaults: Value,
    given: Vec<&'static str>,
    is_new_kind: bool,
}

impl ChannelLogin {
    /// Returns the login of the channel called `name`, configured or not. Its platform is `kind`,
    /// else the configured one, else the one called `name`.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Channels`] if this build does not have the platform.
    pub fn new(runtime: &Runtime, name: &str, kind: Option<&str>) -> Result<Self, RuntimeError> {
        let found = wanted(runtime)?
            .into_iter()
            .find(|wanted| wanted.name.as_str() == name);
        let configured = found.as_ref().map(|wanted| wanted.kind.clone());
        let kind = kind
            .map(str::to_owned)
            .or(configured.clone())
            .unwrap_or_else(|| name.to_owned());
        let factory = runtime.extensions().channels.factory(&kind)?;
        let (credentials, defaults) = (factory.credentials(), factory.default_config());
        let is_new_kind = kind != configured.unwrap_or_else(|| name.to_owned());
        let wanted = found.map_or_else(|| ConfiguredChannel::read(runtime, name), Ok)?;
        Ok(Self {
            wanted: wanted.of_kind(kind),
            credentials,
            defaults,
            given: Vec::new(),
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
    pub fn has(&self, credential: &Credential) -> bool {
        match self.wanted.raw.section.get(credential.key) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.trim().is_empty(),
            Some(_) => true,
        }
    }

    /// Records a credential. For a boolean one, everything but a yes is a no.
    pub fn give(&mut self, credential: &Credential, text: &str) {
        let text = text.trim();
        let value = match self.defaults.get(credential.key) {
            Some(Value::Bool(_)) => Value::from(matches!(
                text.to_lowercase().as_str(),
                "yes" | "y" | "true" | "1"
            )),
            _ => Value::from(text),
        };
        if !self.wanted.raw.section.is_object() {
            self.wanted.raw.section = json!({});
        }
        if let Some(section) = self.wanted.raw.section.as_object_mut() {
            section.insert(credential.key.to_owned(), value);
            self.given.push(credential.key);
        }
    }

    /// Checks the credentials at the platform. Returns the account that the platform reports;
    /// `None` if the platform cannot be asked.
    ///
    /// # Errors
    /// Returns the reason if the channel cannot be used.
    pub async fn probe(&self) -> Result<Option<String>, String> {
        ask(self.trial()?)
            .await
            .map_err(|error: ChannelError| error.to_string())
    }

    /// Makes the channel as it would be after the login.
    fn trial(&self) -> Result<Arc<dyn Channel>, String> {
        let mut trial = self.wanted.clone();
        if let Some(section) = trial.raw.section.as_object_mut() {
            section.insert("enabled".to_owned(), Value::from(true));
        }
        trial.channel().map_err(|error| chain(&error))
    }

    /// Returns the steps by which the program learns a key that the user would not know.
    #[must_use]
    pub fn lesson(&self) -> Option<PendingKey> {
        let channel = self.trial().ok()?;
        let code = format!(
            "nanobot-{}",
            Uuid::new_v4()
                .simple()
                .to_string()
                .chars()
                .take(CODE_LENGTH)
                .collect::<String>()
        );
        let task = channel.lesson()?.task(&code)?;
        Some(PendingKey {
            channel,
            code,
            task,
        })
    }

    /// Records the learned key.
    pub fn learned(&mut self, lesson: &PendingKey, value: &str) {
        if let Some(section) = self.wanted.raw.section.as_object_mut() {
            section.insert(lesson.task.key.to_owned(), Value::from(value));
            self.given.push(lesson.task.key);
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
        let key = |key: &str| format!("channels.{}.{key}", self.wanted.name);
        if self.is_new_kind {
            draft.set(&key("kind"), &Value::from(self.wanted.kind.as_str()))?;
        }
        draft.set(&key("enabled"), &Value::from(true))?;
        for given in &self.given {
            if let Some(value) = self.wanted.raw.section.get(*given) {
                draft.set(&key(given), value)?;
            }
        }
        let backup = match draft.save(chrono::Utc::now())? {
            SavedConfig::Written { backup } => backup,
            _ => None,
        };
        Ok((config.paths().config_file.clone(), backup))
    }
}
