//! Settings of every connection to the two servers of a mailbox: dialer, TLS and login.

use std::sync::Arc;

use nanobot_channel::{ChannelError, Notes};
use nanobot_channel_kit::http::ProxyMode;

use crate::config::LoginMethod;
use crate::oauth::AccessTokens;
use crate::proxy::Dialer;
use crate::tls::Trust;
use crate::{EmailConfig, Secret};

/// The settings of connections.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) config: Arc<EmailConfig>,
    pub(crate) dialer: Dialer,
    pub(crate) trust: Trust,
    /// Access tokens, if the login needs them.
    pub(crate) tokens: Option<AccessTokens>,
}

impl Servers {
    /// Settings by a configuration. `shared_proxy` is the proxy of all clients, `notes` keep
    /// rotated refresh tokens. Opens nothing.
    pub(crate) fn new(
        config: EmailConfig,
        shared_proxy: Option<&str>,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<Self, ChannelError> {
        let config = Arc::new(config);
        let own = config.proxy.as_ref().map(Secret::expose);
        let tokens = match config.auth {
            LoginMethod::Password => None,
            LoginMethod::Oauth2 => Some(AccessTokens::new(
                &config,
                ProxyMode::new(own, shared_proxy)?,
                notes,
            )?),
        };
        Ok(Self {
            dialer: Dialer::new(own.or(shared_proxy))?,
            trust: Trust::new(config.ca_file.clone()),
            tokens,
            config,
        })
    }
}
