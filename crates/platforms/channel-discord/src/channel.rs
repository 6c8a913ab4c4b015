//! The channel: what it is made of, and the contract.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    Channel, ChannelContext, ChannelError, ChannelName, ChatId, DeliveryContext, DeliveryGuarantee,
    Drafts, Format, Measure, OutboundKind, OutboundMessage, OutboundPart, Probe, Sent, StreamId,
    TextStyle, TurnEnds, Typing, async_trait,
};
use nanobot_channel_kit::{Background, DraftBoard, Quarantine, Recent};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serenity::model::id::MessageId as DiscordMessage;

use crate::DiscordConfig;
use crate::api::{Api, Body};
use crate::catch_up::DiscordMarks;
use crate::cursor::Cursor;
use crate::draft::Draft;
use crate::error::CallError;
use crate::markup::DiscordMarkdown;
use crate::place::Place;
use crate::reaction::Reactions;
use crate::route::Route;
use crate::threads::Threads;

/// How much text a message gets, in code points.
pub(crate) const TEXT_LIMIT: usize = 2000;
/// How long Discord shows that somebody types.
const TYPING_LASTS: Duration = Duration::from_secs(10);
/// How long a second message with the same nonce is dropped. Discord says "a few minutes".
const NONCE_LASTS: Duration = Duration::from_mins(2);

/// Number of messages that are known as dealt with.
const RECENT: usize = 1024;

/// A bot on Discord.
///
/// Made by [`crate::DiscordFactory`], or by hand for programs that have no configuration file.
/// Clones are the same bot.
#[derive(Clone, Debug)]
pub struct DiscordChannel {
    pub(crate) name: ChannelName,
    pub(crate) config: Arc<DiscordConfig>,
    pub(crate) api: Arc<Api>,
    pub(crate) threads: Arc<Threads>,
    pub(crate) marks: Arc<DiscordMarks>,
    /// Messages that were dealt with: one may come from the gateway and be fetched.
    recent: Arc<Mutex<Recent<DiscordMessage>>>,
    pub(crate) drafts: Arc<DraftBoard<DiscordMessage>>,
    pub(crate) reactions: Arc<Reactions>,
    pub(crate) quarantine: Arc<Quarantine>,
    cursor: Arc<Mutex<Cursor>>,
    background: Arc<Background>,
}

impl DiscordChannel {
    /// A channel by its configuration; `shared_proxy` counts when the configuration names none.
    /// Opens nothing.
    ///
    /// # Errors
    /// [`ChannelError::Config`] naming the key.
    pub fn new(
        name: ChannelName,
        config: DiscordConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy)?);
        Ok(Self {
            quarantine: Arc::new(Quarantine::new(name.clone())),
            name,
            config: Arc::new(config),
            api,
            threads: Arc::default(),
            marks: Arc::default(),
            recent: Arc::new(Mutex::new(Recent::new(RECENT))),
            drafts: Arc::new(DraftBoard::new(Measure::CodePoints, TEXT_LIMIT)),
            reactions: Arc::default(),
            cursor: Arc::default(),
            background: Arc::default(),
        })
    }

    /// Looks at, or changes, the place in the stream of events.
    pub(crate) fn with_cursor<R>(&self, look: impl FnOnce(&mut Cursor) -> R) -> R {
        look(&mut self.cursor.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<DiscordMessage>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something beside the gateway, while the channel runs. Otherwise it is not done.
    pub(crate) fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(work);
    }
}

#[async_trait]
impl Channel for DiscordChannel {
    fn name(&self) -> &ChannelName {
        &self.name
    }

    async fn run(&self, context: ChannelContext) -> Result<(), ChannelError> {
        self.take_away_drafts(&context).await;
        let context = self.quarantine.open(&context).await;
        let outcome = self
            .background
            .during(&context, self.receive(&context))
            .await;
        if context.cancel.is_cancelled() {
            self.quarantine.close().await;
        }
        self.marks.write(context.notes.as_ref()).await;
        outcome
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await?;
        let message = &part.message;
        if message.kind == OutboundKind::Final && part.index + 1 == part.count {
            self.reactions
                .end(Place::new(&message.chat_id, &message.delivery)?.channel());
        }
        Ok(sent)
    }

    fn guarantee(&self) -> DeliveryGuarantee {
        DeliveryGuarantee::Idempotent {
            window: Some(NONCE_LASTS),
        }
    }

    fn text_style(&self) -> TextStyle {
        TextStyle {
            format: Format::Markup(&DiscordMarkdown),
            measure: Measure::CodePoints,
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
        Some(self)
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(self)
    }
}

#[async_trait]
impl Drafts for DiscordChannel {
    async fn append(&self, delta: &OutboundMessage) -> Result<(), ChannelError> {
        let OutboundKind::Delta { stream } = &delta.kind else {
            return Ok(());
        };
        let mut place = Place::new(&delta.chat_id, &delta.delivery)?;
        if self.config.reply_to_message {
            place = place.quoting(&delta.delivery);
        }
        if !self.background.is_open() {
            return Ok(());
        }
        if let Some(slot) = self.drafts.append(stream, &delta.content) {
            let draft = Draft {
                channel: self.clone(),
                place,
            };
            self.in_background(slot.run(draft, self.config.edit_interval()));
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
impl Typing for DiscordChannel {
    fn lasts(&self) -> Duration {
        TYPING_LASTS
    }

    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError> {
        let route = Route::typing(Place::new(chat, delivery)?.channel());
        self.api
            .call::<IgnoredAny>(&route, Body::Empty)
            .await
            .map(drop)
            .map_err(CallError::repeatable)
    }
}

#[async_trait]
impl TurnEnds for DiscordChannel {
    /// The reactions that said "at work" go.
    async fn ended(&self, end: &OutboundMessage) -> Result<(), ChannelError> {
        self.reactions
            .end(Place::new(&end.chat_id, &end.delivery)?.channel());
        Ok(())
    }
}

#[async_trait]
impl Probe for DiscordChannel {
    async fn probe(&self) -> Result<String, ChannelError> {
        #[derive(Deserialize)]
        struct Me {
            username: String,
        }
        let me: Me = self
            .api
            .call(&Route::me(), Body::Empty)
            .await
            .map_err(CallError::repeatable)?;
        Ok(format!("@{}", me.username))
    }
}
