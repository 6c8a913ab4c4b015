//! The chat platforms this build knows.

use std::sync::Arc;

use nanobot_channel::ChannelFactory;
use nanobot_channels::ChannelRegistry;
use serde_json::Value;

/// The factories of this build.
fn factories() -> Vec<Arc<dyn ChannelFactory>> {
    vec![
        #[cfg(feature = "discord")]
        Arc::new(nanobot_channel_discord::DiscordFactory),
        #[cfg(feature = "email")]
        Arc::new(nanobot_channel_email::EmailFactory::new(Arc::new(
            nanobot_extract::HelperProcess::of_this_program(),
        ))),
        #[cfg(feature = "slack")]
        Arc::new(nanobot_channel_slack::SlackFactory),
        #[cfg(feature = "telegram")]
        Arc::new(nanobot_channel_telegram::TelegramFactory),
        #[cfg(feature = "websocket")]
        Arc::new(nanobot_channel_websocket::WebSocketFactory),
    ]
}

/// The registry of this build.
pub(crate) fn registry() -> ChannelRegistry {
    let mut registry = ChannelRegistry::new();
    for factory in factories() {
        if let Err(error) = registry.register(factory) {
            tracing::error!(%error, "a platform is registered twice");
        }
    }
    registry
}

/// Every platform with the section that a new configuration gets.
pub(crate) fn defaults() -> Vec<(&'static str, Value)> {
    factories()
        .iter()
        .map(|factory| (factory.kind(), factory.default_config()))
        .collect()
}

/// Whether a platform lets everybody in unless its section says otherwise.
pub(crate) fn is_open_by_default(kind: &str) -> bool {
    let is_open = |section: &Value| {
        section
            .get("allowFrom")
            .and_then(Value::as_array)
            .is_some_and(|ids| ids.contains(&"*".into()))
    };
    defaults()
        .iter()
        .any(|(known, section)| *known == kind && is_open(section))
}

#[cfg(test)]
mod tests {
    use nanobot_channel::{Arrival, RawConfig};
    use nanobot_channels::{DeliverySettings, Verdict};

    use super::*;

    #[test]
    fn no_platforms_defaults_let_a_stranger_in() {
        for (kind, section) in defaults() {
            let shared = DeliverySettings::default();
            let settings = registry()
                .settings(kind, &kind.into(), &shared, &RawConfig::new(section))
                .unwrap();
            let is_open = [
                Arrival::direct(),
                Arrival::group(true),
                Arrival::group(false),
            ]
            .iter()
            .any(|arrival| {
                let verdict =
                    settings
                        .access
                        .judge(&"stranger".into(), &"somewhere".into(), arrival, false);
                verdict == Verdict::Allowed
            });
            // Whoever has the token of that may say who they are.
            assert_eq!(is_open, kind == "websocket", "{kind}");
        }
    }
}
