//! Makes channels from sections of the configuration.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory, ChannelName, Credential, RawConfig, Value,
};
use nanobot_channel_kit::settings::default_section;

use crate::{DiscordChannel, DiscordConfig};

/// Makes [`DiscordChannel`]s.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscordFactory;

impl ChannelFactory for DiscordFactory {
    fn kind(&self) -> &'static str {
        "discord"
    }

    /// `allowFrom` is left out, because an empty list lets no one in.
    fn default_config(&self) -> Value {
        let mut section = default_section(DiscordConfig::keys());
        section.insert("groupPolicy".to_owned(), "mention".into());
        section.into()
    }

    fn credentials(&self) -> &'static [Credential] {
        const TOKEN: Credential = Credential::token(
            "token",
            "the bot's token: discord.com/developers/applications, your application, Bot, Reset Token",
        );
        &[TOKEN]
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        let section = DiscordConfig::from_section(&config.section)?;
        Ok(Arc::new(DiscordChannel::new(
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
        let mut section = DiscordFactory.default_config();
        section["token"] = json!("a.b.c");
        let expected = DiscordConfig {
            token: crate::Secret::new("a.b.c"),
            ..DiscordConfig::default()
        };
        assert_eq!(DiscordConfig::from_section(&section).unwrap(), expected);
    }
}
