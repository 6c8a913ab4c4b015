//! Chooses the model: the configured one, one on a local server, or the demo.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_config::{Config, ConfigError};
use nanobot_provider::{
    Candidate, ProviderFactory, ProviderRouter, RawProviderConfig, RetryPolicy,
};
use nanobot_providers::{
    ApiKey, CUSTOM, ClientConnection, DEMO, HttpClients, LOCAL_SERVERS, ListError, LocalServer,
    ProviderKind, ProviderSettings, ProviderSpec, Section, SelectError, Selection, TABLE, build,
    discover_local, list_models, preferred, select,
};
use nanobot_tools::WebConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assembly::extensions::Extensions;
use crate::assembly::settings::AgentDefaults;
use crate::{Runtime, RuntimeError};

/// Environment variables of the Python program for the timeouts of a model call, in seconds.
const TOTAL_VARIABLE: &str = "NANOBOT_LLM_TIMEOUT_S";
const IDLE_VARIABLE: &str = "NANOBOT_STREAM_IDLE_TIMEOUT_S";

/// `providers.<name>`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ProviderSection {
    /// The API key. Without it, the vendor's own environment variable is read.
    api_key: Option<String>,
    /// The base URL of the API; without it, the vendor's own.
    api_base: Option<String>,
    /// Additional headers of each request.
    extra_headers: Option<BTreeMap<String, String>>,
}

impl ProviderSection {
    /// Returns the section as the schema knows it. Headers are free-form.
    pub(crate) fn template() -> serde_json::Value {
        serde_json::json!({ "apiKey": "", "apiBase": null, "extraHeaders": {} })
    }
}

impl fmt::Debug for ProviderSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderSection")
            .field("api_base", &self.api_base)
            .finish_non_exhaustive()
    }
}

/// Reason for a choice of model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelSource {
    /// The configuration names it.
    Configured,
    /// The configuration names no model: the usual one of the preferred provider.
    Default {
        /// The other providers that could answer.
        others: Vec<String>,
    },
    /// Nothing is configured, and a server on this machine answered.
    Local {
        /// Its address.
        base: String,
    },
    /// The built-in demo: requested, or used because there is nothing else.
    Demo {
        /// Reason for using the demo.
        why: String,
    },
    /// A running gateway answers, with its own model.
    Gateway,
    /// There is no model; every message is answered with what to do.
    Nobody {
        /// The remedy.
        why: String,
    },
}

/// The chosen model.
#[derive(Clone, Debug)]
pub struct ModelChoice {
    /// The provider.
    pub provider: String,
    /// The model, as the provider spells it.
    pub model: String,
    /// The reason for this choice.
    pub source: ModelSource,
    connection: Option<ClientConnection>,
}

impl ModelChoice {
    /// Wraps the description of a gateway's model.
    pub(crate) fn of_gateway(model: String) -> Self {
        Self {
            provider: "gateway".to_owned(),
            model,
            source: ModelSource::Gateway,
            connection: None,
        }
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ModelSource::Gateway => f.write_str(&self.model),
            ModelSource::Configured => write!(f, "{} ({})", self.model, self.provider),
            ModelSource::Default { .. } => {
                write!(f, "{} ({}, by default)", self.model, self.provider)
            }
            ModelSource::Local { base } => {
                write!(
                    f,
                    "{} ({} at {base}, found on this machine)",
                    self.model, self.provider
                )
            }
            ModelSource::Demo { .. } => write!(f, "demo (built in: no real model)"),
            ModelSource::Nobody { why } => write!(f, "none ({why})"),
        }
    }
}

/// Chooses for a terminal: the configured model, else a local server, else the demo.
pub(crate) async fn choose(runtime: &Runtime, demo: bool) -> Result<ModelChoice, RuntimeError> {
    let config = runtime.config();
    if demo {
        return demo_choice(config, "it was asked for".to_owned());
    }
    match choose_real(runtime).await? {
        Ok(choice) => Ok(choice),
        Err(why) => demo_choice(config, why.to_string()),
    }
}

/// Chooses for the gateway, which never falls back to the demo: it would answer in real chats.
pub(crate) async fn choose_for_gateway(runtime: &Runtime) -> Result<ModelChoice, RuntimeError> {
    Ok(choose_real(runtime)
        .await?
        .unwrap_or_else(|why| ModelChoice {
            provider: "none".to_owned(),
            model: "none".to_owned(),
            source: ModelSource::Nobody {
                why: why.to_string(),
            },
            connection: None,
        }))
}

