//! Models in addition to the one of `agents.defaults`: those of `modelPresets`, and those that are
//! asked if the first one fails.
//!
//! Decision: a preset is a set of changes to `agents.defaults`, so that one piece of code finds the
//! provider of any model.

use std::collections::BTreeMap;

use nanobot_config::{Config, ConfigError};
use nanobot_provider::{Candidate, Generation, Provider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assembly::model::connect;
use crate::assembly::settings::AgentDefaults;
use crate::{Runtime, RuntimeError};

/// Configuration keys.
const PRESETS: &str = "modelPresets";
const FALLBACKS: &str = "agents.defaults.fallbackModels";
const TEMPERATURE: &str = "agents.defaults.temperature";
const PRESET: &str = "agents.defaults.modelPreset";

/// Name that no preset may have: it is that of `agents.defaults`.
const DEFAULT: &str = "default";

/// `modelPresets.<name>`: a model by a name of its own. Keys that are not set have the values of
/// `agents.defaults`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelPreset {
    /// The model, optionally with its provider (`groq/llama-3.3-70b-versatile`).
    pub model: String,
    /// The provider of the model, by its name under `providers`; without it, the model selects it.
    pub provider: Option<String>,
    /// Maximum tokens of one response.
    #[serde(alias = "max_tokens")]
    pub max_tokens: Option<u32>,
    /// Context window of the model, in tokens. It counts if `agents.defaults.modelPreset` names
    /// this preset.
    #[serde(alias = "context_window_tokens")]
    pub context_window_tokens: Option<i64>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Effort of reasoning models, such as `low`, `medium` or `high`.
    #[serde(alias = "reasoning_effort")]
    pub reasoning_effort: Option<String>,
}

/// An entry of `agents.defaults.fallbackModels`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FallbackModel {
    /// Name of a preset, or a model with its provider (`openai/gpt-4.1-mini`).
    Named(String),
    /// A model with its settings.
    Inline(ModelPreset),
}

