//! Chooses the model: the configured one, one on a local server, or the demo.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nanobot_config::Config;
use nanobot_provider::{
    Candidate, ContextWindow, ProviderFactory, ProviderRouter, RawProviderConfig, RetryPolicy,
};
use nanobot_providers::{
    CUSTOM, ClientConnection, DEMO, HttpClients, LOCAL_SERVERS, ListError, LocalServer,
    ProviderSettings, ProviderSpec, SelectError, Selection, assistant_model, build, discover_local,
    list_models,
};
use nanobot_tools::WebConfig;

use crate::assembly::cooldowns::CooldownFile;
use crate::assembly::model_presets::{OtherModels, agent_defaults, generation, other_models};
use crate::assembly::provider_sections::{self, ChosenProvider, Sections, lists_own_models};
use crate::assembly::settings::AgentDefaults;
use crate::{Runtime, RuntimeError};

/// Environment variables of the Python program for the timeouts of a model call, in seconds.
const TOTAL_VARIABLE: &str = "NANOBOT_LLM_TIMEOUT_S";
const IDLE_VARIABLE: &str = "NANOBOT_STREAM_IDLE_TIMEOUT_S";

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
    /// The configuration names no model, and the vendor has no usual one: one that it lists.
    Listed,
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
    /// Returns the window with which a local server runs the model, if it says so.
    pub(crate) async fn served_window(&self) -> Option<ContextWindow> {
        let ClientConnection { provider, model } = self.connection.as_ref()?;
        provider.context_window(model).await
    }

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
            ModelSource::Default { .. } | ModelSource::Listed => {
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
    let defaults = agent_defaults(config)?;
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

/// Checks the configured provider as a start does. Connects to nothing. Without a provider there is
/// nothing to check.
pub(crate) fn check(runtime: &Runtime) -> Result<(), RuntimeError> {
    let config = runtime.config();
    let defaults = agent_defaults(config)?;
    if let Some((factory, model)) = runtime.extensions().selected_provider(&defaults) {
        return plugged_in(config, &**factory, model).map(drop);
    }
    provider_sections::check_bases(config)?;
    let chosen = match Sections::read(config)?.choose(&defaults, runtime.extensions()) {
        Ok(chosen) => chosen,
        Err(error) if is_mistake(&error) => return Err(error.into()),
        Err(_) => return Ok(()),
    };
    let settings = Sections::settings(config, &chosen.selection)?;
    // A server of the user is asked for its models only at a start.
    let model = chosen.model.unwrap_or_default();
    build(&chosen.selection, &settings, &model, clients(config)?)?;
    other_models(runtime, &defaults).map(drop)
}

/// Connects the model that these settings name. Nothing is sent.
pub(crate) fn connect(
    runtime: &Runtime,
    defaults: &AgentDefaults,
) -> Result<ClientConnection, RuntimeError> {
    let (config, extensions) = (runtime.config(), runtime.extensions());
    if let Some((factory, model)) = extensions.selected_provider(defaults) {
        let choice = plugged_in(config, &**factory, model)?;
        return choice.connection.ok_or_else(|| SelectError::Nothing.into());
    }
    let chosen = Sections::read(config)?.choose(defaults, extensions)?;
    let settings = Sections::settings(config, &chosen.selection)?;
    let model = chosen.model.ok_or(SelectError::Nothing)?;
    Ok(build(
        &chosen.selection,
        &settings,
        &model,
        clients(config)?,
    )?)
}

/// Returns the router of an assistant: the chosen model, those that are asked if it fails, and
/// those that a session can choose. Connects to nothing.
pub(crate) fn router(
    runtime: &Runtime,
    defaults: &AgentDefaults,
    choice: &ModelChoice,
) -> Result<ProviderRouter, RuntimeError> {
    let config = runtime.config();
    let others = match choice.source {
        ModelSource::Demo { .. } | ModelSource::Nobody { .. } => OtherModels::default(),
        _ => other_models(runtime, defaults)?,
    };
    let candidates = candidate(config, defaults, choice)?
        .into_iter()
        .chain(others.fallbacks);
    Ok(ProviderRouter::new(candidates, retry_policy(config))
        .with_presets(others.presets)
        .with_limits(provider_sections::limits(config)?)
        .with_cooldowns(Arc::new(CooldownFile::of(config))))
}

/// Returns a router that asks the chosen model only.
pub(crate) fn router_of_one(
    config: &Config,
    defaults: &AgentDefaults,
    choice: &ModelChoice,
) -> Result<ProviderRouter, RuntimeError> {
    let candidate = candidate(config, defaults, choice)?;
    Ok(ProviderRouter::new(candidate, retry_policy(config)))
}

fn candidate(
    config: &Config,
    defaults: &AgentDefaults,
    choice: &ModelChoice,
) -> Result<Option<Candidate>, RuntimeError> {
    let Some(ClientConnection { provider, model }) = &choice.connection else {
        return Ok(None);
    };
    Ok(Some(Candidate {
        provider: provider.clone(),
        model: model.clone(),
        generation: generation(config, defaults, None, &**provider)?,
    }))
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
    let idle = seconds(IDLE_VARIABLE, 3600);
    let total = seconds(TOTAL_VARIABLE, 24 * 3600);
    RetryPolicy {
        idle: idle.unwrap_or(policy.idle),
        total: total.unwrap_or(policy.total),
        local_first: idle.unwrap_or(policy.local_first),
        local_total: total.unwrap_or(policy.local_total),
        ..policy
    }
}

async fn choose_real(runtime: &Runtime) -> Result<Result<ModelChoice, SelectError>, RuntimeError> {
    let config = runtime.config();
    let defaults = agent_defaults(config)?;
    if let Some((factory, model)) = runtime.extensions().selected_provider(&defaults) {
        return plugged_in(config, &**factory, model).map(Ok);
    }
    provider_sections::check_bases(config)?;
    let http = clients(config)?;
    let why = match Sections::read(config)?.choose(&defaults, runtime.extensions()) {
        Ok(chosen) => return configured(config, chosen, http).await.map(Ok),
        Err(error) if is_mistake(&error) => return Err(error.into()),
        Err(error) => error,
    };
    match discover_local(LOCAL_SERVERS, &http).await {
        Some(found) => local(&found, http).map(Ok),
        None => Ok(Err(why)),
    }
}

/// `true` for an error that the configuration has to be changed for; `false` if nothing is set up.
fn is_mistake(error: &SelectError) -> bool {
    match error {
        SelectError::UnknownProvider { .. }
        | SelectError::NoVendor { .. }
        | SelectError::NoModel { .. } => true,
        SelectError::NotConfigured { .. } | SelectError::Nothing => false,
    }
}

/// Checks that `agents.defaults.provider` names a provider.
pub(crate) fn check_provider(runtime: &Runtime) -> Result<(), RuntimeError> {
    let config = runtime.config();
    let defaults = agent_defaults(config)?;
    if runtime.extensions().selected_provider(&defaults).is_some() {
        return Ok(());
    }
    match Sections::read(config)?.choose(&defaults, runtime.extensions()) {
        Err(error @ SelectError::UnknownProvider { .. }) => Err(error.into()),
        _ => Ok(()),
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
    let is_vendor = !lists_own_models(selection);
    let is_listed = chosen.model.is_none() && is_vendor;
    let model = match chosen.model {
        Some(model) => model,
        None => listed_model(selection, &settings, &http).await?,
    };
    let connection = build(selection, &settings, &model, http)?;
    let source = if selection.spec.name == DEMO.name {
        ModelSource::Demo {
            why: "the configuration names it".to_owned(),
        }
    } else if is_listed {
        ModelSource::Listed
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

/// Asks a provider for its models. Of a server of the user the first one is taken.
async fn listed_model(
    selection: &Selection,
    settings: &ProviderSettings,
    http: &Arc<HttpClients>,
) -> Result<String, RuntimeError> {
    let listed = list_models(selection, settings, http).await;
    let chosen = listed.and_then(|models| {
        let chosen = match lists_own_models(selection) {
            true => models.first(),
            false => assistant_model(&models),
        };
        chosen.cloned().ok_or(ListError::Unlisted)
    });
    chosen.map_err(|source| RuntimeError::Listing {
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
    let defaults = agent_defaults(config).ok()?;
    let sections = Sections::read(config).ok()?;
    let chosen = sections.choose(&defaults, runtime.extensions()).ok()?;
    Some((chosen.selection.name.to_string(), chosen.model))
}
