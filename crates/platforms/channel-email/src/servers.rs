//! The two servers of a mailbox: how they are reached, whom they have to be, and how the channel logs
//! in there.

use std::sync::Arc;

use nanobot_channel::{ChannelError, Notes};
use nanobot_channel_kit::http::Way;

use crate::config::LoginMethod;
use crate::oauth::Tokens;
use crate::route::Route;
use crate::tls::Trust;
use crate::{EmailConfig, Secret};

/// What every connection needs.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) config: Arc<EmailConfig>,
    pub(crate) route: Route,
    pub(crate) trust: Trust,
    /// Where passwords do not do.
    pub(crate) tokens: Option<Tokens>,
}

impl Servers {
    /// By the configuration, the proxy of all clients, and where later tokens are kept. Opens nothing.
    pub(crate) fn new(
        config: EmailConfig,
        shared_proxy: Option<&str>,
        notes: Option<Arc<dyn Notes>>,
    ) -> Result<Self, ChannelError> {
        let config = Arc::new(config);
        let own = config.proxy.as_ref().map(Secret::expose);
        let tokens = match config.auth {
            LoginMethod::Password => None,
            LoginMethod::Oauth2 => Some(Tokens::new(&config, Way::new(own, shared_proxy)?, notes)?),
        };
        Ok(Self {
            route: Route::new(own.or(shared_proxy))?,
            trust: Trust::new(config.ca_file.clone()),
            tokens,
            config,
        })
    }
}
