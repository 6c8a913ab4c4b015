//! Loads the configuration with every section registered.

use std::path::PathBuf;

use nanobot_channels::DeliverySettings;
use nanobot_config::{Config, ConfigError, Environment, Loader, Paths, Schema};
use nanobot_heartbeat::HeartbeatSettings;
use nanobot_memory::MemorySettings;
use nanobot_server::ServerConfig;
use nanobot_tools::ToolsConfig;
use serde_json::{Value, json};

use crate::RetentionSettings;
use crate::channels::{LIFECYCLE_NOTICES, LifecycleNotices, shared_keys};
use crate::cron::CronConfig;
use crate::model::ProviderSection;
use crate::platforms;
use crate::rotating::LogSettings;
use crate::settings::{AgentDefaults, SessionsConfig, SkillsConfig};
use crate::transcription::TranscriptionConfig;

/// What the command line says about the configuration.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--workspace`.
    pub workspace: Option<String>,
    /// Further keys with their values, the strongest layer.
    pub overrides: Vec<(String, String)>,
    /// A file named by `config` need not exist: it is about to be written.
    pub may_be_missing: bool,
}

/// Makes ring the crypto library of this process. Call it once before anything connects; calling
/// it again does nothing.
pub fn install_tls() {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::trace!("a crypto library was installed before");
    }
}

/// Loads the configuration of this process.
///
/// # Errors
/// [`ConfigError`], which says where and what to try.
pub fn load(options: &LoadOptions) -> Result<Config, ConfigError> {
    load_in(Environment::of_process(), options)
}

/// The same for an environment that is not this process's own.
///
/// # Errors
/// As [`load`].
pub fn load_in(environment: Environment, options: &LoadOptions) -> Result<Config, ConfigError> {
    let paths = Paths::resolve(&environment, options.config.as_deref())?;
    let mut loader = Loader::new(schema()?, paths, environment);
    if options.may_be_missing {
        loader = loader.may_be_missing();
    }
    if let Some(workspace) = &options.workspace {
        loader = loader.with_override("agents.defaults.workspace", workspace);
    }
    for (key, value) in &options.overrides {
        loader = loader.with_override(key, value);
    }
    loader.load()
}

pub(crate) fn schema() -> Result<Schema, ConfigError> {
    let known_providers = nanobot_providers::TABLE.iter().map(|spec| spec.name);
    Schema::new()
        .section("agents.defaults", &AgentDefaults::default())?
        .map("providers", &ProviderSection::template())?
        .names("providers", known_providers)
        .section("channels", &DeliverySettings::default())?
        .variants("channels", "kind", channel_sections())?
        .section(&format!("channels.{LIFECYCLE_NOTICES}"), &LifecycleNotices::default())?
        .section("tools", &ToolsConfig::default())?
        .section("gateway", &ServerConfig::default())?
        .section("gateway.heartbeat", &HeartbeatSettings::default())?
        .section("sessions", &SessionsConfig::default())?
        .section("skills", &SkillsConfig::default())?
        .section("transcription", &TranscriptionConfig::default())?
        .section("memory", &MemorySettings::default())?
        .section("cron", &CronConfig::default())?
        .section("logs", &LogSettings::default())?
        .section("retention", &RetentionSettings::default())
}

/// The sections of platforms with the keys that every channel has, so that these are known.
fn channel_sections() -> Vec<(&'static str, Value)> {
    let mut sections = platforms::defaults();
    for section in sections.iter_mut().filter_map(|(_, section)| section.as_object_mut()) {
        for key in shared_keys() {
            let nothing = match key.as_str() {
                // The ids of groups are people's own words.
                "groups" => json!({}),
                "dm" => json!({ "enabled": null, "policy": null, "allowFrom": null }),
                _ => Value::Null,
            };
            section.entry(key).or_insert(nothing);
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use nanobot_session::Durability;

    use super::*;

    #[test]
    fn every_section_can_be_registered_and_read_back() {
        let environment = Environment::new([], Some("/nowhere".into()), "/".into());
        let paths = Paths::resolve(&environment, None).unwrap();
        let config = Loader::new(schema().unwrap(), paths, environment).load().unwrap();
        assert_eq!(config.section::<AgentDefaults>("agents.defaults").unwrap(), AgentDefaults::default());
        assert_eq!(config.section::<ToolsConfig>("tools").unwrap(), ToolsConfig::default());
        assert_eq!(config.section::<DeliverySettings>("channels").unwrap(), DeliverySettings::default());
        assert_eq!(config.section::<SkillsConfig>("skills").unwrap(), SkillsConfig::default());
    }

    #[test]
    fn the_durability_of_sessions_is_one_of_two_words() {
        let load = |word: Option<&str>| {
            let environment = Environment::new([], Some("/nowhere".into()), "/".into());
            let overrides = word.map(|word| ("sessions.durability".to_owned(), word.to_owned()));
            let options = LoadOptions { overrides: overrides.into_iter().collect(), ..LoadOptions::default() };
            load_in(environment, &options).unwrap()
        };
        for (word, durability) in
            [(None, Durability::Disk), (Some("disk"), Durability::Disk), (Some("os"), Durability::Os)]
        {
            let sessions = load(word).section::<SessionsConfig>("sessions").unwrap();
            assert_eq!(sessions, SessionsConfig { durability });
            let store = format!("{:?}", crate::session_store(&load(word)).unwrap());
            assert!(store.contains(&format!("durability: {durability:?}")), "{word:?} reaches the store: {store}");
        }
        let error = crate::session_store(&load(Some("never"))).unwrap_err().to_string();
        assert!(error.contains("sessions.durability"), "{error}");
    }
}