/// Describes the configured model without connecting to anything.
pub(crate) fn describe(runtime: &Runtime) -> Result<String, RuntimeError> {
    let config = runtime.config();
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    if let Some((factory, model)) = runtime.extensions().selected_provider(&defaults) {
        return Ok(format!("{model} ({})", factory.name()));
    }
    let named = match defaults.model.as_str() {
        "" => "no model is named",
        model => model,
    };
    Ok(
        match Sections::read(config)?.choose(&defaults, runtime.extensions()) {
            Ok(chosen) => chosen.to_string(),
            Err(SelectError::NotConfigured { .. } | SelectError::Nothing) => {
                format!(
                    "{named} (no key is set: `nanobot agent` looks for a local server, else shows the demo)"
                )
            }
            Err(error) => format!("{named} ({error})"),
        },
    )
}

/// A configured provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderStatus {
    /// Its display name.
    pub label: String,
    /// The configured parts: a key, an address, or both.
    pub state: String,
}

/// Checks the configured provider as a start does. Connects to nothing. Without a provider there is
/// nothing to check.
pub(crate) fn check(runtime: &Runtime) -> Result<(), RuntimeError> {
    let config = runtime.config();
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    if let Some((factory, model)) = runtime.extensions().selected_provider(&defaults) {
        return plugged_in(config, &**factory, model).map(drop);
    }
    let Ok(chosen) = Sections::read(config)?.choose(&defaults, runtime.extensions()) else {
        return Ok(());
    };
    let settings = Sections::settings(config, &chosen.selection)?;
    // A server of the user is asked for its models only at a start.
    let model = chosen.model.unwrap_or_default();
    build(&chosen.selection, &settings, &model, clients(config)?)?;
    Ok(())
}

/// Checks that a section of `providers` can be read, and that its key can be sent.
pub(crate) fn check_section(config: &Config, name: &str) -> Result<(), RuntimeError> {
    let section: ProviderSection = config.section(&format!("providers.{name}"))?;
    let parsed = section.api_key.as_deref().map(ApiKey::parse).transpose();
    parsed.map(drop).map_err(|source| RuntimeError::Key {
        section: name.to_owned(),
        source,
    })
}

/// Returns the providers that have something configured, for `status`.
pub(crate) fn providers(config: &Config) -> Result<Vec<ProviderStatus>, RuntimeError> {
    let sections = Sections::read(config)?;
    let shown = sections.entries.iter().filter_map(|entry| {
        let label = ProviderSpec::find(&entry.name).map_or(entry.name.as_str(), |spec| spec.label);
        let key = entry.key.as_ref().map(|_| "key set".to_owned());
        let address = entry.base.clone();
        let parts: Vec<String> = key.into_iter().chain(address).collect();
        (!parts.is_empty()).then(|| ProviderStatus {
            label: label.to_owned(),
            state: parts.join(", "),
        })
    });
    Ok(shown.collect())
}

/// Returns the router for a choice. Connects to nothing.
pub(crate) fn router(
    config: &Config,
    defaults: &AgentDefaults,
    choice: &ModelChoice,
) -> ProviderRouter {
    let candidates = choice.connection.iter().map(|connection| Candidate {
        provider: connection.provider.clone(),
        model: connection.model.clone(),
        generation: defaults.generation(),
    });
    ProviderRouter::new(candidates, retry_policy(config))
}

fn retry_policy(config: &Config) -> RetryPolicy {
    let seconds = |name: &str, max: u64| {
        let configured_seconds = config
            .environment()
            .variable(name)
            .and_then(|text| text.trim().parse::<u64>().ok());
        configured_seconds
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(seconds.min(max)))
    };
    let policy = RetryPolicy::default();
    RetryPolicy {
        idle: seconds(IDLE_VARIABLE, 3600).unwrap_or(policy.idle),
        total: seconds(TOTAL_VARIABLE, 24 * 3600).unwrap_or(policy.total),
        ..policy
    }
}

