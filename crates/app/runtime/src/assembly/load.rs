//! Loads the configuration with every section registered.

use std::path::PathBuf;

use nanobot_approvals::ApprovalSettings;
use nanobot_channels::{ChannelSettings, DeliverySettings};
use nanobot_config::{Config, ConfigError, Environment, Loader, Paths, Schema};
use nanobot_heartbeat::HeartbeatSettings;
use nanobot_memory::MemorySettings;
use nanobot_provider::ModelPrice;
use nanobot_server::ServerConfig;
use nanobot_state::BudgetSettings;
use nanobot_tool_files::ToolFilesConfig;
use nanobot_tools::ToolsConfig;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::assembly::channels::{LIFECYCLE_NOTICES, shared_keys};
use crate::assembly::cron::CronConfig;
use crate::assembly::extensions::Extensions;
use crate::assembly::mcp;
use crate::assembly::model_presets::ModelPreset;
use crate::assembly::provider_sections::ProviderSection;
use crate::assembly::rotating_file::LogSettings;
use crate::assembly::section_schema::json_schema;
use crate::assembly::settings::{
    AgentDefaults, LifecycleNotices, RetentionSettings, SessionsConfig, SkillsConfig,
    UpdateSettings,
};
use crate::assembly::transcription::TranscriptionConfig;

/// Options of the command line for the configuration.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--workspace`.
    pub workspace: Option<String>,
    /// Further keys with their values, as the layer of highest precedence.
    pub overrides: Vec<(String, String)>,
    /// Set when the file named by `config` may be missing because it is about to be written.
    pub may_be_missing: bool,
    /// Set when the content of the file does not matter because it is about to be replaced.
    pub replaces_file: bool,
}

/// Installs ring as the TLS crypto provider of this process. Call it once before anything connects;
/// further calls do nothing.
pub fn install_tls() {
    nanobot_tls::install_provider();
}

/// Loads the configuration of a program with these extensions.
pub(super) fn load(
    extensions: &Extensions,
    environment: Environment,
    options: &LoadOptions,
) -> Result<Config, ConfigError> {
    let paths = Paths::resolve(&environment, options.config.as_deref())?;
    let mut loader = Loader::new(schema(extensions)?, paths, environment);
    if options.may_be_missing {
        loader = loader.may_be_missing();
    }
    if options.replaces_file {
        loader = loader.replaces_file();
    }
    if let Some(workspace) = &options.workspace {
        loader = loader.with_override("agents.defaults.workspace", workspace);
    }
    for (key, value) in &options.overrides {
        loader = loader.with_override(key, value);
    }
    loader.load()
}

/// Keys of channels for which `""` means none: no proxy instead of the environment's, no reaction
/// instead of the default one.
const EMPTY_IS_NONE: [&str; 6] = [
    "proxy",
    "reactEmoji",
    "doneEmoji",
    "readReceiptEmoji",
    "workingEmoji",
    "subjectPrefix",
];

/// Returns the sections of all parts, including those of extensions.
pub(super) fn schema(extensions: &Extensions) -> Result<Schema, ConfigError> {
    let known_providers = nanobot_providers::TABLE.iter().map(|spec| spec.name);
    let schema = Schema::new()
        .map("providers", &ProviderSection::template())?
        .describe("providers.*", json_schema::<ProviderSection>)
        .names("providers", known_providers);
    let schema = with_channels(schema, extensions)?;
    let schema = section::<AgentDefaults>(schema, "agents.defaults")?;
    let schema = schema
        .map("modelPresets", &ModelPreset::default())?
        .describe("modelPresets.*", json_schema::<ModelPreset>);
    let schema = section::<ToolsConfig>(schema, "tools")?;
    let schema = section::<ApprovalSettings>(schema, "tools.approvals")?;
    let schema = section::<ToolFilesConfig>(schema, "tools.toolFiles")?;
    let schema = mcp::with_keys(schema)?;
    let schema = section::<ServerConfig>(schema, "gateway")?;
    let schema = section::<HeartbeatSettings>(schema, "gateway.heartbeat")?;
    let schema = section::<SessionsConfig>(schema, "sessions")?;
    let schema = section::<SkillsConfig>(schema, "skills")?;
    let schema = section::<TranscriptionConfig>(schema, "transcription")?;
    let schema = section::<MemorySettings>(schema, "memory")?;
    let schema = section::<CronConfig>(schema, "cron")?;
    let schema = section::<LogSettings>(schema, "logs")?;
    let schema = section::<RetentionSettings>(schema, "retention")?;
    let schema = section::<UpdateSettings>(schema, "update")?;
    let schema = section::<BudgetSettings>(schema, "budget")?
        .map("budget.prices", &ModelPrice::default())?
        .describe("budget.prices.*", json_schema::<ModelPrice>);
    let mut schema = schema
        .empty_counts("tools.web.proxy")
        .empty_counts("providers.*.proxy");
    for factory in &extensions.providers {
        let key = format!("providers.{}", factory.name());
        schema = schema.section(&key, &factory.default_config())?;
    }
    Ok(EMPTY_IS_NONE.iter().fold(schema, |schema, key| {
        schema.empty_counts(&format!("channels.*.{key}"))
    }))
}