impl ModelPreset {
    pub(crate) fn of_model(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the settings of an agent that uses this model.
    pub(crate) fn applied_to(&self, defaults: &AgentDefaults) -> AgentDefaults {
        AgentDefaults {
            model: self.model.clone(),
            provider: self.provider.clone().unwrap_or_else(|| "auto".to_owned()),
            max_tokens: self.max_tokens.unwrap_or(defaults.max_tokens),
            context_window_tokens: self
                .context_window_tokens
                .unwrap_or(defaults.context_window_tokens),
            temperature: self.temperature.unwrap_or(defaults.temperature),
            reasoning_effort: self
                .reasoning_effort
                .clone()
                .or_else(|| defaults.reasoning_effort.clone()),
            ..defaults.clone()
        }
    }
}

/// Returns `agents.defaults` with the preset that `modelPreset` names.
///
/// # Errors
/// Returns [`RuntimeError::Preset`] if there is no such preset.
pub(crate) fn agent_defaults(config: &Config) -> Result<AgentDefaults, RuntimeError> {
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    Ok(match selected(config, &defaults)? {
        Some(preset) => preset.applied_to(&defaults),
        None => defaults,
    })
}

/// Returns the window of the preset that `modelPreset` names, if it has one.
pub(crate) fn selected_window(config: &Config) -> Result<Option<i64>, RuntimeError> {
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    let preset = selected(config, &defaults)?;
    Ok(preset.and_then(|preset| preset.context_window_tokens))
}

/// Returns the parameters of generation for a provider. A local server gets a temperature only if
/// one is set, by `preset` or by the preset that `modelPreset` names: it knows that of its model.
pub(crate) fn generation(
    config: &Config,
    settings: &AgentDefaults,
    preset: Option<&ModelPreset>,
    provider: &dyn Provider,
) -> Result<Generation, RuntimeError> {
    let defaults: AgentDefaults = config.section("agents.defaults")?;
    let named = selected(config, &defaults)?;
    let is_set_by = |preset: &ModelPreset| preset.temperature.is_some();
    let is_set = config.is_set(TEMPERATURE)?
        || preset.is_some_and(is_set_by)
        || named.as_ref().is_some_and(is_set_by);
    let generation = settings.generation();
    Ok(Generation {
        temperature: generation
            .temperature
            .filter(|_| is_set || !provider.is_local()),
        ..generation
    })
}

fn selected(
    config: &Config,
    defaults: &AgentDefaults,
) -> Result<Option<ModelPreset>, RuntimeError> {
    match defaults.model_preset.as_deref() {
        None | Some("" | DEFAULT) => Ok(None),
        Some(name) => {
            let mut presets = presets(config)?;
            let preset = presets.remove(name);
            preset
                .map(Some)
                .ok_or_else(|| unknown(PRESET, name, &presets))
        }
    }
}

fn unknown(key: &str, name: &str, known: &BTreeMap<String, ModelPreset>) -> RuntimeError {
    let known: Vec<&str> = known.keys().map(String::as_str).collect();
    let known = match known.is_empty() {
        true => "there are none".to_owned(),
        false => format!("there are {}", known.join(", ")),
    };
    RuntimeError::Preset {
        key: key.to_owned(),
        message: format!("there is no preset {name:?} in {PRESETS}; {known}"),
    }
}

/// Returns the presets by name.
pub(crate) fn presets(config: &Config) -> Result<BTreeMap<String, ModelPreset>, ConfigError> {
    let names = config.names(PRESETS)?.into_iter();
    let named = names.filter(|name| name != DEFAULT).map(|name| {
        let preset = config.section(&format!("{PRESETS}.\"{name}\""))?;
        Ok((name, preset))
    });
    named.collect()
}

/// The candidates of a router besides the first one.
#[derive(Debug, Default)]
pub(crate) struct OtherModels {
    /// Those that are asked if the first one fails, in this order.
    pub(crate) fallbacks: Vec<Candidate>,
    /// Those that a session can choose, by name.
    pub(crate) presets: Vec<(String, Candidate)>,
}

/// Returns the other models of the configuration. Connects to nothing. A preset that cannot be used
/// is left out with a warning; a fallback that cannot be used is an error, because it would be
/// missed only when it is needed.
///
/// # Errors
/// Returns [`RuntimeError::Fallback`] for such a fallback.
pub(crate) fn other_models(
    runtime: &Runtime,
    defaults: &AgentDefaults,
) -> Result<OtherModels, RuntimeError> {
    let presets = presets(runtime.config())?;
    let mut others = OtherModels::default();
    for (name, preset) in &presets {
        match candidate(runtime, preset, defaults) {
            Ok(candidate) => others.presets.push((name.clone(), candidate)),
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::warn!(preset = name, error, "a preset cannot be used");
            }
        }
    }
    for (index, preset) in fallbacks(runtime.config(), defaults)?.iter().enumerate() {
        let candidate = candidate(runtime, preset, defaults);
        let named = candidate.map_err(|source| RuntimeError::Fallback {
            key: format!("{FALLBACKS}[{index}]"),
            source: Box::new(source),
        });
        others.fallbacks.push(named?);
    }
    Ok(others)
}

/// Returns the settings of the models that are asked if the first one fails, in their order.
///
/// # Errors
/// Returns [`RuntimeError::Preset`] if one names an unknown preset.
pub(crate) fn fallbacks(
    config: &Config,
    defaults: &AgentDefaults,
) -> Result<Vec<ModelPreset>, RuntimeError> {
    let presets = presets(config)?;
    let fallbacks = defaults.fallback_models.iter().enumerate();
    let settings = fallbacks.map(|(index, fallback)| match fallback {
        FallbackModel::Inline(preset) => Ok(preset.clone()),
        FallbackModel::Named(name) => match presets.get(name) {
            Some(preset) => Ok(preset.clone()),
            None if name.contains('/') => Ok(ModelPreset::of_model(name)),
            None => Err(unknown(&format!("{FALLBACKS}[{index}]"), name, &presets)),
        },
    });
    settings.collect()
}

fn candidate(
    runtime: &Runtime,
    preset: &ModelPreset,
    defaults: &AgentDefaults,
) -> Result<Candidate, RuntimeError> {
    let settings = preset.applied_to(defaults);
    let connection = connect(runtime, &settings)?;
    Ok(Candidate {
        generation: generation(
            runtime.config(),
            &settings,
            Some(preset),
            &*connection.provider,
        )?,
        provider: connection.provider,
        model: connection.model,
    })
}
