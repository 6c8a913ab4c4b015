//! What is done with an update, however it came.
//!
//! Decision: an update is confirmed when it was dealt with, that is when whatever it brought is
//! durable. What the intake cannot take now is offered again, with a pause, before anything after it
//! in its chat.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nanobot_channel::{AccessDecision, ChannelContext, ChannelError, ChatKind};
use nanobot_channel_kit::backoff;
use nanobot_channel_kit::intake::{self, Next};
use serde::Deserialize;
use serde::de::IgnoredAny;
use teloxide::payloads::{GetMe, SetMyCommands};
use teloxide::types::{AllowedUpdate, BotCommand, MediaGroupId, Message, UpdateKind};

use crate::address::BotIdentity;
use crate::album::Job;
use crate::channel::TelegramChannel;
use crate::config::Mode;
use crate::error::CallError;
use crate::intake::TelegramSource;
use crate::moves::moved;
use crate::salvage;

/// How long the rest of an album may take.
pub(crate) const ALBUM_TIME: Duration = Duration::from_millis(600);
/// The pause before a move that could not be noted is noted again; each is longer.
const STORE_PAUSE: Duration = Duration::from_millis(500);
const EDITS_IGNORED: &str = "Edited messages are ignored; send a new one.";

/// An update of which nothing but its id was read.
#[derive(Debug)]
pub(crate) struct RawUpdate {
    pub(crate) id: u32,
    text: Box<str>,
}

impl RawUpdate {
    /// Finds the id of an update; `None` when it has none. Builds no value of the rest and does not
    /// recurse into it, whatever it is.
    pub(crate) fn find(text: impl Into<Box<str>>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Numbered {
            update_id: u32,
        }
        let text = text.into();
        let content = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let Numbered { update_id } = serde_json::from_str(content).ok()?;
        Some(Self {
            id: update_id,
            text,
        })
    }

    /// The name of its tries.
    fn key(&self) -> String {
        self.id.to_string()
    }
}

/// An update as far as it could be read.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) id: u32,
    kind: UpdateKind,
    /// Nothing of it was read, and nothing is to be done.
    is_set_aside: bool,
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
        self.username
            .as_ref()
            .map_or_else(|| self.id.to_string(), |username| format!("@{username}"))
    }
}

impl Received {
    /// Reads an update as far as it can be read.
    pub(crate) fn read(raw: &RawUpdate) -> Self {
        let kind = salvage::read(&raw.text)
            .map_or_else(|| UpdateKind::Error(().into()), |update| update.kind);
        Self {
            id: raw.id,
            kind,
            is_set_aside: false,
        }
    }

    fn set_aside(raw: &RawUpdate) -> Self {
        Self {
            id: raw.id,
            kind: UpdateKind::Error(().into()),
            is_set_aside: true,
        }
    }

    /// The message it brings.
    pub(crate) fn message(&self) -> Option<&Message> {
        match &self.kind {
            UpdateKind::Message(message) | UpdateKind::ChannelPost(message) => Some(message),
            _ => None,
        }
    }

    /// The album that it is a piece of, so that the others may be on their way.
    pub(crate) fn album(&self) -> Option<(i64, &MediaGroupId)> {
        let message = self.message()?;
        message
            .media_group_id()
            .map(|group| (message.chat.id.0, group))
    }

    /// What waits for it, and for what it waits: the updates of its chat. The move of a group counts
    /// as one of its new id.
    pub(crate) fn lane(&self) -> i64 {
        let message = match &self.kind {
            UpdateKind::Message(message)
            | UpdateKind::ChannelPost(message)
            | UpdateKind::EditedMessage(message) => Some(message),
            UpdateKind::CallbackQuery(query) => query
                .message
                .as_ref()
                .and_then(|message| message.regular_message()),
            _ => None,
        };
        message.map_or(0, |message| {
            moved(message).map_or(message.chat.id.0, |(_, new)| new)
        })
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
        self.api
            .call(&GetMe::new())
            .await
            .map_err(CallError::repeatable)
    }

    /// Finds out who the bot is and tells Telegram what it can do.
    async fn introduce(&self, context: &ChannelContext) -> Result<BotIdentity, ChannelError> {
        let me = self.me().await?;
        let username = me.username.unwrap_or_default();
        let bot = BotIdentity {
            id: me.id,
            username,
            commands: Arc::clone(&context.commands),
        };
        // Telegram offers `/start` by itself.
        let listed = bot
            .commands
            .iter()
            .filter(|command| command.name != "start");
        let commands = listed.map(|command| BotCommand::new(command.name, command.about));
        if let Err(error) = self
            .api
            .call::<_, IgnoredAny>(&SetMyCommands::new(commands))
            .await
        {
            tracing::warn!(channel = %self.name, %error, "the commands of the bot could not be set");
        }
        tracing::info!(channel = %self.name, bot = bot.username, "receiving from Telegram");
        Ok(bot)
    }

