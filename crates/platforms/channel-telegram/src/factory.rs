//! Makes channels from sections of the configuration.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory, ChannelName, Credential, RawConfig, Value,
};
use nanobot_channel_kit::settings::default_section;

use crate::{TelegramChannel, TelegramConfig};

const CREDENTIALS: &[Credential] = &[Credential::token(
    "token",
    "the bot's token, which @BotFather on Telegram gives for /newbot, or /token for a bot that exists",
)];

/// Makes [`TelegramChannel`]s.
#[derive(Clone, Copy, Debug, Default)]
pub struct TelegramFactory;

impl ChannelFactory for TelegramFactory {
    fn kind(&self) -> &'static str {
        "telegram"
    }

    /// `allowFrom` and `groupAllowFrom` are left out, because an empty list lets no one in.
    fn default_config(&self) -> Value {
        let mut section = default_section(TelegramConfig::keys());
        section.insert("groupPolicy".to_owned(), "mention".into());
        section.into()
    }

    fn credentials(&self) -> &'static [Credential] {
        CREDENTIALS
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        let section = TelegramConfig::from_section(&config.section)?;
        Ok(Arc::new(TelegramChannel::new(
            name,
            section,
            config.proxy.as_deref(),
        )?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_default_section_says_what_the_defaults_are() {
        let mut section = TelegramFactory.default_config();
        section["token"] = json!("1:x");
        let expected = TelegramConfig {
            token: crate::Secret::new("1:x"),
            ..TelegramConfig::default()
        };
        assert_eq!(TelegramConfig::from_section(&section).unwrap(), expected);
        assert_eq!(
            section["reconnectPause"],
            json!(0.5),
            "a key that is not here is said to have no effect"
        );
    }
}
