//! Feishu as a [`Platform`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    OutboundPart, Sent, TextStyle, TurnEnds, Value,
};
use nanobot_channel_kit::{
    Attempts, BegunDraft, ChannelBase, DraftPause, DraftPlace as _, Platform, PlatformChannel,
    PlatformFactory, Reactions, Recent, Rejection, push, repeatable,
};

use crate::FeishuConfig;
use crate::api::Api;
use crate::draft::{DraftCard, FeishuDraft};
use crate::error::required_call_error;
use crate::interaction::OpenChoices;
use crate::markup::CardMarkdown;
use crate::reaction::{FeishuReactor, emoji};
use crate::target::SendTarget;

/// Limit of the text of a card, in bytes; a card takes 30 KB in JSON.
pub(crate) const TEXT_LIMIT: usize = 28_000;
/// Time in which a second message with the same id is dropped.
const UUID_LASTS: Duration = Duration::from_hours(1);

/// The text of a message that is deleted at once.
const ELLIPSIS: &str = "…";

/// Number of messages that are remembered as handled.
const RECENT: usize = 4096;

/// An app on Feishu or Lark, created by [`FeishuFactory`], or directly by a program without a
/// configuration file.
pub type FeishuChannel = PlatformChannel<Feishu>;

/// Creates [`FeishuChannel`]s.
pub type FeishuFactory = PlatformFactory<Feishu>;

/// The platform of a [`FeishuChannel`].
#[derive(Debug)]
pub struct Feishu {
    pub(crate) base: ChannelBase<DraftCard>,
    pub(crate) config: FeishuConfig,
    pub(crate) api: Arc<Api>,
    /// Handled messages: Feishu repeats what was not acknowledged in time.
    recent: Mutex<Recent<String>>,
    pub(crate) attempts: Attempts<usize>,
    pub(crate) reactions: Reactions<FeishuReactor>,
    pub(crate) choices: OpenChoices,
    card_pause: Arc<DraftPause>,
    pub(crate) rejection: Rejection,
}

impl Platform for Feishu {
    type Config = FeishuConfig;
    type Draft = FeishuDraft;
    const KIND: &'static str = "feishu";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&CardMarkdown),
        measure: Measure::Bytes,
        limit: TEXT_LIMIT,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::Idempotent {
        window: Some(UUID_LASTS),
    };

    fn new(
        base: ChannelBase<DraftCard>,
        config: FeishuConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy)?);
        let reactor = FeishuReactor::new(Arc::clone(&api));
        Ok(Self {
            reactions: Reactions::new(reactor, emoji(&config)),
            base,
            config,
            api,
            recent: Mutex::new(Recent::new(RECENT)),
            attempts: Attempts::default(),
            choices: OpenChoices::default(),
            card_pause: Arc::default(),
            rejection: Rejection::default(),
        })
    }

    fn base(&self) -> &ChannelBase<DraftCard> {
        &self.base
    }

    async fn open(self: &Arc<Self>, _context: &ChannelContext) {
        self.rejection.clear();
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        push::receive_pushed(self, context).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await;
        sent.inspect_err(|error| self.rejection.observe(error))
    }

    async fn account(&self) -> Result<String, ChannelError> {
        let me = self.identify().await.map_err(required_call_error)?;
        Ok(format!("@{}", me.name))
    }

    fn edit_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs_f64(self.config.stream_edit_interval);
        self.config.streaming.then_some(interval)
    }

    async fn draft(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
    ) -> Result<Option<FeishuDraft>, ChannelError> {
        if !self.card_pause.is_over() {
            return Ok(None);
        }
        let target = SendTarget::new(chat, delivery)?;
        let quotes = self.config.reply_to_message;
        let target = if quotes {
            target.quoting(delivery)
        } else {
            target
        };
        Ok(Some(self.draft_at(target)))
    }

    fn orphaned_draft(&self, locator: Value) -> Option<(FeishuDraft, DraftCard)> {
        let draft = DraftCard::of_earlier_process(locator)?;
        let nowhere = SendTarget {
            id: String::new(),
            kind: "chat_id",
            answered: None,
        };
        Some((self.draft_at(nowhere), draft))
    }

    /// Sends it again with its id, so that Feishu names the first message.
    async fn begun_draft(
        &self,
        begun: BegunDraft,
    ) -> Result<Option<(FeishuDraft, DraftCard)>, ChannelError> {
        type Intent = (String, Option<(String, bool)>, String);
        let is_known = begun.age() < UUID_LASTS;
        let intent = serde_json::from_value::<Intent>(begun.intent).ok();
        let Some((id, answered, key)) = intent.filter(|_| is_known) else {
            return Ok(None);
        };
        let Some(target) = SendTarget::of_earlier_process(id, answered) else {
            return Ok(None);
        };
        let draft = self.draft_at(target);
        let card = draft.begin(ELLIPSIS, &key).await.map_err(repeatable)?;
        Ok(card.map(|card| (draft, card)))
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.reactions.turn_ends()
    }
}

impl Feishu {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<String>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draft_at(&self, target: SendTarget) -> FeishuDraft {
        FeishuDraft {
            api: Arc::clone(&self.api),
            target,
            pause: Arc::clone(&self.card_pause),
        }
    }
}
