//! Makes channels from sections of the configuration.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory, ChannelName, Credential, RawConfig, Value,
};
use nanobot_channel_kit::settings::default_section;

use crate::{SlackChannel, SlackConfig};

/// Makes [`SlackChannel`]s.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlackFactory;

impl ChannelFactory for SlackFactory {
    fn kind(&self) -> &'static str {
        "slack"
    }

    /// `allowFrom` and `groupAllowFrom` are left out, because an empty list lets no one in.
    fn default_config(&self) -> Value {
        let mut section = default_section(SlackConfig::keys());
        section.insert("groupPolicy".to_owned(), "mention".into());
        section.into()
    }

    fn credentials(&self) -> &'static [Credential] {
        const BOT: &str =
            "the Bot User OAuth Token (xoxb-…) of the app's page \"OAuth & Permissions\"";
        const APP: &str =
            "an App-Level Token (xapp-…) with connections:write, of the page \"Basic Information\"";
        const CREDENTIALS: &[Credential] = &[
            Credential::secret("botToken", BOT),
            Credential::token("appToken", APP),
        ];
        CREDENTIALS
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        let section = SlackConfig::from_section(&config.section)?;
        Ok(Arc::new(SlackChannel::new(
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
    use crate::Secret;

    #[test]
    fn the_default_section_says_what_the_defaults_are() {
        let mut section = SlackFactory.default_config();
        section["botToken"] = json!("xoxb-1");
        section["appToken"] = json!("xapp-1");
        let tokens = (Secret::new("xoxb-1"), Secret::new("xapp-1"));
        let expected = SlackConfig {
            bot_token: tokens.0,
            app_token: tokens.1,
            ..SlackConfig::default()
        };
        assert_eq!(SlackConfig::from_section(&section).unwrap(), expected);
    }
}