async fn choose_real(runtime: &Runtime) -> Result<Result<ModelChoice, SelectError>, RuntimeError> {
    let config = runtime.config();
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    if let Some((factory, model)) = runtime.extensions().selected_provider(&defaults) {
        return plugged_in(config, &**factory, model).map(Ok);
    }
    let http = clients(config)?;
    let why = match Sections::read(config)?.choose(&defaults, runtime.extensions()) {
        Ok(chosen) => return configured(config, chosen, http).await.map(Ok),
        Err(error @ (SelectError::UnknownProvider { .. } | SelectError::NoModel { .. })) => {
            return Err(error.into());
        }
        Err(error) => error,
    };
    match discover_local(LOCAL_SERVERS, &http).await {
        Some(found) => local(&found, http).map(Ok),
        None => Ok(Err(why)),
    }
}

/// Makes a provider that an extension added.
fn plugged_in(
    config: &Config,
    factory: &dyn ProviderFactory,
    model: &str,
) -> Result<ModelChoice, RuntimeError> {
    let name = factory.name();
    let web: WebConfig = config.section("tools.web")?;
    let raw = RawProviderConfig {
        section: config.section(&format!("providers.{name}"))?,
        proxy: web.proxy,
    };
    let provider = factory
        .create(&raw)
        .map_err(|source| RuntimeError::PluggedIn { name, source })?;
    Ok(ModelChoice {
        provider: name.to_owned(),
        model: model.to_owned(),
        source: ModelSource::Configured,
        connection: Some(ClientConnection {
            provider,
            model: model.into(),
        }),
    })
}

/// Returns the HTTP clients for vendors, through the configured proxy.
pub(crate) fn clients(config: &Config) -> Result<Arc<HttpClients>, RuntimeError> {
    let web: WebConfig = config.section("tools.web")?;
    Ok(Arc::new(HttpClients::new(web.proxy.as_deref())?))
}

async fn configured(
    config: &Config,
    chosen: ChosenProvider,
    http: Arc<HttpClients>,
) -> Result<ModelChoice, RuntimeError> {
    let selection = &chosen.selection;
    let settings = Sections::settings(config, selection)?;
    let model = match chosen.model {
        Some(model) => model,
        None => first_model(selection, &settings, &http).await?,
    };
    let connection = build(selection, &settings, &model, http)?;
    let source = if selection.spec.name == DEMO.name {
        ModelSource::Demo {
            why: "the configuration names it".to_owned(),
        }
    } else if chosen.is_default {
        ModelSource::Default {
            others: chosen.others,
        }
    } else {
        ModelSource::Configured
    };
    Ok(ModelChoice {
        provider: selection.name.to_string(),
        model: connection.model.to_string(),
        source,
        connection: Some(connection),
    })
}

/// Asks a server of the user for its models.
async fn first_model(
    selection: &Selection,
    settings: &ProviderSettings,
    http: &Arc<HttpClients>,
) -> Result<String, RuntimeError> {
    let listed = list_models(selection, settings, http).await;
    let first = listed.and_then(|models| models.into_iter().next().ok_or(ListError::Unlisted));
    first.map_err(|source| RuntimeError::Listing {
        provider: selection.name.to_string(),
        source,
    })
}

fn local(found: &LocalServer, http: Arc<HttpClients>) -> Result<ModelChoice, RuntimeError> {
    let spec = ProviderSpec::find(found.provider.as_str()).unwrap_or(&CUSTOM);
    let selection = Selection {
        name: found.provider.clone(),
        spec,
    };
    let settings = ProviderSettings {
        api_base: Some(found.api_base.clone()),
        ..ProviderSettings::default()
    };
    let connection = build(&selection, &settings, found.model.as_str(), http)?;
    Ok(ModelChoice {
        provider: found.provider.to_string(),
        model: connection.model.to_string(),
        source: ModelSource::Local {
            base: found.api_base.clone(),
        },
        connection: Some(connection),
    })
}

fn demo_choice(config: &Config, why: String) -> Result<ModelChoice, RuntimeError> {
    let selection = Selection {
        name: DEMO.name.into(),
        spec: &DEMO,
    };
    let connection = build(
        &selection,
        &ProviderSettings::default(),
        DEMO.name,
        clients(config)?,
    )?;
    Ok(ModelChoice {
        provider: DEMO.name.to_owned(),
        model: DEMO.name.to_owned(),
        source: ModelSource::Demo { why },
        connection: Some(connection),
    })
}

