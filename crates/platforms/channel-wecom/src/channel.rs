//! WeCom as a [`Platform`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    OutboundMessage, OutboundPart, Sent, TextStyle, TurnEnds, Value, async_trait,
};
use nanobot_channel_kit::push::receive_pushed;
use nanobot_channel_kit::{
    Attempts, ChannelBase, DraftPause, Platform, PlatformChannel, PlatformFactory, Recent,
    Rejection,
};

use crate::WeComConfig;
use crate::draft::{WITHDRAWN, WeComDraft, WeComStream};
use crate::file_names::FileNames;
use crate::gateway::Gateway;
use crate::markup::WeComMarkdown;
use crate::outgoing::req_id;
use crate::turn_stream::TurnStreams;

/// Limit of a text with its marks, in bytes.
pub(crate) const TEXT_LIMIT: usize = 20_480;

/// Number of messages that are remembered as handled.
const RECENT: usize = 4096;

/// A bot on WeCom, created by [`WeComFactory`], or directly by a program without a configuration
/// file.
pub type WeComChannel = PlatformChannel<WeCom>;

/// Creates [`WeComChannel`]s.
pub type WeComFactory = PlatformFactory<WeCom>;

/// The platform of a [`WeComChannel`].
#[derive(Debug)]
pub struct WeCom {
    pub(crate) base: ChannelBase<WeComStream>,
    pub(crate) config: WeComConfig,
    pub(crate) gateway: Arc<Gateway>,
    /// The streams of received messages.
    pub(crate) streams: Arc<TurnStreams>,
    pub(crate) names: Arc<FileNames>,
    /// Handled messages.
    recent: Mutex<Recent<String>>,
    /// Number of files of a part that were sent.
    pub(crate) attempts: Attempts<usize>,
    draft_pause: Arc<DraftPause>,
    pub(crate) rejection: Rejection,
    /// `true` if the orphans of an earlier process are being finished.
    pub(crate) is_recovered: AtomicBool,
}

impl Platform for WeCom {
    type Config = WeComConfig;
    type Draft = WeComDraft;
    const KIND: &'static str = "wecom";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&WeComMarkdown),
        measure: Measure::Bytes,
        limit: TEXT_LIMIT,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::BestEffort;

    fn new(
        base: ChannelBase<WeComStream>,
        config: WeComConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let gateway = Arc::new(Gateway::new(&config, shared_proxy, &base.opened_networks)?);
        Ok(Self {
            base,
            config,
            gateway,
            streams: Arc::default(),
            names: Arc::default(),
            recent: Mutex::new(Recent::new(RECENT)),
            attempts: Attempts::default(),
            draft_pause: Arc::default(),
            rejection: Rejection::default(),
            is_recovered: AtomicBool::default(),
        })
    }

    fn base(&self) -> &ChannelBase<WeComStream> {
        &self.base
    }

    async fn open(self: &Arc<Self>, _context: &ChannelContext) {
        self.rejection.clear();
        self.is_recovered.store(false, Ordering::Relaxed);
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        receive_pushed(self, context).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        if let Err(error) = &sent {
            self.rejection.observe(error);
            self.gateway.observe(error);
        }
        sent
    }

    async fn account(&self) -> Result<String, ChannelError> {
        self.gateway.account().await
    }

    fn edit_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs_f64(self.config.stream_edit_interval);
        self.config.streaming.then_some(interval)
    }

    async fn draft(
        &self,
        _chat: &ChatId,
        delivery: &DeliveryContext,
    ) -> Result<Option<WeComDraft>, ChannelError> {
        let Some(req_id) = req_id(delivery).filter(|_| self.draft_pause.is_over()) else {
            return Ok(None);
        };
        let connection = self.gateway.connection();
        let takes_drafts = self.streams.takes_drafts(req_id, connection);
        Ok(takes_drafts.then(|| self.draft_of(req_id)))
    }

    fn orphaned_draft(&self, locator: Value) -> Option<(WeComDraft, WeComStream)> {
        let stream: WeComStream = serde_json::from_value(locator).ok()?;
        Some((self.draft_of(&stream.req_id), stream))
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.config.streaming.then_some(self)
    }
}

#[async_trait]
impl TurnEnds for WeCom {
    /// Finishes the stream of a turn that had no reply for it.
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        let open = req_id(&end.delivery).and_then(|req_id| self.streams.take_open(req_id));
        let Some(mut open) = open else {
            return Ok(());
        };
        if open.text.trim().is_empty() {
            WITHDRAWN.clone_into(&mut open.text);
        }
        let (cmd, body) = open.frame(true);
        let finished = self.gateway.reply(cmd, &open.req_id, body).await;
        Ok(finished?)
    }
}

impl WeCom {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draft_of(&self, req_id: &str) -> WeComDraft {
        WeComDraft {
            gateway: Arc::clone(&self.gateway),
            streams: Arc::clone(&self.streams),
            pause: Arc::clone(&self.draft_pause),
            req_id: req_id.to_owned(),
        }
    }
}
