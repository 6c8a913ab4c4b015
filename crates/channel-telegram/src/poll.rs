//! Receives: one long poll after the other, confirming nothing that is not stored.
//!
//! The offset of the next poll confirms every update below it, so it moves past an update only when
//! the update was dealt with. What the intake cannot take now is offered again, with a pause, before
//! anything after it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nanobot_channel::{AccessDecision, Admission, ChannelContext, ChannelError, ChatKind};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use teloxide::payloads::{DeleteWebhook, GetMe, GetUpdates, GetUpdatesSetters as _, SendMessage, SetMyCommands};
use teloxide::types::{AllowedUpdate, BotCommand, Message, Update, UpdateKind};

use crate::address::BotIdentity;
use crate::album::Joined;
use crate::channel::TelegramChannel;
use crate::error::CallError;
use crate::inbound::Candidate;
use crate::outbound::send_message;
use crate::place::Place;

/// How many polls may fail in a row before the channel counts as down.
const PATIENCE: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the rest of an album may take.
const ALBUM_TIME: Duration = Duration::from_millis(600);
/// The most updates that come with one poll.
const BATCH: usize = 100;
const EDITS_IGNORED: &str = "Edited messages are ignored; send a new one.";

/// What follows an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It was dealt with.
    Confirm,
    /// The assistant is going down: it stays.
    Stop,
}

/// An update as far as it could be read.
#[derive(Debug)]
struct Received {
    id: u32,
    kind: UpdateKind,
}

impl TelegramChannel {
    /// Receives until the assistant goes down.
    pub(crate) async fn receive(&self, context: &ChannelContext) -> Result<(), ChannelError> {
        let bot = self.introduce(context).await?;
        context.progress.alive();
        let mut joined = Joined::default();
        loop {
            let mut updates = self.poll(context, self.config.poll_timeout).await?;
            if ends_with_album(&updates) {
                // The rest of the album may be on its way. Nothing is confirmed, so all comes again.
                tokio::time::sleep(ALBUM_TIME).await;
                updates = self.poll(context, 0).await?;
            }
            let mut updates = updates.as_slice();
            while let Some((update, later)) = updates.split_first() {
                if !joined.take(update.id) && self.take(&bot, update, later, &mut joined, context).await == Next::Stop {
                    return Ok(());
                }
                // Members of an album that wait for their turn would come back alone.
                if joined.is_empty() {
                    let next = i32::try_from(update.id).unwrap_or(i32::MAX).saturating_add(1);
                    self.offset.store(next, Ordering::Relaxed);
                }
                updates = later;
            }
        }
    }