/// Returns the name of the provider that would answer, and its model if it is known.
pub(crate) fn configured_provider(runtime: &Runtime) -> Option<(String, Option<String>)> {
    let config = runtime.config();
    let defaults: AgentDefaults = config.section("agents.defaults").ok()?;
    let sections = Sections::read(config).ok()?;
    let chosen = sections.choose(&defaults, runtime.extensions()).ok()?;
    Some((chosen.selection.name.to_string(), chosen.model))
}

/// `true` if there is an API key for a vendor.
pub(crate) fn has_key(config: &Config, vendor: &str) -> bool {
    let spec = ProviderSpec::find(vendor);
    let is_it =
        |entry: &SectionEntry| entry.key.is_some() && ProviderSpec::find(&entry.name) == spec;
    spec.is_some()
        && Sections::read(config).is_ok_and(|sections| sections.entries.iter().any(is_it))
}

/// Returns the settings of a provider, for its services other than models.
pub(crate) fn settings_of(
    config: &Config,
    vendor: &str,
) -> Result<(Selection, ProviderSettings), RuntimeError> {
    let spec = ProviderSpec::find(vendor).unwrap_or(&CUSTOM);
    let selection = Selection {
        name: vendor.into(),
        spec,
    };
    let settings = Sections::settings(config, &selection)?;
    Ok((selection, settings))
}

/// The sections under `providers`, and the API keys in the vendors' own environment variables.
struct Sections {
    entries: Vec<SectionEntry>,
}

struct SectionEntry {
    name: String,
    key: Option<ApiKey>,
    base: Option<String>,
    /// `true` if the section cannot be read, for example because a variable is not set.
    is_broken: bool,
    /// `true` if the configuration has nothing of it, only the environment.
    is_from_environment: bool,
}

/// A provider, and the model to ask it for.
struct ChosenProvider {
    selection: Selection,
    /// `None` if the server has to be asked for its models.
    model: Option<String>,
    is_default: bool,
    /// The other providers that could answer, if none is named.
    others: Vec<String>,
}

impl fmt::Display for ChosenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.selection.name;
        match &self.model {
            Some(model) if self.is_default => write!(f, "{model} ({name}, by default")?,
            Some(model) => write!(f, "{model} ({name}")?,
            None => write!(f, "the first model that {name} lists ({name}, by default")?,
        }
        if !self.others.is_empty() {
            write!(f, "; also set up: {}", self.others.join(", "))?;
        }
        f.write_str(")")
    }
}

impl Sections {
    /// Reads all sections. One that cannot be read counts as empty: only the chosen one has to be
    /// valid.
    fn read(config: &Config) -> Result<Self, ConfigError> {
        let mut entries = Vec::new();
        for name in config.names("providers")? {
            let read = config.section::<ProviderSection>(&format!("providers.{name}"));
            let is_broken = read.is_err();
            let section = read.unwrap_or_default();
            let key = section
                .api_key
                .as_deref()
                .and_then(|text| ApiKey::parse(text).ok().flatten());
            let base = section.api_base.filter(|base| !base.trim().is_empty());
            entries.push(SectionEntry {
                is_from_environment: key.is_none() && base.is_none(),
                key: key.or_else(|| environment_key(config, &name)),
                name,
                base,
                is_broken,
            });
        }
        for spec in TABLE.iter().filter(|spec| {
            matches!(
                spec.kind,
                ProviderKind::Vendor | ProviderKind::Gateway | ProviderKind::Speech
            )
        }) {
            let named = entries
                .iter()
                .any(|entry| ProviderSpec::find(&entry.name) == Some(spec));
            if let Some(key) = environment_key(config, spec.name).filter(|_| !named) {
                entries.push(SectionEntry {
                    name: spec.name.to_owned(),
                    key: Some(key),
                    base: None,
                    is_broken: false,
                    is_from_environment: true,
                });
            }
        }
        Ok(Self { entries })
    }

    /// Chooses a shipped provider and its model.
    ///
    /// If no model is named, what the configuration sets up comes before keys of the environment,
    /// and [`preferred`] orders each of them. A provider whose model is not known comes last.
    ///
    /// If none has a key, a section that cannot be read is chosen, so that its error is reported
    /// and the user is not told that there is no key.
    fn choose(
        &self,
        defaults: &AgentDefaults,
        extensions: &Extensions,
    ) -> Result<ChosenProvider, SelectError> {
        let chosen = self.choose_from(defaults, extensions, false);
        match chosen {
            Err(SelectError::NotConfigured { .. } | SelectError::Nothing) => {
                self.choose_from(defaults, extensions, true).or(chosen)
            }
            _ => chosen,
        }
    }

