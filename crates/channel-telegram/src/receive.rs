//! What is done with an update, however it came.
//!
//! Decision: an update is confirmed when it was dealt with, that is when whatever it brought is
//! durable. What the intake cannot take now is offered again, with a pause, before anything after it.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    AccessDecision, Admission, Arrival, ChannelContext, ChannelError, ChatId, ChatKind, DeliveryContext,
    InboundMessage, SenderId,
};
use nanobot_channel_kit::growing_pause;
use serde::Deserialize;
use serde::de::IgnoredAny;
use teloxide::payloads::{GetMe, SendMessage, SetMyCommands};
use teloxide::types::{AllowedUpdate, BotCommand, Message, Update, UpdateKind};

use crate::address::BotIdentity;
use crate::album::Joined;
use crate::channel::TelegramChannel;
use crate::config::Mode;
use crate::error::CallError;
use crate::outbound::send_message;
use crate::place::Place;
use crate::salvage;

/// How long the rest of an album may take.
pub(crate) const ALBUM_TIME: Duration = Duration::from_millis(600);
/// The pause before a message that could not be stored is offered again; each is longer than the last.
const STORE_PAUSE: Duration = Duration::from_millis(500);
const EDITS_IGNORED: &str = "Edited messages are ignored; send a new one.";

/// What follows an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It was dealt with.
    Confirm,
    /// The assistant is going down: it stays.
    Stop,
}

/// An update as far as it could be read.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) id: u32,
    kind: UpdateKind,
}

/// What the bot calls itself.
#[derive(Debug, Deserialize)]
pub(crate) struct Me {
    id: u64,
    username: Option<String>,
}

impl Me {
    /// What people call it.
    pub(crate) fn shown(&self) -> String {
        self.username.as_ref().map_or_else(|| self.id.to_string(), |username| format!("@{username}"))
    }
}

impl Received {
    /// Reads an update as far as it can be read, at least its id; `None` when it has none.
    pub(crate) fn read(raw: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Numbered {
            update_id: u32,
        }
        if let Some(Update { id, kind }) = salvage::read(raw) {
            return Some(Self { id: id.0, kind });
        }
        let Numbered { update_id } = serde_json::from_str(raw).ok()?;
        Some(Self { id: update_id, kind: UpdateKind::Error(().into()) })
    }

    /// The message it brings.
    fn message(&self) -> Option<&Message> {
        match &self.kind {
            UpdateKind::Message(message) | UpdateKind::ChannelPost(message) => Some(message),
            _ => None,
        }
    }

    /// Whether it is a piece of an album, so that the others may be on their way.
    pub(crate) fn is_of_an_album(&self) -> bool {
        self.message().is_some_and(|message| message.media_group_id().is_some())
    }
}

impl TelegramChannel {
    /// Receives until the assistant goes down.
    pub(crate) async fn receive(&self, context: &ChannelContext) -> Result<(), ChannelError> {
        // Whatever kept the last run from going on is not met again on an old connection.
        self.api.renew();
        // That the bot is known is no sign of life: messages may be kept from it all the same.
        let bot = self.introduce(context).await?;
        match self.config.mode {
            Mode::Polling => self.receive_by_polls(&bot, context).await,
            Mode::Webhook => Box::pin(self.receive_by_webhook(&bot, context)).await,
        }
    }

    /// Asks who the bot is.
    pub(crate) async fn me(&self) -> Result<Me, ChannelError> {
        self.api.call(&GetMe::new()).await.map_err(CallError::repeatable)
    }

    /// Finds out who the bot is and tells Telegram what it can do.
    async fn introduce(&self, context: &ChannelContext) -> Result<BotIdentity, ChannelError> {
        let me = self.me().await?;
        let username = me.username.unwrap_or_default();
        let bot = BotIdentity { id: me.id, username, commands: Arc::clone(&context.commands) };
        // Telegram offers `/start` by itself.
        let listed = bot.commands.iter().filter(|command| command.name != "start");
        let commands = listed.map(|command| BotCommand::new(command.name, command.about));
        if let Err(error) = self.api.call::<_, IgnoredAny>(&SetMyCommands::new(commands)).await {
            tracing::warn!(channel = %self.name, %error, "the commands of the bot could not be set");
        }
        tracing::info!(channel = %self.name, bot = bot.username, "receiving from Telegram");
        Ok(bot)
    }

