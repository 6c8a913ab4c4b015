//! Handling of updates from polls and from the webhook.
//!
//! Decision: an update is confirmed after it was handled, so that its message is durable. A message
//! that the intake cannot take is offered again, with a backoff, before any later one of its chat.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nanobot_channel::{AccessDecision, ChannelContext, ChannelError, ChatKind};
use nanobot_channel_kit::backoff;
use nanobot_channel_kit::intake::{self, Next};
use serde::Deserialize;
use serde::de::IgnoredAny;
use teloxide::payloads::{GetMe, SetMyCommands};
use teloxide::types::{AllowedUpdate, BotCommand, Message, UpdateKind};

use crate::address::BotIdentity;
use crate::album::UpdateJob;
use crate::channel::Telegram;
use crate::config::Mode;
use crate::error::CallError;
use crate::migration::migration_of;
use crate::wire::{ParsedUpdate, RawUpdate};

/// Time in which the rest of an album is expected.
pub(crate) const ALBUM_WAIT: Duration = Duration::from_millis(600);
/// The first pause before another attempt at noting a move.
const STORE_PAUSE: Duration = Duration::from_millis(500);
const EDITS_IGNORED: &str = "Edited messages are ignored; send a new one.";

/// The names of the bot.
#[derive(Debug, Deserialize)]
pub(crate) struct BotAccount {
    id: u64,
    username: Option<String>,
}

impl BotAccount {
    /// Returns the name that people see.
    pub(crate) fn shown(&self) -> String {
        self.username
            .as_ref()
            .map_or_else(|| self.id.to_string(), |username| format!("@{username}"))
    }
}

impl Telegram {
    /// Receives until the run ends.
    pub(crate) async fn receive_updates(
        &self,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        // An old connection may be the reason why the last run ended.
        self.api.renew();
        // This is no sign of life: a known bot may still get no messages.
        let bot = self.set_up_bot(context).await?;
        match self.config.mode {
            Mode::Polling => self.receive_by_polls(&bot, context).await,
            Mode::Webhook => Box::pin(self.receive_by_webhook(&bot, context)).await,
        }
    }

    /// Asks Telegram for the bot's identity.
    pub(crate) async fn identify(&self) -> Result<BotAccount, ChannelError> {
        self.api
            .call(&GetMe::new())
            .await
            .map_err(CallError::repeatable)
    }

    /// Reads the bot's identity and sets its menu of commands.
    async fn set_up_bot(&self, context: &ChannelContext) -> Result<BotIdentity, ChannelError> {
        let me = self.identify().await?;
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
            tracing::warn!(channel = %self.base.name, %error, "the commands of the bot could not be set");
        }
        tracing::info!(channel = %self.base.name, bot = bot.username, "receiving from Telegram");
        Ok(bot)
    }

    /// Returns the kinds of updates to receive.
    pub(crate) fn allowed_updates() -> Vec<AllowedUpdate> {
        vec![
            AllowedUpdate::Message,
            AllowedUpdate::EditedMessage,
            AllowedUpdate::ChannelPost,
            // Questions about calls always have buttons.
            AllowedUpdate::CallbackQuery,
        ]
    }

    /// Reads updates that arrived together, after their attempts were noted. Suspects are read one
    /// at a time, and set aside after too many attempts.
    pub(crate) async fn parse_updates(
        &self,
        updates: Vec<RawUpdate>,
        context: &ChannelContext,
    ) -> Vec<ParsedUpdate> {
        let fresh = updates
            .iter()
            .map(RawUpdate::key)
            .filter(|key| !self.base.quarantine.is_suspect(key));
        self.base.quarantine.begin(&fresh.collect::<Vec<_>>()).await;
        let mut read = Vec::with_capacity(updates.len());
        for update in updates {
            let key = update.key();
            if !self.base.quarantine.is_suspect(&key) {
                read.push(ParsedUpdate::parse(&update));
                continue;
            }
            read.push(
                match self
                    .base
                    .quarantine
                    .admit(&key, update.text.as_bytes(), context.progress.as_ref())
                    .await
                {
                    Some(handling) => {
                        let received = ParsedUpdate::parse(&update);
                        handling.pause().await;
                        received
                    }
                    None => ParsedUpdate::quarantined(&update),
                },
            );
        }
        read
    }

    /// Handles an update, or the messages of an album.
    pub(crate) async fn handle_job(
        &self,
        bot: &BotIdentity,
        job: &UpdateJob,
        context: &ChannelContext,
    ) -> Next {
        if job.first.is_quarantined {
            return Next::Confirm;
        }
        let keys: Vec<String> = job.updates().map(|update| update.id.to_string()).collect();
        let handling = self.base.quarantine.enter(&keys).await;
        let candidate = match &job.first.kind {
            UpdateKind::Message(message) | UpdateKind::ChannelPost(message) => {
                if let Some((old, new)) = migration_of(message) {
                    handling.end().await;
                    self.record_migration(old, new, context).await;
                    return Next::Confirm;
                }
                let messages: Vec<Message> = job
                    .updates()
                    .filter_map(ParsedUpdate::message)
                    .cloned()
                    .collect();
                self.message_candidate(bot, &messages)
            }
            UpdateKind::EditedMessage(message) => {
                self.handle_edit(bot, message, context).await;
                None
            }
            UpdateKind::CallbackQuery(query) => self.interaction_candidate(query),
            UpdateKind::Error(_) => {
                tracing::warn!(channel = %self.base.name, update = job.first.id, "an update could not be read and was skipped");
                None
            }
            _ => None,
        };
        let Some(candidate) = candidate else {
            handling.end().await;
            return Next::Confirm;
        };
        intake::accept(self, &candidate, Some(handling), context).await
    }

    /// Reports a sign of life, unless messages cannot be stored.
    pub(crate) fn report_alive(&self, context: &ChannelContext) {
        if self.waiting_messages.load(Ordering::Relaxed) == 0 {
            context.progress.alive();
        }
    }

    /// Notes the move of a group, before any message of its new id is handled.
    async fn record_migration(&self, old: i64, new: i64, context: &ChannelContext) {
        let mut tries = 0;
        while let Err(error) = self.migrations.record(old, new).await {
            context.progress.degraded(&format!(
                "{error}; Telegram keeps what comes from the group meanwhile"
            ));
            tokio::time::sleep(backoff(STORE_PAUSE, tries)).await;
            tries += 1;
        }
    }

    /// Ignores an edit, with one notice per private chat.
    async fn handle_edit(&self, bot: &BotIdentity, message: &Message, context: &ChannelContext) {
        tracing::debug!(channel = %self.base.name, chat = message.chat.id.0, "an edited message is ignored");
        let is_text = message.text().or(message.caption()).is_some();
        let Some(candidate) = self.message_candidate(bot, std::slice::from_ref(message)) else {
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
            self.notify(&candidate.chat, EDITS_IGNORED).await;
        }
    }
}
