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
        Arc::new(nanobot_channel_email::EmailFactory),
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
    factories().iter().map(|factory| (factory.kind(), factory.default_config())).collect()
}