    /// The kinds of updates that are wanted.
    pub(crate) fn wanted_updates(&self) -> Vec<AllowedUpdate> {
        let mut kinds = vec![AllowedUpdate::Message, AllowedUpdate::EditedMessage, AllowedUpdate::ChannelPost];
        kinds.extend(self.config.inline_keyboards.then_some(AllowedUpdate::CallbackQuery));
        kinds
    }

    /// Deals with an update; `later` are those that came with it.
    pub(crate) async fn take(
        &self,
        bot: &BotIdentity,
        update: &Received,
        later: impl Iterator<Item = &Received>,
        joined: &mut Joined,
        context: &ChannelContext,
    ) -> Next {
        match &update.kind {
            UpdateKind::Message(message) | UpdateKind::ChannelPost(message) => {
                let later = later.filter_map(|update| Some((update.id, update.message()?)));
                let messages = joined.album(message, later);
                self.take_message(bot, &messages, context).await
            }
            UpdateKind::EditedMessage(message) => {
                self.take_edit(bot, message, context).await;
                Next::Confirm
            }
            UpdateKind::CallbackQuery(query) => self.take_press(query, context).await,
            UpdateKind::Error(_) => {
                tracing::warn!(channel = %self.name, update = update.id, "an update could not be read and was skipped");
                Next::Confirm
            }
            _ => Next::Confirm,
        }
    }

    async fn take_message(&self, bot: &BotIdentity, messages: &[Message], context: &ChannelContext) -> Next {
        let Some(candidate) = self.candidate(bot, messages) else { return Next::Confirm };
        if !self.may_talk(&candidate.sender, &candidate.chat, &candidate.arrival, context).await {
            return Next::Confirm;
        }
        let message = self.compose(bot, &candidate, context).await;
        match self.hand_over(&message, &candidate.arrival, context).await {
            Admission::ShuttingDown | Admission::TryLater => Next::Stop,
            Admission::Accepted => {
                self.react(&message.chat_id, message.id.as_ref(), self.config.reaction());
                Next::Confirm
            }
            Admission::Duplicate | Admission::NotAllowed => Next::Confirm,
        }
    }

    /// Offers a message until there is an answer other than [`Admission::TryLater`].
    pub(crate) async fn hand_over(
        &self,
        message: &InboundMessage,
        arrival: &Arrival,
        context: &ChannelContext,
    ) -> Admission {
        let mut tries = 0;
        loop {
            let admission = context.intake.deliver(message.clone(), arrival).await;
            if admission != Admission::TryLater {
                return admission;
            }
            context.progress.degraded("messages cannot be stored now; Telegram keeps them");
            tokio::time::sleep(growing_pause(STORE_PAUSE, tries)).await;
            tries += 1;
        }
    }

    /// Asks who decides, and passes on what a stranger in a private chat shall read.
    pub(crate) async fn may_talk(
        &self,
        sender: &SenderId,
        chat: &ChatId,
        arrival: &Arrival,
        context: &ChannelContext,
    ) -> bool {
        match context.access.check(sender, chat, arrival).await {
            AccessDecision::Allowed => true,
            AccessDecision::Denied => false,
            AccessDecision::Ask(text) => {
                if arrival.kind == ChatKind::Direct {
                    self.tell(chat, &text).await;
                }
                false
            }
        }
    }

    /// Edits change nothing; people in private chats are told so once.
    async fn take_edit(&self, bot: &BotIdentity, message: &Message, context: &ChannelContext) {
        tracing::debug!(channel = %self.name, chat = message.chat.id.0, "an edited message is ignored");
        let is_text = message.text().or(message.caption()).is_some();
        let Some(candidate) = self.candidate(bot, std::slice::from_ref(message)) else { return };
        if is_text
            && candidate.arrival.kind == ChatKind::Direct
            && context.access.check(&candidate.sender, &candidate.chat, &candidate.arrival).await
                == AccessDecision::Allowed
            && self.is_first_edit_in(message.chat.id.0)
        {
            self.tell(&candidate.chat, EDITS_IGNORED).await;
        }
    }

    /// Says something on the channel's own behalf.
    async fn tell(&self, chat: &ChatId, text: &str) {
        let Ok(place) = Place::new(chat, &DeliveryContext::default()) else { return };
        if let Err(error) = send_message(&self.api, SendMessage::new(place.recipient(), text), &place).await {
            tracing::warn!(channel = %self.name, %error, "a notice could not be sent");
        }
    }
}
