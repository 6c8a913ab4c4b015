//! DingTalk as a [`Platform`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    OutboundPart, Sent, TextStyle, Value,
};
use nanobot_channel_kit::{
    Attempts, BegunDraft, ChannelBase, DraftPause, Platform, PlatformChannel, PlatformFactory,
    Recent, Rejection, push,
};

use crate::DingTalkConfig;
use crate::api::Api;
use crate::card::CardTemplate;
use crate::draft::{DingTalkDraft, DraftCard};
use crate::error::required_call_error;
use crate::markup::DingTalkMarkdown;
use crate::target::SendTarget;

/// Limit of a text, in characters. DingTalk takes about 5,000 of them and 20,000 bytes, which no
/// text of this length exceeds.
pub(crate) const TEXT_LIMIT: usize = 4500;

/// Number of messages that are remembered as handled.
const RECENT: usize = 4096;

/// An app on DingTalk, created by [`DingTalkFactory`], or directly by a program without a
/// configuration file.
pub type DingTalkChannel = PlatformChannel<DingTalk>;

/// Creates [`DingTalkChannel`]s.
pub type DingTalkFactory = PlatformFactory<DingTalk>;

/// The platform of a [`DingTalkChannel`].
#[derive(Debug)]
pub struct DingTalk {
    pub(crate) base: ChannelBase<DraftCard>,
    pub(crate) config: DingTalkConfig,
    pub(crate) api: Arc<Api>,
    /// Handled messages: DingTalk repeats those that were not acknowledged.
    recent: Mutex<Recent<String>>,
    /// Number of files of a part that were sent.
    pub(crate) attempts: Attempts<usize>,
    card_pause: Arc<DraftPause>,
    pub(crate) rejection: Rejection,
}

impl Platform for DingTalk {
    type Config = DingTalkConfig;
    type Draft = DingTalkDraft;
    const KIND: &'static str = "dingtalk";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&DingTalkMarkdown),
        measure: Measure::CodePoints,
        limit: TEXT_LIMIT,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::BestEffort;

    fn new(
        base: ChannelBase<DraftCard>,
        config: DingTalkConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy, &base.opened_networks)?);
        Ok(Self {
            base,
            config,
            api,
            recent: Mutex::new(Recent::new(RECENT)),
            attempts: Attempts::default(),
            card_pause: Arc::default(),
            rejection: Rejection::default(),
        })
    }

    fn base(&self) -> &ChannelBase<DraftCard> {
        &self.base
    }

    async fn open(self: &Arc<Self>, context: &ChannelContext) {
        self.rejection.clear();
        if self.config.shows_cards() {
            self.recover_drafts(&self.config.client_id, context).await;
        }
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        push::receive_pushed(self, context).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        sent.inspect_err(|error| self.rejection.observe(error))
    }

    async fn account(&self) -> Result<String, ChannelError> {
        let checked = self.api.check_credentials().await;
        checked.map_err(required_call_error)?;
        Ok(self.config.client_id.clone())
    }

    fn edit_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs_f64(self.config.stream_edit_interval);
        self.config.shows_cards().then_some(interval)
    }

    async fn draft(
        &self,
        chat: &ChatId,
        _delivery: &DeliveryContext,
    ) -> Result<Option<DingTalkDraft>, ChannelError> {
        if !self.card_pause.is_over() {
            return Ok(None);
        }
        Ok(Some(self.draft_at(Some(SendTarget::new(chat)?))))
    }

    fn orphaned_draft(&self, locator: Value) -> Option<(DingTalkDraft, DraftCard)> {
        let track: String = serde_json::from_value(locator).ok()?;
        Some((self.draft_at(None), DraftCard::new(track, "")))
    }

    /// A card that does not exist refuses the change.
    async fn begun_draft(
        &self,
        begun: BegunDraft,
    ) -> Result<Option<(DingTalkDraft, DraftCard)>, ChannelError> {
        Ok(self.orphaned_draft(begun.intent))
    }
}

impl DingTalk {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place of drafts in a chat; `None` for those that exist.
    pub(crate) fn draft_at(&self, target: Option<SendTarget>) -> DingTalkDraft {
        DingTalkDraft {
            api: Arc::clone(&self.api),
            template: CardTemplate::new(&self.config),
            target,
            pause: Arc::clone(&self.card_pause),
        }
    }
}