    /// Finds out who the bot is and tells Telegram what it can do.
    async fn introduce(&self, context: &ChannelContext) -> Result<BotIdentity, ChannelError> {
        #[derive(Deserialize)]
        struct Me {
            id: u64,
            username: Option<String>,
        }
        let me: Me = self.api.call(&GetMe::new()).await.map_err(CallError::repeatable)?;
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

    /// Polls until there is an answer.
    async fn poll(&self, context: &ChannelContext, seconds: u32) -> Result<Vec<Received>, ChannelError> {
        let mut failures = 0;
        loop {
            let kinds = [AllowedUpdate::Message, AllowedUpdate::EditedMessage];
            let mut request = GetUpdates::new().timeout(seconds).allowed_updates(kinds);
            request.offset = Some(self.offset.load(Ordering::Relaxed)).filter(|offset| *offset > 0);
            let error = match self.api.poll(&request).await {
                Ok(updates) => {
                    context.progress.alive();
                    return Ok(updates.iter().filter_map(|update| self.read(update)).collect());
                }
                Err(error) => error,
            };
            let pause = self.judge(error, failures, context).await?;
            failures += 1;
            tokio::time::sleep(pause).await;
        }
    }

    /// How long to wait after a failed poll, or why the channel is down.
    async fn judge(&self, error: CallError, failures: u32, context: &ChannelContext) -> Result<Duration, ChannelError> {
        if let Some(pause) = error.retry_after() {
            context.progress.degraded(&format!("Telegram asks for a pause of {} s", pause.as_secs()));
            return Ok(pause);
        }
        if error.is_about_webhook() && failures == 0 {
            tracing::warn!(channel = %self.name, "a webhook is set for this bot; it is removed, because the bot polls");
            self.api.call::<_, IgnoredAny>(&DeleteWebhook::new()).await.map_err(CallError::repeatable)?;
            return Ok(Duration::ZERO);
        }
        if let CallError::Refused { code: 409, description, .. } = &error {
            let advice = "another program receives with this token; stop it, or give one of the two its own bot";
            return Err(ChannelError::Unavailable(format!("{advice} ({description})")));
        }
        match error.repeatable() {
            ChannelError::Unavailable(why) if failures + 1 < PATIENCE => {
                context.progress.degraded(&why);
                Ok(growing_pause(failures))
            }
            error => Err(error),
        }
    }

    /// Reads an update. One that teloxide cannot read is skipped by its id.
    fn read(&self, raw: &RawValue) -> Option<Received> {
        #[derive(Deserialize)]
        struct Numbered {
            update_id: u32,
        }
        if let Ok(Update { id, kind }) = serde_json::from_str(raw.get()) {
            return Some(Received { id: id.0, kind });
        }
        let numbered = serde_json::from_str::<Numbered>(raw.get());
        if let Err(error) = &numbered {
            tracing::warn!(channel = %self.name, %error, "an update without a usable id was passed over");
        }
        numbered.ok().map(|Numbered { update_id }| Received { id: update_id, kind: UpdateKind::Error(().into()) })
    }

    async fn take(
        &self,
        bot: &BotIdentity,
        update: &Received,
        later: &[Received],
        joined: &mut Joined,
        context: &ChannelContext,
    ) -> Next {
        match &update.kind {
            UpdateKind::Message(message) => {
                let later = later.iter().filter_map(|update| Some((update.id, message_of(update)?)));
                let messages = joined.album(message, later);
                self.take_message(bot, &messages, context).await
            }
            UpdateKind::EditedMessage(message) => {
                self.take_edit(bot, message, context).await;
                Next::Confirm
            }
            UpdateKind::Error(_) => {
                tracing::warn!(channel = %self.name, update = update.id, "an update could not be read and was skipped");
                Next::Confirm
            }
            _ => Next::Confirm,
        }
    }

    async fn take_message(&self, bot: &BotIdentity, messages: &[Message], context: &ChannelContext) -> Next {
        let Some(candidate) = self.candidate(bot, messages) else { return Next::Confirm };
        if !self.may_talk(&candidate, context).await {
            return Next::Confirm;
        }
        let message = self.compose(bot, &candidate, context).await;
        let mut tries = 0;
        loop {
            match context.intake.deliver(message.clone(), &candidate.arrival).await {
                Admission::TryLater => {
                    context.progress.degraded("messages cannot be stored now; Telegram keeps them");
                    tokio::time::sleep(growing_pause(tries)).await;
                    tries += 1;
                }
                Admission::ShuttingDown => return Next::Stop,
                Admission::Accepted => {
                    self.react(&message.chat_id, message.id.as_ref(), self.config.react_emoji.as_deref());
                    return Next::Confirm;
                }
                Admission::Duplicate | Admission::NotAllowed => return Next::Confirm,
            }
        }
    }

    /// Asks who decides, and passes on what a stranger in a private chat shall read.
    async fn may_talk(&self, candidate: &Candidate<'_>, context: &ChannelContext) -> bool {
        match context.access.check(&candidate.sender, &candidate.chat, &candidate.arrival).await {
            AccessDecision::Allowed => true,
            AccessDecision::Denied => false,
            AccessDecision::Ask(text) => {
                if candidate.arrival.kind == ChatKind::Direct {
                    self.tell(candidate, &text).await;
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
            self.tell(&candidate, EDITS_IGNORED).await;
        }
    }

    /// Says something on the channel's own behalf.
    async fn tell(&self, candidate: &Candidate<'_>, text: &str) {
        let Ok(place) = Place::new(&candidate.chat, &nanobot_channel::DeliveryContext::default()) else { return };
        if let Err(error) = send_message(&self.api, SendMessage::new(place.recipient(), text), &place).await {
            tracing::warn!(channel = %self.name, %error, "a notice could not be sent");
        }
    }
}

fn message_of(update: &Received) -> Option<&Message> {
    match &update.kind {
        UpdateKind::Message(message) => Some(message),
        _ => None,
    }
}

fn ends_with_album(updates: &[Received]) -> bool {
    let last = updates.last().filter(|_| updates.len() < BATCH).and_then(message_of);
    last.is_some_and(|message| message.media_group_id().is_some())
}

fn growing_pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(tries.min(10))).min(LONGEST_PAUSE)
}
