//! Checks a change of the configuration before it is written.
//!
//! Decision: a change is refused if it makes a section unusable that was usable before. Other
//! sections may be broken already, so that several mistakes can be corrected one by one. A reference
//! to an unset variable is no error here: the gateway may run with another environment.

use std::collections::BTreeMap;
use std::fmt;

use nanobot_channels::DeliverySettings;
use nanobot_config::{ConfigEdit, ConfigError};
use nanobot_heartbeat::HeartbeatSettings;
use nanobot_memory::MemorySettings;
use nanobot_server::ServerConfig;
use nanobot_state::BudgetSettings;
use nanobot_tools::ToolsConfig;
use serde::de::DeserializeOwned;

use crate::assembly::channels::{LIFECYCLE_NOTICES, configured_channels, shared_keys};
use crate::assembly::cron::JobScheduling;
use crate::assembly::rotating_file::LogSettings;
use crate::assembly::settings::{
    AgentDefaults, LifecycleNotices, RetentionSettings, SessionsConfig, SkillsConfig,
    UpdateSettings,
};
use crate::assembly::transcription::TranscriptionConfig;
use crate::assembly::{model, provider_sections};
use crate::{Runtime, RuntimeError, chain};

/// Time at which a change of a key takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectTime {
    /// A running gateway applies it at once.
    Now,
    /// A running gateway applies it to the next message.
    NextMessage,
    /// Programs read it when they start.
    NextStart,
    /// Only editors read it.
    Never,
}

impl EffectTime {
    /// Returns the time for a canonical key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let parts: Vec<&str> = key.split('.').collect();
        let is_shared = |key: &str| {
            !matches!(key, "enabled" | "kind") && shared_keys().iter().any(|shared| shared == key)
        };
        match parts.as_slice() {
            ["$schema"] => Self::Never,
            ["channels", LIFECYCLE_NOTICES, ..] => Self::NextStart,
            ["channels", _, key, ..] if is_shared(key) => Self::NextMessage,
            ["channels", _, ..] if !is_shared(parts.get(1).copied().unwrap_or_default()) => {
                Self::Now
            }
            ["channels", ..] => Self::NextMessage,
            _ => Self::NextStart,
        }
    }
}

impl fmt::Display for EffectTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Now => "Takes effect now: a running gateway reloads the channel.",
            Self::NextMessage => "Takes effect at the next message.",
            Self::Never => "Only editors read it.",
            Self::NextStart => {
                "Takes effect at the next start; `nanobot gateway restart` restarts a running gateway."
            }
        })
    }
}

/// Checks that the configuration can be used after a change as before.
///
/// # Errors
/// Returns the error of the first section that the change would make unusable.
pub fn check_edit(runtime: &Runtime, edit: &ConfigEdit) -> Result<(), RuntimeError> {
    let changed = runtime.with_file_text(&edit.text())?;
    let broken_before = broken_sections(runtime);
    for (section, error) in broken_sections(&changed) {
        let is_new = broken_before
            .get(&section)
            .is_none_or(|before| chain(before) != chain(&error) && names(&error, &edit.key));
        if is_new {
            return Err(error);
        }
    }
    Ok(())
}

/// `true` if an error is about this key.
fn names(error: &RuntimeError, edited: &str) -> bool {
    match error {
        RuntimeError::Config(
            ConfigError::WrongType { key, .. } | ConfigError::Unacceptable { key, .. },
        ) => key == edited,
        _ => false,
    }
}

/// Returns the error of every section that cannot be used.
fn broken_sections(runtime: &Runtime) -> BTreeMap<String, RuntimeError> {
    let mut broken = BTreeMap::new();
    let mut note = |section: &str, checked: Result<(), RuntimeError>| match checked {
        Ok(()) | Err(RuntimeError::Config(ConfigError::UnsetVariable { .. })) => {}
        Err(error) => drop(broken.insert(section.to_owned(), error)),
    };
    let config = runtime.config();
    note(
        "agents.defaults",
        read::<AgentDefaults>(runtime, "agents.defaults"),
    );
    note("agents.defaults.provider", model::check_provider(runtime));
    note("tools", check_tools(runtime));
    note("gateway", read::<ServerConfig>(runtime, "gateway"));
    let heartbeat = "gateway.heartbeat";
    note(heartbeat, read::<HeartbeatSettings>(runtime, heartbeat));
    note("sessions", read::<SessionsConfig>(runtime, "sessions"));
    note("skills", read::<SkillsConfig>(runtime, "skills"));
    let transcription = "transcription";
    note(
        transcription,
        read::<TranscriptionConfig>(runtime, transcription),
    );
    note("memory", read::<MemorySettings>(runtime, "memory"));
    note("cron", JobScheduling::of(config).map(drop));
    note("logs", read::<LogSettings>(runtime, "logs"));
    note("retention", read::<RetentionSettings>(runtime, "retention"));
    note("budget", read::<BudgetSettings>(runtime, "budget"));
    note("update", read::<UpdateSettings>(runtime, "update"));
    for name in config.names("providers").unwrap_or_default() {
        note(
            &format!("providers.{name}"),
            provider_sections::check_section(config, &name),
        );
    }
    note("channels", read::<DeliverySettings>(runtime, "channels"));
    let notices = format!("channels.{LIFECYCLE_NOTICES}");
    note(&notices, read::<LifecycleNotices>(runtime, &notices));
    match configured_channels(runtime) {
        Ok(channels) => {
            for channel in channels.iter().filter(|channel| channel.is_enabled) {
                let made = channel.build().map(drop).map_err(RuntimeError::from);
                note(&format!("channels.{}", channel.name), made);
            }
        }
        Err(error) => note("channels.*", Err(error.into())),
    }
    broken
}

fn read<T: DeserializeOwned>(runtime: &Runtime, section: &str) -> Result<(), RuntimeError> {
    runtime.config().section::<T>(section)?;
    Ok(())
}

fn check_tools(runtime: &Runtime) -> Result<(), RuntimeError> {
    let tools: ToolsConfig = runtime.config().section("tools")?;
    tools.url_guard()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effect_time_depends_on_the_key() {
        let table = [
            ("agents.defaults.model", EffectTime::NextStart),
            ("channels.telegram.token", EffectTime::Now),
            ("channels.telegram.enabled", EffectTime::Now),
            ("channels.telegram.allowFrom", EffectTime::NextMessage),
            ("channels.telegram.dm.policy", EffectTime::NextMessage),
            ("channels.sendProgress", EffectTime::NextMessage),
            ("channels.lifecycleNotices.tell", EffectTime::NextStart),
            ("$schema", EffectTime::Never),
        ];
        for (key, expected) in table {
            assert_eq!(EffectTime::of(key), expected, "{key}");
        }
    }
}
