//! The token budget of a conversation: the model's context window, or what the configuration sets.

use std::fmt;

use nanobot_agent_core::ConsolidationSettings;
use nanobot_config::Config;
use nanobot_provider::ContextWindow;
use nanobot_providers::context_window;
use serde::Serialize;

use crate::assembly::model_presets::selected_window;
use crate::assembly::settings::AgentDefaults;
use crate::{ModelChoice, ModelSource, RuntimeError};

/// Configuration key of the context window.
const WINDOW: &str = "agents.defaults.contextWindowTokens";

/// Source of a context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowSource {
    /// `contextWindowTokens` of `agents.defaults` or of a preset.
    Configuration,
    /// The bundled table of models.
    Table,
    /// The default for models that are not in the table.
    Default,
    /// The local server that runs the model, with a smaller window than the other sources have.
    Server,
}

impl fmt::Display for WindowSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configuration => "configuration",
            Self::Table => "bundled table",
            Self::Default => {
                "default for unknown models; agents.defaults.contextWindowTokens sets another one"
            }
            Self::Server => "answer of the local server",
        })
    }
}

/// A context window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedWindow {
    /// Its size in tokens; 0 for no limit.
    pub(crate) tokens: usize,
    pub(crate) source: WindowSource,
}

impl PlannedWindow {
    /// Returns the window of a model before its server is asked: the one of the settings if it
    /// `is_configured`, else the known one, else the default.
    pub(crate) fn of(is_configured: bool, settings: &AgentDefaults, model: &str) -> Self {
        let known = context_window(model).and_then(|window| usize::try_from(window).ok());
        let (tokens, source) = match known {
            _ if is_configured => (setting(settings), WindowSource::Configuration),
            Some(tokens) => (tokens, WindowSource::Table),
            None => (setting(settings), WindowSource::Default),
        };
        Self { tokens, source }
    }

    /// Returns the window with which the server runs the model if that is smaller.
    pub(crate) fn within(self, served: Option<ContextWindow>) -> Self {
        let served = served.and_then(|window| usize::try_from(window.tokens).ok());
        match served {
            Some(tokens) if self.tokens == 0 || tokens < self.tokens => Self {
                tokens,
                source: WindowSource::Server,
            },
            _ => self,
        }
    }
}

/// Returns the window of the settings, in tokens.
fn setting(settings: &AgentDefaults) -> usize {
    usize::try_from(settings.context_window_tokens).unwrap_or(0)
}

/// Returns `true` if `agents.defaults`, or the preset that `modelPreset` names, sets the window.
pub(crate) fn has_window(config: &Config) -> Result<bool, RuntimeError> {
    Ok(config.is_set(WINDOW)? || selected_window(config)?.is_some())
}

/// Returns the settings of consolidation for this model. A configured window wins; otherwise the
/// model's known window is used, and the default for an unknown model. `memoryWindow` (a number of
/// messages) applies only while no token window is configured.
pub(crate) fn consolidation(
    config: &Config,
    defaults: &AgentDefaults,
    model: &ModelChoice,
) -> Result<ConsolidationSettings, RuntimeError> {
    let is_configured = has_window(config)?;
    let planned = PlannedWindow::of(is_configured, defaults, &model.model);
    let window = match (&model.source, planned.source) {
        // Local servers are often started with a smaller window than the model's.
        (ModelSource::Local { .. }, WindowSource::Table) => planned.tokens.min(setting(defaults)),
        _ => planned.tokens,
    };
    Ok(ConsolidationSettings {
        enabled: defaults.consolidate,
        max_unasked_requests: defaults.max_unasked_summary_requests,
        window,
        max_output: usize::try_from(defaults.max_tokens).unwrap_or(0),
        memory_window: defaults
            .memory_window
            .filter(|_| !is_configured)
            .and_then(|window| usize::try_from(window).ok()),
        ..ConsolidationSettings::default()
    })
}

#[cfg(test)]
mod tests {
    use nanobot_config::Environment;

    use super::*;
    use crate::LoadOptions;
    use crate::assembly::runtime::in_environment;

    /// Keys of `agents.defaults` and their values.
    type Keys<'a> = &'a [(&'a str, &'a str)];

    /// Window in tokens, window in messages, and whether consolidation is on.
    type Read = (usize, Option<usize>, bool);

    fn settings(keys: Keys<'_>, model: &str) -> Read {
        let environment = Environment::new([], Some("/nowhere".into()), "/".into());
        let overrides = keys
            .iter()
            .map(|(key, value)| (format!("agents.defaults.{key}"), (*value).to_owned()));
        let options = LoadOptions {
            overrides: overrides.collect(),
            ..LoadOptions::default()
        };
        let runtime = in_environment(environment, options);
        let config = runtime.config();
        let defaults: AgentDefaults = config.section("agents.defaults").unwrap();
        let choice = ModelChoice::of_gateway(model.to_owned());
        let settings = consolidation(config, &defaults, &choice).unwrap();
        (settings.window, settings.memory_window, settings.enabled)
    }

    #[test]
    fn configured_window_overrides_the_known_window() {
        let table: [(Keys<'_>, &str, Read); 6] = [
            (&[], "gpt-4o", (128_000, None, true)),
            (&[], "somebody's own", (65_536, None, true)),
            (
                &[("contextWindowTokens", "20000")],
                "gpt-4o",
                (20_000, None, true),
            ),
            (
                &[("contextWindowTokens", "0"), ("consolidate", "false")],
                "gpt-4o",
                (0, None, false),
            ),
            (
                &[("memoryWindow", "50")],
                "gpt-4o",
                (128_000, Some(50), true),
            ),
            (
                &[("memoryWindow", "50"), ("contextWindowTokens", "20000")],
                "gpt-4o",
                (20_000, None, true),
            ),
        ];
        for (keys, model, expected) in table {
            assert_eq!(settings(keys, model), expected, "{keys:?} {model}");
        }
    }
}
