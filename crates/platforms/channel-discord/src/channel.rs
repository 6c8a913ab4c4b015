//! Discord as a [`Platform`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    Notes, OutboundKind, OutboundPart, Sent, TextStyle, TurnEnds, Typing, Value, async_trait,
};
use nanobot_channel_kit::{
    BegunDraft, ChannelBase, DraftPlace as _, Platform, PlatformChannel, PlatformFactory,
    Reactions, Recent, repeatable,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serenity::model::id::{ChannelId, MessageId as DiscordMessage};

use crate::DiscordConfig;
use crate::api::{Api, Body};
use crate::cursor::EventCursor;
use crate::draft::DiscordDraft;
use crate::error::CallError;
use crate::marks::DiscordMarks;
use crate::markup::DiscordMarkdown;
use crate::reaction::{DiscordReactor, emoji};
use crate::route::Route;
use crate::target::SendTarget;
use crate::threads::ThreadParents;

/// Limit of the text of a message, in code points.
pub(crate) const TEXT_LIMIT: usize = 2000;
/// Duration of Discord's typing indicator.
const TYPING_LASTS: Duration = Duration::from_secs(10);
/// Time in which a second message with the same nonce is dropped; Discord says "a few minutes".
const NONCE_LASTS: Duration = Duration::from_mins(2);

/// The text of a message that is deleted at once.
const ELLIPSIS: &str = "…";

/// Number of messages that are remembered as handled.
const RECENT: usize = 1024;

/// A bot on Discord, created by [`DiscordFactory`], or directly by a program without a
/// configuration file.
pub type DiscordChannel = PlatformChannel<Discord>;

/// Creates [`DiscordChannel`]s.
pub type DiscordFactory = PlatformFactory<Discord>;

/// The platform of a [`DiscordChannel`].
#[derive(Debug)]
pub struct Discord {
    pub(crate) base: ChannelBase<DiscordMessage>,
    pub(crate) config: DiscordConfig,
    pub(crate) api: Arc<Api>,
    pub(crate) threads: ThreadParents,
    pub(crate) marks: DiscordMarks,
    /// Handled messages: one may come from the gateway and be fetched.
    recent: Mutex<Recent<DiscordMessage>>,
    pub(crate) reactions: Reactions<DiscordReactor>,
    cursor: Mutex<EventCursor>,
}

impl Platform for Discord {
    type Config = DiscordConfig;
    type Draft = DiscordDraft;
    const KIND: &'static str = "discord";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&DiscordMarkdown),
        measure: Measure::CodePoints,
        limit: TEXT_LIMIT,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::Idempotent {
        window: Some(NONCE_LASTS),
    };

    fn new(
        base: ChannelBase<DiscordMessage>,
        config: DiscordConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy)?);
        Ok(Self {
            reactions: Reactions::new(DiscordReactor(Arc::clone(&api)), emoji(&config)),
            base,
            config,
            api,
            threads: ThreadParents::default(),
            marks: DiscordMarks::default(),
            recent: Mutex::new(Recent::new(RECENT)),
            cursor: Mutex::default(),
        })
    }

    fn base(&self) -> &ChannelBase<DiscordMessage> {
        &self.base
    }

    async fn open(self: &Arc<Self>, context: &ChannelContext) {
        self.recover_drafts(self.api.bot_id(), context).await;
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        self.receive_events(context).await
    }

    async fn close(&self, notes: &dyn Notes) {
        self.marks.write(notes).await;
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        let sent = self.send_part(part).await?;
        let message = &part.message;
        let is_answer = match message.kind {
            OutboundKind::Final => true,
            OutboundKind::Notice => message.key.is_reply(),
            _ => false,
        };
        if is_answer && part.index + 1 == part.count {
            let reactions = self.reactions.clone();
            let (chat, delivery) = (message.chat_id.clone(), message.delivery.clone());
            let end = async move {
                reactions.end(&chat, &delivery).await;
            };
            self.base.background.spawn(end);
        }
        Ok(sent)
    }

    async fn account(&self) -> Result<String, ChannelError> {
        #[derive(Deserialize)]
        struct Account {
            username: String,
        }
        let account = self.api.call(&Route::me(), Body::Empty).await;
        let account: Account = account.map_err(CallError::repeatable)?;
        Ok(format!("@{}", account.username))
    }

    fn edit_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs_f64(self.config.stream_edit_interval);
        self.config.streaming.then_some(interval)
    }

    async fn draft(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
    ) -> Result<Option<DiscordDraft>, ChannelError> {
        let mut target = SendTarget::new(chat, delivery)?;
        if self.config.reply_to_message {
            target = target.quoting(delivery);
        }
        let api = Arc::clone(&self.api);
        Ok(Some(DiscordDraft { api, target }))
    }

    fn orphaned_draft(&self, locator: Value) -> Option<(DiscordDraft, DiscordMessage)> {
        let (channel, message) = serde_json::from_value(locator).ok()?;
        let draft = DiscordDraft {
            api: Arc::clone(&self.api),
            target: SendTarget::channel(channel),
        };
        Some((draft, message))
    }

    /// Sends it again with its nonce, so that Discord names the first message.
    async fn begun_draft(
        &self,
        begun: BegunDraft,
    ) -> Result<Option<(DiscordDraft, DiscordMessage)>, ChannelError> {
        let is_known = begun.age() < NONCE_LASTS;
        let intent = serde_json::from_value::<(ChannelId, String)>(begun.intent).ok();
        let Some((channel, key)) = intent.filter(|_| is_known) else {
            return Ok(None);
        };
        let draft = DiscordDraft {
            api: Arc::clone(&self.api),
            target: SendTarget::channel(channel),
        };
        let message = draft.begin(ELLIPSIS, &key).await.map_err(repeatable)?;
        Ok(message.map(|message| (draft, message)))
    }

    fn typing(&self) -> Option<&dyn Typing> {
        Some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.reactions.turn_ends()
    }
}

impl Discord {
    pub(crate) fn recent(&self) -> MutexGuard<'_, Recent<DiscordMessage>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads or changes the position in the stream of events.
    pub(crate) fn with_cursor<R>(&self, access: impl FnOnce(&mut EventCursor) -> R) -> R {
        access(&mut self.cursor.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Typing for Discord {
    fn lasts(&self) -> Duration {
        TYPING_LASTS
    }

    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError> {
        let route = Route::typing(SendTarget::new(chat, delivery)?.channel_id());
        let shown = self.api.call::<IgnoredAny>(&route, Body::Empty).await;
        shown.map(drop).map_err(CallError::repeatable)
    }
}
