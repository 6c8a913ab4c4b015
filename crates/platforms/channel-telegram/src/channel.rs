//! The channel: what it is made of, and the contract.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, ChatId, DeliveryContext, DeliveryGuarantee,
    Drafts, Format, Measure, MessageId, OutboundKind, OutboundMessage, OutboundPart, Probe, Sent,
    StreamId, TextStyle, TurnEnds, Typing, async_trait,
};
use nanobot_channel_kit::{Attempts, Background, DraftBoard, Quarantine};
use serde::de::IgnoredAny;
use teloxide::payloads::{SendChatAction, SetMessageReaction, SetMessageReactionSetters as _};
use teloxide::types::{ChatAction, MessageId as TelegramMessage, ReactionType};

use crate::TelegramConfig;
use crate::api::Api;
use crate::draft::Draft;
use crate::error::CallError;
use crate::markup::TelegramHtml;
use crate::moves::Moves;
use crate::place::Place;

/// How much visible text a message gets, in UTF-16 units; Telegram takes 4096.
pub(crate) const TEXT_LIMIT: usize = 4000;
/// How long Telegram shows that somebody types.
const TYPING_LASTS: Duration = Duration::from_secs(5);
/// How many chats are remembered as told about edits.
const TOLD_CHATS: usize = 1024;

/// A bot on Telegram.
///
/// Made by [`crate::TelegramFactory`], or by hand for programs that have no configuration file.
#[derive(Debug)]
pub struct TelegramChannel {
    pub(crate) name: ChannelName,
    pub(crate) config: TelegramConfig,
    pub(crate) api: Arc<Api>,
    /// The first update that is not dealt with; 0 before the first. Kept over restarts of the run,
    /// so that files are not fetched twice.
    pub(crate) offset: AtomicI32,
    pub(crate) drafts: DraftBoard<TelegramMessage>,
    pub(crate) attempts: Attempts<usize>,
    pub(crate) moves: Moves,
    pub(crate) quarantine: Quarantine,
    /// How many messages cannot be stored now.
    pub(crate) refused: AtomicUsize,
    told: Mutex<BTreeSet<i64>>,
    background: Background,
}

impl TelegramChannel {
    /// A channel by its configuration; `shared_proxy` counts when the configuration names none.
    /// Opens nothing.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn new(
        name: ChannelName,
        config: TelegramConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy)?);
        Ok(Self {
            quarantine: Quarantine::new(name.clone()),
            name,
            config,
            api,
            offset: AtomicI32::new(0),
            drafts: DraftBoard::new(Measure::Utf16, TEXT_LIMIT),
            attempts: Attempts::default(),
            moves: Moves::default(),
            refused: AtomicUsize::new(0),
            told: Mutex::default(),
            background: Background::default(),
        })
    }

    /// Whether this is the first edit there; the chat is remembered with that.
    pub(crate) fn is_first_edit_in(&self, chat: i64) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.len() < TOLD_CHATS && told.insert(chat)
    }

    /// Sets the reaction to a message, or takes it away, without waiting for it.
    pub(crate) fn react(&self, chat: &ChatId, message: Option<&MessageId>, emoji: Option<&str>) {
        let id = message
            .and_then(|id| id.as_str().parse().ok())
            .filter(|_| self.config.reaction().is_some());
        let (Some(id), Ok(place)) = (id, Place::new(chat, &DeliveryContext::default())) else {
            return;
        };
        let reaction = emoji.map(|emoji| ReactionType::Emoji {
            emoji: emoji.to_owned(),
        });
        let request =
            SetMessageReaction::new(place.recipient(), TelegramMessage(id)).reaction(reaction);
        let (api, name) = (Arc::clone(&self.api), self.name.clone());
        self.in_background(async move {
            if let Err(error) = api.call::<_, IgnoredAny>(&request).await {
                tracing::debug!(channel = %name, %error, "a reaction could not be set");
            }
        });
    }

    /// Does something beside the polls, while the channel runs. Otherwise it is not done.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(work);
    }
}

#[async_trait]
impl Channel for TelegramChannel {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        self.moves.open(&context.notes).await;
        self.recover_drafts(&context).await;
        let context = self.quarantine.open(&context).await;
        let outcome = self
            .background
            .during(&context, self.receive(&context))
            .await;
        if context.cancel.is_cancelled() {
            self.quarantine.close().await;
        }
        outcome
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        self.send_part(part).await
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        DeliveryGuarantee::BestEffort
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Markup(&TelegramHtml),
            measure: Measure::Utf16,
            limit: TEXT_LIMIT,
        }
    }

    fn drafts(&self) -> Option<&dyn Drafts> {
        self.config.streaming.then_some(self)
    }

    fn typing(&self) -> Option<&dyn Typing> {
        Some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.config.reaction().is_some().then_some(self)
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }
}

#[async_trait]
impl TurnEnds for TelegramChannel {
    /// Takes the reaction back from the message that the turn dealt with.
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        self.react(&end.chat_id, end.delivery.reply_to.as_ref(), None);
        Ok(())
    }
}

#[async_trait]
impl Probe for TelegramChannel {
    async fn probe(&self) -> Result<String, ChannelError> {
        self.me().await.map(|me| me.shown())
    }
}

#[async_trait]
impl Drafts for TelegramChannel {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        let OutboundKind::Delta { stream } = &delta.kind else {
            return Ok(());
        };
        let mut place = Place::new(&delta.chat_id, &delta.delivery)?;
        if self.config.reply_to_message {
            place = place.quoting(&delta.delivery);
        }
        place = self.moves.follow(&place);
        if !self.background.is_open() {
            return Ok(());
        }
        if let Some(slot) = self.drafts.append(stream, &delta.content) {
            let draft = Draft {
                api: Arc::clone(&self.api),
                place,
            };
            let interval = draft.interval(self.config.edit_interval());
            self.in_background(slot.run(draft, interval));
        }
        Ok(())
    }

    async fn close(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        if let OutboundKind::StreamEnd { stream, resuming } = &end.kind {
            self.drafts.close(stream, *resuming).await;
        }
        Ok(())
    }

    async fn withdraw(
        &self,
        stream: &StreamId,
        _message: &OutboundMessage,
    ) -> Result<(), ChannelError> {
        self.drafts.withdraw(stream);
        Ok(())
    }
}

#[async_trait]
impl Typing for TelegramChannel {
    fn lasts(&self) -> Duration {
        TYPING_LASTS
    }

    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError> {
        let place = self.moves.follow(&Place::new(chat, delivery)?);
        let mut request = SendChatAction::new(place.recipient(), ChatAction::Typing);
        request.message_thread_id = place.thread();
        self.api
            .call::<_, IgnoredAny>(&request)
            .await
            .map(drop)
            .map_err(CallError::repeatable)
    }
}
