//! The token budget of a conversation: the model's context window, or what the configuration sets.

use nanobot_agent_core::ConsolidationSettings;
use nanobot_config::Config;
use nanobot_providers::context_window;

use crate::assembly::model_presets::selected_window;
use crate::assembly::settings::AgentDefaults;
use crate::{ModelChoice, ModelSource, RuntimeError};

/// Configuration key of the context window.
const WINDOW: &str = "agents.defaults.contextWindowTokens";

/// Returns the settings of consolidation for this model. A configured window wins; otherwise the
/// model's known window is used, and the default for an unknown model. `memoryWindow` (a number of
/// messages) applies only while no token window is configured.
pub(crate) fn consolidation(
    config: &Config,
    defaults: &AgentDefaults,
    model: &ModelChoice,
) -> Result<ConsolidationSettings, RuntimeError> {
    let configured = usize::try_from(defaults.context_window_tokens).unwrap_or(0);
    let is_configured = config.is_set(WINDOW)? || selected_window(config)?.is_some();
    let window = match context_window(&model.model).and_then(|window| usize::try_from(window).ok())
    {
        Some(window) if !is_configured => match model.source {
            // Local servers are often started with a smaller window than the model's.
            ModelSource::Local { .. } => window.min(configured),
            _ => window,
        },
        _ => configured,
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
