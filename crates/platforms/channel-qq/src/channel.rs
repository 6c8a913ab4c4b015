//! QQ as a [`Platform`].

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanobot_channel::{
    ChannelContext, ChannelError, DeliveryGuarantee, Format, Measure, Notes, OutboundPart, Sent,
    TextStyle,
};
use nanobot_channel_kit::push::receive_pushed;
use nanobot_channel_kit::{
    Attempts, ChannelBase, LateNote, NoDraft, Platform, PlatformChannel, PlatformFactory, Recent,
    Rejection,
};

use crate::QqConfig;
use crate::api::Api;
use crate::budget::ReplyBudget;
use crate::cursor::EventCursor;
use crate::error::required_call_error;
use crate::known_chats::KnownChats;
use crate::markup::QqMarkdown;

/// Limit of a text, in characters. QQ does not document its own.
pub(crate) const TEXT_LIMIT: usize = 2000;

/// Number of messages that are remembered as handled.
const RECENT: usize = 4096;

/// A bot on QQ, created by [`QqFactory`], or directly by a program without a configuration file.
pub type QqChannel = PlatformChannel<Qq>;

/// Creates [`QqChannel`]s.
pub type QqFactory = PlatformFactory<Qq>;

/// The platform of a [`QqChannel`].
#[derive(Debug)]
pub struct Qq {
    pub(crate) base: ChannelBase<()>,
    pub(crate) config: QqConfig,
    pub(crate) api: Arc<Api>,
    pub(crate) cursor: LateNote<EventCursor>,
    pub(crate) chats: LateNote<KnownChats>,
    pub(crate) budget: Arc<ReplyBudget>,
    /// Handled messages: a session that is resumed repeats those that were not stored.
    recent: Mutex<Recent<String>>,
    /// Number of files of a part that were sent.
    pub(crate) attempts: Attempts<usize>,
    pub(crate) rejection: Rejection,
    /// Tokens that the gateway refused in a row.
    refused_tokens: AtomicU32,
}

impl Platform for Qq {
    type Config = QqConfig;
    type Draft = NoDraft;
    const KIND: &'static str = "qq";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&QqMarkdown),
        measure: Measure::CodePoints,
        limit: TEXT_LIMIT,
    };
    // A reply is sent again under its number, which QQ refuses if it arrived.
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::Detectable;

    fn new(
        base: ChannelBase<()>,
        config: QqConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy, &base.opened_networks)?);
        Ok(Self {
            base,
            config,
            api,
            cursor: LateNote::default(),
            chats: LateNote::default(),
            budget: Arc::default(),
            recent: Mutex::new(Recent::new(RECENT)),
            attempts: Attempts::default(),
            rejection: Rejection::default(),
            refused_tokens: AtomicU32::new(0),
        })
    }

    fn base(&self) -> &ChannelBase<()> {
        &self.base
    }

    async fn open(self: &Arc<Self>, context: &ChannelContext) {
        self.rejection.clear();
        let notes = context.notes.as_ref();
        self.cursor.open(notes).await;
        self.chats.open(notes).await;
        let account = format!("{}@{}", self.config.app_id, self.config.api_base());
        // It is noted with the first change: a write now would delay that of a new session.
        self.cursor.update(|cursor| {
            cursor.claim(&account);
            false
        });
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        let notes = context.notes.as_ref();
        tokio::select! {
            ended = receive_pushed(self, context) => ended,
            () = self.cursor.write_periodically(notes) => Ok(()),
            () = self.chats.write_periodically(notes) => Ok(()),
        }
    }

    async fn close(&self, notes: &dyn Notes) {
        tokio::join!(self.cursor.write(notes), self.chats.write(notes));
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        sent.inspect_err(|error| self.rejection.observe(error))
    }

    async fn account(&self) -> Result<String, ChannelError> {
        let name = self.api.identify().await.map_err(required_call_error)?;
        Ok(match name.as_str() {
            "" => self.config.app_id.clone(),
            name => format!("@{name}"),
        })
    }
}

impl Qq {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the gateway refused a token. Returns the number of refusals in a row.
    pub(crate) fn refuse_token(&self) -> u32 {
        self.refused_tokens.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Records that the gateway accepted a token.
    pub(crate) fn accept_token(&self) {
        self.refused_tokens.store(0, Ordering::Relaxed);
    }
}
