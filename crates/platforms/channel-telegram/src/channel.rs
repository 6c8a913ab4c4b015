//! Telegram as a [`Platform`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nanobot_channel::{
    ChannelContext, ChannelError, ChatId, DeliveryContext, DeliveryGuarantee, Format, Measure,
    OutboundPart, Sent, TextStyle, TurnEnds, Typing, Value, async_trait,
};
use nanobot_channel_kit::{
    Attempts, ChannelBase, Platform, PlatformChannel, PlatformFactory, Reactions,
};
use serde::de::IgnoredAny;
use teloxide::payloads::SendChatAction;
use teloxide::types::{ChatAction, MessageId as TelegramMessage};
use tokio::sync::Semaphore;

use crate::TelegramConfig;
use crate::api::Api;
use crate::draft::TelegramDraft;
use crate::error::CallError;
use crate::markup::TelegramHtml;
use crate::migration::Migrations;
use crate::preview::Previews;
use crate::reaction::{TelegramReactor, emoji};
use crate::target::SendTarget;

/// Limit of the visible text of a message, in UTF-16 units; Telegram accepts 4096.
pub(crate) const TEXT_LIMIT: usize = 4000;
/// Duration of Telegram's typing indicator.
const TYPING_LASTS: Duration = Duration::from_secs(5);
/// Most files that are fetched at a time. They are whole in memory, and calls need connections, too.
const MAX_DOWNLOADS: usize = 8;
/// Most chats that are remembered as notified about edits.
const NOTIFIED_CHATS: usize = 1024;

/// A bot on Telegram, created by [`TelegramFactory`], or directly by a program without a
/// configuration file.
pub type TelegramChannel = PlatformChannel<Telegram>;

/// Creates [`TelegramChannel`]s.
pub type TelegramFactory = PlatformFactory<Telegram>;

/// The platform of a [`TelegramChannel`].
#[derive(Debug)]
pub struct Telegram {
    pub(crate) base: ChannelBase<TelegramMessage>,
    pub(crate) config: TelegramConfig,
    pub(crate) api: Arc<Api>,
    /// The first update that is not handled; 0 before the first. Kept over restarts of the run,
    /// so that files are not fetched twice.
    pub(crate) offset: AtomicI32,
    pub(crate) attempts: Attempts<usize>,
    pub(crate) migrations: Migrations,
    pub(crate) reactions: Reactions<TelegramReactor>,
    previews: Arc<Previews>,
    /// Permits to fetch a file.
    pub(crate) downloads: Semaphore,
    /// Number of messages that cannot be stored now.
    pub(crate) waiting_messages: AtomicUsize,
    notified: Mutex<BTreeSet<i64>>,
}

impl Platform for Telegram {
    type Config = TelegramConfig;
    type Draft = TelegramDraft;
    const KIND: &'static str = "telegram";
    const TEXT_STYLE: TextStyle = TextStyle {
        format: Format::Markup(&TelegramHtml),
        measure: Measure::Utf16,
        limit: TEXT_LIMIT,
    };
    const GUARANTEE: DeliveryGuarantee = DeliveryGuarantee::BestEffort;

    fn new(
        base: ChannelBase<TelegramMessage>,
        config: TelegramConfig,
        shared_proxy: Option<&str>,
    ) -> Result<Self, ChannelError> {
        let api = Arc::new(Api::new(&config, shared_proxy)?);
        Ok(Self {
            reactions: Reactions::new(TelegramReactor(Arc::clone(&api)), emoji(&config)),
            previews: Arc::new(Previews::new(config.native_drafts)),
            base,
            config,
            api,
            offset: AtomicI32::new(0),
            attempts: Attempts::default(),
            migrations: Migrations::default(),
            downloads: Semaphore::new(MAX_DOWNLOADS),
            waiting_messages: AtomicUsize::new(0),
            notified: Mutex::default(),
        })
    }

    fn base(&self) -> &ChannelBase<TelegramMessage> {
        &self.base
    }

    async fn open(self: &Arc<Self>, context: &ChannelContext) {
        self.migrations.open(&context.notes).await;
        self.recover_drafts(self.config.bot_id(), context).await;
    }

    async fn receive(self: &Arc<Self>, context: &ChannelContext) -> Result<(), ChannelError> {
        self.receive_updates(context).await
    }

    async fn send(&self, part: &OutboundPart) -> Result<Sent, ChannelError> {
        self.send_part(part).await
    }

    async fn account(&self) -> Result<String, ChannelError> {
        self.identify().await.map(|me| me.shown())
    }

    fn edit_interval(&self) -> Option<Duration> {
        let interval = Duration::from_secs_f64(self.config.stream_edit_interval);
        self.config.streaming.then_some(interval)
    }

    async fn draft(
        &self,
        chat: &ChatId,
        delivery: &DeliveryContext,
    ) -> Result<Option<TelegramDraft>, ChannelError> {
        let mut target = SendTarget::new(chat, delivery)?;
        if self.config.reply_to_message {
            target = target.quoting(delivery);
        }
        let target = self.migrations.follow(&target);
        Ok(Some(TelegramDraft {
            api: Arc::clone(&self.api),
            preview: self.previews.begin(&target),
            target,
        }))
    }

    fn orphaned_draft(&self, locator: Value) -> Option<(TelegramDraft, TelegramMessage)> {
        let (chat, message) = serde_json::from_value(locator).ok()?;
        let draft = TelegramDraft {
            api: Arc::clone(&self.api),
            target: SendTarget::chat(chat),
            preview: None,
        };
        Some((draft, TelegramMessage(message)))
    }

    fn typing(&self) -> Option<&dyn Typing> {
        Some(self)
    }

    fn turn_ends(&self) -> Option<&dyn TurnEnds> {
        self.reactions.turn_ends()
    }
}

impl Telegram {
    /// Remembers a chat as notified about edits. `true` if it was not.
    pub(crate) fn is_first_edit_in(&self, chat: i64) -> bool {
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        notified.len() < NOTIFIED_CHATS && notified.insert(chat)
    }
}

#[async_trait]
impl Typing for Telegram {
    fn lasts(&self) -> Duration {
        TYPING_LASTS
    }

    async fn show(&self, chat: &ChatId, delivery: &DeliveryContext) -> Result<(), ChannelError> {
        let target = self.migrations.follow(&SendTarget::new(chat, delivery)?);
        let mut request = SendChatAction::new(target.recipient(), ChatAction::Typing);
        request.message_thread_id = target.thread();
        let shown = self.api.call::<_, IgnoredAny>(&request).await;
        shown.map(drop).map_err(CallError::repeatable)
    }
}