    fn choose_from(
        &self,
        defaults: &AgentDefaults,
        extensions: &Extensions,
        with_broken: bool,
    ) -> Result<ChosenProvider, SelectError> {
        let is_automatic = matches!(defaults.provider.as_str(), "" | "auto");
        let all = self.shipped(extensions, None, with_broken);
        if !defaults.model.is_empty() {
            return Ok(ChosenProvider {
                selection: select(&defaults.model, &defaults.provider, &all)?,
                model: Some(defaults.model.clone()),
                is_default: false,
                others: Vec::new(),
            });
        }
        let candidates = if is_automatic {
            let mut found = preferred(&self.shipped(extensions, Some(false), with_broken));
            found.extend(preferred(&self.shipped(
                extensions,
                Some(true),
                with_broken,
            )));
            found
        } else {
            vec![select("", &defaults.provider, &all)?]
        };
        let first = candidates.first().ok_or(SelectError::Nothing)?;
        let chosen = candidates
            .iter()
            .find(|candidate| candidate.spec.default_model.is_some() || lists_own_models(candidate))
            .ok_or_else(|| SelectError::NoModel {
                label: first.spec.label.to_owned(),
            })?;
        let others = candidates
            .iter()
            .filter(|candidate| candidate.name != chosen.name)
            .map(|candidate| candidate.name.to_string())
            .collect();
        Ok(ChosenProvider {
            selection: chosen.clone(),
            model: chosen.spec.default_model.map(str::to_owned),
            is_default: true,
            others,
        })
    }

    /// Returns the sections of shipped providers, optionally only those from the environment or
    /// only the others. Those of plugged-in providers are left out: a base address in one of them
    /// does not make it an OpenAI-compatible server.
    fn shipped<'a>(
        &'a self,
        extensions: &Extensions,
        is_from_environment: Option<bool>,
        with_broken: bool,
    ) -> Vec<Section<'a>> {
        let is_plugged_in = |name: &str| {
            extensions
                .providers
                .iter()
                .any(|known| known.name() == name)
        };
        self.entries
            .iter()
            .filter(|entry| !is_plugged_in(&entry.name))
            .filter(|entry| is_from_environment.is_none_or(|is| entry.is_from_environment == is))
            .map(|entry| Section {
                name: &entry.name,
                has_key: entry.key.is_some() || (with_broken && entry.is_broken),
                key_prefix: entry.key.as_ref().map(ApiKey::prefix).unwrap_or_default(),
                api_base: entry.base.as_deref(),
            })
            .collect()
    }

    /// Returns the settings of the chosen provider.
    fn settings(config: &Config, selection: &Selection) -> Result<ProviderSettings, RuntimeError> {
        let names = config.names("providers")?;
        let same = |name: &&String| {
            name.as_str() == selection.name.as_str()
                || ProviderSpec::find(name).is_some_and(|spec| spec == selection.spec)
        };
        let section: ProviderSection = match names.iter().find(same) {
            Some(name) => config.section(&format!("providers.{name}"))?,
            None => ProviderSection::default(),
        };
        let written = section
            .api_key
            .as_deref()
            .map(ApiKey::parse)
            .transpose()
            .map_err(|source| RuntimeError::Key {
                section: selection.name.to_string(),
                source,
            })?;
        Ok(ProviderSettings {
            api_key: written
                .flatten()
                .or_else(|| environment_key(config, selection.name.as_str())),
            api_base: section.api_base,
            extra_headers: section.extra_headers.unwrap_or_default(),
        })
    }
}

/// `true` for a server of the user, which has the models that the user put there.
fn lists_own_models(selection: &Selection) -> bool {
    selection.spec.kind == ProviderKind::Local || selection.spec.name == CUSTOM.name
}

/// Returns the API key in the vendor's own environment variable.
fn environment_key(config: &Config, provider: &str) -> Option<ApiKey> {
    let spec = ProviderSpec::find(provider)?;
    let text = spec
        .environment
        .iter()
        .find_map(|name| config.environment().variable(name))?;
    ApiKey::parse(text).ok().flatten()
}
