//! The models of a configuration, and the way from a model to its provider.

use std::fmt;

use nanobot_providers::base_address;
use serde::Serialize;

use crate::assembly::budget::{PlannedWindow, WindowSource, has_window};
use crate::assembly::model::{connect, describe};
use crate::assembly::model_presets::{ModelPreset, agent_defaults, fallbacks, presets};
use crate::assembly::provider_sections::Sections;
use crate::assembly::settings::AgentDefaults;
use crate::error::chain;
use crate::{Runtime, RuntimeError};

/// A model of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfiguredModel {
    /// `default`, the number of a fallback, or the name of a preset.
    pub name: String,
    /// The provider and the model; empty if it cannot be used.
    pub model: String,
    /// The reason why it cannot be used; `None` if it can.
    pub error: Option<String>,
}

/// Returns the models of the configuration: the default one, the fallbacks in their order, and the
/// presets by name. Connects to nothing.
///
/// # Errors
/// Returns [`RuntimeError`] if the sections that name them cannot be read.
pub fn configured_models(runtime: &Runtime) -> Result<Vec<ConfiguredModel>, RuntimeError> {
    let defaults = agent_defaults(runtime.config())?;
    let mut models = vec![ConfiguredModel {
        name: "default".to_owned(),
        model: describe(runtime)?,
        error: None,
    }];
    let fallbacks = (1..).zip(fallbacks(runtime.config(), &defaults)?);
    let fallbacks = fallbacks.map(|(number, preset)| (format!("fallback {number}"), preset));
    let presets = presets(runtime.config())?;
    let presets = presets
        .into_iter()
        .map(|(name, preset)| (format!("preset {name}"), preset));
    for (name, preset) in fallbacks.chain(presets) {
        let connected = connect(runtime, &preset.applied_to(&defaults));
        models.push(match connected {
            Ok(connection) => ConfiguredModel {
                name,
                model: format!("{} ({})", connection.model, connection.provider.name()),
                error: None,
            },
            Err(error) => ConfiguredModel {
                name,
                model: preset.model,
                error: Some(chain(&error)),
            },
        });
    }
    Ok(models)
}

/// The way from a model to its provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRoute {
    /// The model, as the configuration would write it.
    pub model: String,
    /// The provider.
    pub provider: String,
    /// Its display name.
    pub label: String,
    /// The rule that selected it.
    pub rule: String,
    /// Its base address; `None` if it has none or a program made it.
    pub address: Option<String>,
    /// The name of the model that the provider gets.
    pub wire_model: String,
    /// The window that is used for it as the model of `agents.defaults`, in tokens; 0 for no limit.
    pub context_window: usize,
    /// The source of the window.
    pub window_source: WindowSource,
    /// The reason why it cannot be used; `None` if it can.
    pub error: Option<String>,
}

/// Explains which provider serves a model, or the model of a preset, and how large its window is. A
/// local server is asked for it, for at most 2 s; nothing else is contacted.
///
/// # Errors
/// Returns [`RuntimeError::Provider`] if no configured provider does.
pub async fn model_route(runtime: &Runtime, model: &str) -> Result<ModelRoute, RuntimeError> {
    let (config, extensions) = (runtime.config(), runtime.extensions());
    let defaults = agent_defaults(config)?;
    let preset = presets(config)?.remove(model);
    let own_window = preset
        .as_ref()
        .and_then(|preset| preset.context_window_tokens);
    let has_window = own_window.is_some() || has_window(config)?;
    let settings = match preset {
        Some(preset) => preset.applied_to(&defaults),
        None if model == defaults.model => defaults,
        None => ModelPreset::of_model(model).applied_to(&defaults),
    };
    let connected = connect(runtime, &settings);
    let served = match &connected {
        Ok(connection) => connection.provider.context_window(&connection.model).await,
        Err(_) => None,
    };
    let error = connected.err().map(|error| chain(&error));
    let window = |model: &str| PlannedWindow::of(has_window, &settings, model).within(served);
    let AgentDefaults { model, .. } = &settings;
    if let Some((factory, wire_model)) = extensions.selected_provider(&settings) {
        let window = window(wire_model);
        return Ok(ModelRoute {
            model: model.clone(),
            provider: factory.name().to_owned(),
            label: factory.name().to_owned(),
            rule: "this program adds the provider, and the model or the configuration names it"
                .to_owned(),
            address: None,
            wire_model: wire_model.to_owned(),
            context_window: window.tokens,
            window_source: window.source,
            error,
        });
    }
    let route = Sections::read(config)?.route(&settings, extensions)?;
    let selection = &route.selection;
    let provider = Sections::settings(config, selection)?;
    let wire_model = selection.wire_model(model);
    let window = window(wire_model);
    Ok(ModelRoute {
        model: model.clone(),
        provider: selection.name.to_string(),
        label: selection.spec.label.to_owned(),
        rule: route.rule.to_string(),
        address: base_address(selection, &provider).ok(),
        wire_model: wire_model.to_owned(),
        context_window: window.tokens,
        window_source: window.source,
        error,
    })
}

impl fmt::Display for ModelRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.model)?;
        writeln!(
            f,
            "  provider  {} ({}): {}",
            self.provider, self.label, self.rule
        )?;
        if let Some(address) = &self.address {
            writeln!(f, "  address   {address}")?;
        }
        writeln!(f, "  sent as   {}", self.wire_model)?;
        let size = match self.context_window {
            0 => "no limit".to_owned(),
            tokens => format!("{tokens} tokens"),
        };
        writeln!(f, "  window    {size} ({})", self.window_source)?;
        match &self.error {
            Some(error) => writeln!(f, "  not usable: {error}"),
            None => Ok(()),
        }
    }
}
