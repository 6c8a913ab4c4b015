//! WhatsApp as a [`Platform`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    OutboundPart, Sent, SignIn, TextStyle, TurnEnds, Typing, async_trait,
};
use nanobot_channel_kit::push::receive_pushed;
use nanobot_channel_kit::{
    Attempts, ChannelBase, NoDraft, Platform, PlatformChannel, PlatformFactory, Reactions, Recent,
    Rejection, Trouble,
};
use nanobot_whatsapp_bridge::BridgeError;
use serde_json::json;

use crate::WhatsAppConfig;
use crate::client::Client;
use crate::connection::Services;
use crate::handshake::BridgeAddress;
use crate::jid::Jid;
use crate::markup::WhatsAppMarkup;
use crate::own_bridge::{OwnBridge, StartedBridge};
use crate::reaction::{BridgeReactor, emoji};

/// The kind of the channel, and the name of the first one.
pub(crate) const KIND: &str = "whatsapp";
/// Limit of a part in characters. WhatsApp takes 65,536, of which its clients show the beginning.
pub(crate) const TEXT_LIMIT: usize = 4096;
/// Number of messages that are remembered as handled.
const RECENT: usize = 4096;
/// The time for which clients show that someone is typing.
const TYPING_LASTS: Duration = Duration::from_secs(10);

/// A linked device of WhatsApp, created by [`WhatsAppFactory`], or directly by a program without a
/// configuration file.
pub type WhatsAppChannel = PlatformChannel<WhatsApp>;

/// Creates [`WhatsAppChannel`]s.
pub type WhatsAppFactory = PlatformFactory<WhatsApp>;

/// The platform of a [`WhatsAppChannel`].
#[derive(Debug)]
pub struct WhatsApp {
    pub(crate) base: ChannelBase<()>,
    pub(crate) config: WhatsAppConfig,
    pub(crate) client: Arc<Client>,
    /// The place of the bridge that nanobot starts; `None` if it starts none.
    pub(crate) own: Option<OwnBridge>,
    /// Handled messages: chat, sender and id.
    recent: Mutex<Recent<String>>,
    /// Number of files of a part that were sent.
    pub(crate) attempts: Attempts<usize>,
    pub(crate) reactions: Reactions<BridgeReactor>,
    pub(crate) rejection: Rejection,
    trouble: Arc<Trouble>,
}

impl Platform for WhatsApp {
    type Config = WhatsAppConfig;
    type Draft = NoDraft;
    const KIND: &'static str = KIND;
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&WhatsAppMarkup),
        measure: Measure::CodePoints,
        limit: TEXT_LIMIT,
    };
    /// A part in doubt is sent again under its id, which version 2 recognises.
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::Detectable;

    fn new(
        base: ChannelBase<()>,
        config: WhatsAppConfig,
        _shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let client = Arc::new(Client::new(&config)?);
        let data_dir = base.data_dir.as_ref().filter(|_| config.start_bridge);
        let own = data_dir.map(|data_dir| OwnBridge::new(data_dir, &base.name));
        let reactor = BridgeReactor(Arc::clone(&client));
        Ok(Self {
            own,
            reactions: Reactions::new(reactor, emoji(&config)),
            base,
            config,
            client,
            recent: Mutex::new(Recent::new(RECENT)),
            attempts: Attempts::default(),
            rejection: Rejection::default(),
            trouble: Arc::default(),
        })
    }

    fn base(&self) -> &ChannelBase<()> {
        &self.base
    }

    async fn open(self: &Arc<Self>, _context: &ChannelContext) {
        self.rejection.clear();
        self.trouble.set(None);
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        let context = ChannelContext {
            progress: self.trouble.wrap(&context.progress),
            ..context.clone()
        };
        receive_pushed(self, &context).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        sent.inspect_err(|error| self.rejection.observe(error))
    }

    async fn account(&self) -> Result<String, ChannelError> {
        self.find_account().await
    }

    fn typing(&self) -> Option<&dyn Typing> {
        Some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.reactions.turn_ends()
    }

    fn sign_in(&self) -> Option<&dyn SignIn> {
        Some(self)
    }
}

#[async_trait]
impl Typing for WhatsApp {
    fn lasts(&self) -> Duration {
        TYPING_LASTS
    }

    async fn show(&self, chat: &ChatId, _delivery: &DeliveryContext) -> Result<(), ChannelError> {
        if let Some(chat) = Jid::destination(chat.as_str()) {
            let to = chat.to_string();
            self.client
                .tell(json!({"type": "typing", "to": to, "active": true}));
        }
        Ok(())
    }
}

impl WhatsApp {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn services(&self) -> Services {
        Services {
            client: Arc::clone(&self.client),
            trouble: Arc::clone(&self.trouble),
            own: self.own.clone(),
        }
    }

    /// Replaces an installed bridge of another version, as after an update of nanobot. For the
    /// receive loop: the login installs by itself, and a probe installs nothing.
    pub(crate) async fn update_bridge(&self) -> Result<(), BridgeError> {
        match &self.own {
            Some(own) if own.bridge.is_outdated().await => own.update(&self.base.name).await,
            _ => Ok(()),
        }
    }

    /// Starts the bridge, if this version of it is installed and nanobot has to start it.
    pub(crate) async fn start_bridge(&self) -> Result<Option<StartedBridge>, BridgeError> {
        let Some(own) = &self.own else {
            return Ok(None);
        };
        if own.bridge.is_installed().await {
            own.start().await.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns the address of a bridge that was started, or of the one that is configured.
    pub(crate) fn address(&self, bridge: Option<&StartedBridge>) -> BridgeAddress {
        let configured = || BridgeAddress {
            url: self.config.bridge_url.clone(),
            token: self.config.bridge_token.clone(),
            is_own: false,
        };
        bridge.map_or_else(configured, StartedBridge::address)
    }
}
