//! The factory of channels, from sections of the configuration.

use std::sync::Arc;

use nanobot_channel::{
    Channel, ChannelError, ChannelFactory, ChannelName, Credential, RawConfig, Value,
};

use crate::{WebSocketChannel, WebSocketConfig};

/// Makes channels of the kind `websocket`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebSocketFactory;

impl ChannelFactory for WebSocketFactory {
    fn kind(&self) -> &'static str {
        "websocket"
    }

    fn default_config(&self) -> Value {
        WebSocketConfig::default_section()
    }

    fn config_schema(&self) -> Option<Value> {
        Some(schemars::schema_for!(WebSocketConfig).to_value())
    }

    fn credentials(&self) -> &'static [Credential] {
        const TOKEN: &[Credential] = &[Credential::secret(
            "token",
            "a long random text that clients have to show, for example from `openssl rand -hex 32`",
        )];
        TOKEN
    }

    fn create(
        &self,
        name: ChannelName,
        config: &RawConfig,
    ) -> Result<Arc<dyn Channel>, ChannelError> {
        Ok(Arc::new(WebSocketChannel::new(
            name,
            WebSocketConfig::read(config)?,
        )))
    }
}