    /// The kinds of updates that are wanted.
    pub(crate) fn wanted_updates(&self) -> Vec<AllowedUpdate> {
        let mut kinds = vec![
            AllowedUpdate::Message,
            AllowedUpdate::EditedMessage,
            AllowedUpdate::ChannelPost,
        ];
        kinds.extend(
            self.config
                .inline_keyboards
                .then_some(AllowedUpdate::CallbackQuery),
        );
        kinds
    }

    /// Reads updates that came together, after their tries were noted. Those that earlier processes
    /// ended with are read one at a time, and set aside after too many tries.
    pub(crate) async fn open_updates(
        &self,
        updates: Vec<RawUpdate>,
        context: &ChannelContext,
    ) -> Vec<Received> {
        let fresh = updates
            .iter()
            .map(RawUpdate::key)
            .filter(|key| !self.quarantine.is_suspect(key));
        self.quarantine.begin(&fresh.collect::<Vec<_>>()).await;
        let mut read = Vec::with_capacity(updates.len());
        for update in updates {
            let key = update.key();
            if !self.quarantine.is_suspect(&key) {
                read.push(Received::read(&update));
                continue;
            }
            read.push(
                match self
                    .quarantine
                    .admit(&key, update.text.as_bytes(), context.progress.as_ref())
                    .await
                {
                    Some(handling) => {
                        let received = Received::read(&update);
                        handling.pause().await;
                        received
                    }
                    None => Received::set_aside(&update),
                },
            );
        }
        read
    }

    /// Deals with an update, or with the messages of an album.
    pub(crate) async fn take(
        &self,
        bot: &BotIdentity,
        job: &Job,
        context: &ChannelContext,
    ) -> Next {
        if job.first.is_set_aside {
            return Next::Confirm;
        }
        let keys: Vec<String> = job.updates().map(|update| update.id.to_string()).collect();
        let handling = self.quarantine.enter(&keys).await;
        let candidate = match &job.first.kind {
            UpdateKind::Message(message) | UpdateKind::ChannelPost(message) => {
                if let Some((old, new)) = moved(message) {
                    handling.end().await;
                    self.take_move(old, new, context).await;
                    return Next::Confirm;
                }
                let messages: Vec<Message> = job
                    .updates()
                    .filter_map(Received::message)
                    .cloned()
                    .collect();
                self.candidate(bot, &messages)
            }
            UpdateKind::EditedMessage(message) => {
                self.take_edit(bot, message, context).await;
                None
            }
            UpdateKind::CallbackQuery(query) => self.press(query),
            UpdateKind::Error(_) => {
                tracing::warn!(channel = %self.name, update = job.first.id, "an update could not be read and was skipped");
                None
            }
            _ => None,
        };
        let Some(candidate) = candidate else {
            handling.end().await;
            return Next::Confirm;
        };
        intake::take(&TelegramSource(self), &candidate, Some(handling), context).await
    }

    /// A sign of life, unless messages cannot be stored: that is not over because more of them come.
    pub(crate) fn show_life(&self, context: &ChannelContext) {
        if self.refused.load(Ordering::Relaxed) == 0 {
            context.progress.alive();
        }
    }

    /// Notes that a group has another id now, before anything that comes from there.
    async fn take_move(&self, old: i64, new: i64, context: &ChannelContext) {
        let mut tries = 0;
        while let Err(error) = self.moves.learn(old, new).await {
            context.progress.degraded(&format!(
                "{error}; Telegram keeps what comes from the group meanwhile"
            ));
            tokio::time::sleep(backoff(STORE_PAUSE, tries)).await;
            tries += 1;
        }
    }

    /// Edits change nothing; people in private chats are told so once.
    async fn take_edit(&self, bot: &BotIdentity, message: &Message, context: &ChannelContext) {
        tracing::debug!(channel = %self.name, chat = message.chat.id.0, "an edited message is ignored");
        let is_text = message.text().or(message.caption()).is_some();
        let Some(candidate) = self.candidate(bot, std::slice::from_ref(message)) else {
            return;
        };
        if is_text
            && candidate.arrival.kind == ChatKind::Direct
            && context
                .access
                .check(&candidate.sender, &candidate.chat, &candidate.arrival)
                .await
                == AccessDecision::Allowed
            && self.is_first_edit_in(message.chat.id.0)
        {
            self.tell(&candidate.chat, EDITS_IGNORED).await;
        }
    }
}