/// Adds a section with its defaults and the descriptions of its keys.
fn section<T: Default + Serialize + JsonSchema + 'static>(
    schema: Schema,
    path: &str,
) -> Result<Schema, ConfigError> {
    Ok(schema
        .section(path, &T::default())?
        .describe(path, json_schema::<T>))
}

/// Adds the section `channels`: the keys of all channels, and those of each platform.
fn with_channels(schema: Schema, extensions: &Extensions) -> Result<Schema, ConfigError> {
    let shared = channel_keys().into_iter().collect::<Map<_, _>>();
    let schema = section::<DeliverySettings>(schema, "channels")?
        .variants("channels", "kind", channel_sections(extensions))?
        .section("channels.*", &shared)?
        .describe("channels.*", ChannelSettings::schema);
    let schema = extensions
        .channels
        .factories()
        .cloned()
        .fold(schema, |schema, factory| {
            let kind = factory.kind();
            let keys = move || factory.config_schema().unwrap_or_default();
            schema.describe_kind("channels", kind, keys)
        });
    section::<LifecycleNotices>(schema, &format!("channels.{LIFECYCLE_NOTICES}"))
}

/// Returns the keys that every channel has, with the values of a section without them.
fn channel_keys() -> Vec<(String, Value)> {
    let default = |key: &str| match key {
        // The keys of `groups` are group ids, so any key is allowed.
        "groups" => json!({}),
        "dm" => json!({ "enabled": null, "policy": null, "allowFrom": null }),
        _ => Value::Null,
    };
    shared_keys()
        .into_iter()
        .map(|key| (key.clone(), default(&key)))
        .collect()
}

/// Returns the sections of the platforms. Each includes the keys that every channel has, so that
/// these count as known.
fn channel_sections(extensions: &Extensions) -> Vec<(&'static str, Value)> {
    let mut sections = extensions.channel_defaults();
    for section in sections
        .iter_mut()
        .filter_map(|(_, section)| section.as_object_mut())
    {
        for (key, default) in channel_keys() {
            section.entry(key).or_insert(default);
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use nanobot_session::Durability;

    use super::*;
    use crate::Runtime;
    use crate::assembly::runtime::in_environment;

    fn defaults() -> Runtime {
        let environment = Environment::new([], Some("/nowhere".into()), "/".into());
        in_environment(environment, LoadOptions::default())
    }

    #[test]
    fn every_section_reads_back_its_default() {
        let runtime = defaults();
        let config = runtime.config();
        assert_eq!(
            config.section::<AgentDefaults>("agents.defaults").unwrap(),
            AgentDefaults::default()
        );
        assert_eq!(
            config.section::<ToolsConfig>("tools").unwrap(),
            ToolsConfig::default()
        );
        assert_eq!(
            config.section::<DeliverySettings>("channels").unwrap(),
            DeliverySettings::default()
        );
        assert_eq!(
            config.section::<SkillsConfig>("skills").unwrap(),
            SkillsConfig::default()
        );
    }

    #[test]
    fn every_key_has_a_meaning_a_type_and_a_default() {
        assert_eq!(defaults().config().undescribed_keys(), Vec::<String>::new());
    }

    /// Returns every known key as one value; `leaf` maps each default.
    fn every_key(leaf: &impl Fn(&Value) -> Value) -> Value {
        fn filled(value: &Value, leaf: &impl Fn(&Value) -> Value) -> Value {
            match value {
                Value::Object(map) if !map.is_empty() => Value::Object(
                    map.iter()
                        .map(|(name, value)| (name.clone(), filled(value, leaf)))
                        .collect(),
                ),
                default => leaf(default),
            }
        }
        let runtime = defaults();
        let mut keys = runtime.config().show();
        for (kind, section) in channel_sections(runtime.extensions()) {
            keys["channels"][kind] = section;
        }
        keys["providers"] = json!({ "custom": ProviderSection::template() });
        filled(&keys, leaf)
    }

    fn hidden_below(path: &str, value: &Value, hidden: &mut Vec<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(name, value)| {
                hidden_below(
                    format!("{path}.{name}").trim_start_matches('.'),
                    value,
                    hidden,
                );
            }),
            Value::Array(items) => items
                .iter()
                .for_each(|item| hidden_below(path, item, hidden)),
            Value::String(text) if text == "***" => hidden.push(path.to_owned()),
            Value::String(text) => assert_eq!(text, "said", "{path}"),
            Value::Null | Value::Number(_) | Value::Bool(_) => {}
        }
    }

    #[test]
    fn exactly_the_listed_keys_are_secret() {
        let said = every_key(&|default| match default {
            Value::Array(_) => json!(["said"]),
            Value::Object(_) => json!({ "name": "said" }),
            Value::Number(_) | Value::Bool(_) => default.clone(),
            _ => json!("said"),
        });
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.json");
        std::fs::write(&file, said.to_string()).unwrap();
        let environment = Environment::new([], Some(home.path().into()), "/".into());
        let options = LoadOptions {
            config: Some(file),
            ..LoadOptions::default()
        };
        let mut hidden = Vec::new();
        hidden_below(
            "",
            &in_environment(environment, options).config().show(),
            &mut hidden,
        );
        hidden.sort_unstable();
        let expected = [
            "channels.dingtalk.clientSecret",
            "channels.discord.proxyPassword",
            "channels.discord.token",
            "channels.email.imapPassword",
            "channels.email.oauthClientSecret",
            "channels.email.oauthRefreshToken",
            "channels.email.smtpPassword",
            "channels.feishu.appSecret",
            "channels.feishu.encryptKey",
            "channels.feishu.verificationToken",
            "channels.matrix.accessToken",
            "channels.matrix.password",
            "channels.mochat.clawToken",
            "channels.qq.secret",
            "channels.slack.appToken",
            "channels.slack.botToken",
            "channels.telegram.token",
            "channels.telegram.webhookSecretToken",
            "channels.websocket.token",
            "channels.wecom.secret",
            "channels.whatsapp.bridgeToken",
            "gateway.token",
            "providers.custom.apiKey",
            "providers.custom.extraBody.name",
            "providers.custom.extraHeaders.name",
            "providers.custom.extraQuery.name",
            "tools.web.search.apiKey",
        ];
        let is_built_in = |key: &&str| {
            let kind = key
                .strip_prefix("channels.")
                .and_then(|key| key.split('.').next());
            kind.is_none_or(|kind| defaults().extensions().channels.factory(kind).is_ok())
        };
        assert_eq!(
            hidden,
            expected.into_iter().filter(is_built_in).collect::<Vec<_>>()
        );
    }

    #[test]
    fn empty_text_reaches_keys_where_it_means_none() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.json");
        let mut said = json!({ "tools": { "web": { "proxy": "" } }, "channels": {} });
        let mut expected = Vec::new();
        for (kind, section) in channel_sections(defaults().extensions()) {
            for key in EMPTY_IS_NONE
                .into_iter()
                .filter(|key| section.get(key).is_some())
            {
                said["channels"][kind][key] = json!("");
                expected.push((kind, key));
            }
        }
        std::fs::write(&file, said.to_string()).unwrap();
        let environment = Environment::new([], Some(home.path().into()), "/".into());
        let options = LoadOptions {
            config: Some(file),
            ..LoadOptions::default()
        };
        let runtime = in_environment(environment, options);
        let config = runtime.config();
        let web: nanobot_tools::WebConfig = config.section("tools.web").unwrap();
        assert_eq!(web.proxy.as_deref(), Some(""));
        for (kind, key) in expected {
            let section = config.raw(&format!("channels.{kind}")).unwrap().unwrap();
            assert_eq!(section[key], "", "{kind}.{key}");
        }
    }

    #[test]
    fn session_durability_is_disk_or_os() {
        let load = |word: Option<&str>| {
            let environment = Environment::new([], Some("/nowhere".into()), "/".into());
            let overrides = word.map(|word| ("sessions.durability".to_owned(), word.to_owned()));
            let options = LoadOptions {
                overrides: overrides.into_iter().collect(),
                ..LoadOptions::default()
            };
            in_environment(environment, options)
        };
        for (word, durability) in [
            (None, Durability::Disk),
            (Some("disk"), Durability::Disk),
            (Some("os"), Durability::Os),
        ] {
            let sessions = load(word)
                .config()
                .section::<SessionsConfig>("sessions")
                .unwrap();
            assert_eq!(sessions, SessionsConfig { durability });
            let store = format!("{:?}", crate::session_store(load(word).config()).unwrap());
            assert!(
                store.contains(&format!("durability: {durability:?}")),
                "{word:?} reaches the store: {store}"
            );
        }
        let error = crate::session_store(load(Some("never")).config())
            .unwrap_err()
            .to_string();
        assert!(error.contains("sessions.durability"), "{error}");
    }
}
