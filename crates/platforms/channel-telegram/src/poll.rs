//! Receives by long polls; updates are confirmed after they are stored.
//!
//! The offset of the next poll confirms every update below it, so it moves past an update only
//! after it was handled. Until then a poll returns the same updates at once, so polls are limited
//! to one a second. An empty poll is a sign of life, but its connection may be dead: after several
//! of them, the number of pending updates is requested over another connection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use nanobot_channel::{ChannelContext, ChannelError};
use nanobot_channel_kit::Reconnect;
use serde::Deserialize;
use serde::de::IgnoredAny;
use teloxide::payloads::{DeleteWebhook, GetUpdates, GetUpdatesSetters as _, GetWebhookInfo};

use crate::address::BotIdentity;
use crate::album::jobs;
use crate::channel::Telegram;
use crate::error::{CallError, Refusal};
use crate::lanes::UpdateLanes;
use crate::receive::ALBUM_WAIT;
use crate::window::OffsetWindow;
use crate::wire::{ParsedUpdate, RawUpdate};

/// Failed polls in a row after which the channel counts as down.
const MAX_FAILURES: u32 = 3;
/// Most updates of one poll.
pub(crate) const MAX_BATCH: usize = 100;
/// Empty polls in a row after which Telegram is asked for the number of waiting updates.
const MAX_EMPTY_POLLS: u32 = 8;
/// Interval of polls while updates are being handled.
const BUSY_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The used fields of the API's `WebhookInfo`.
#[derive(Debug, Deserialize)]
pub(crate) struct WebhookInfo {
    /// The webhook's address; empty without a webhook.
    pub(crate) url: String,
    pub(crate) pending_update_count: u64,
    pub(crate) last_error_message: Option<String>,
}

impl Telegram {
    /// Polls until the run ends.
    pub(crate) async fn receive_by_polls(
        &self,
        bot: &BotIdentity,
        context: &ChannelContext,
    ) -> Result<(), ChannelError> {
        let (mut lanes, mut window) = (
            UpdateLanes::new(self, bot, context),
            OffsetWindow::new(&self.offset),
        );
        let mut empty_polls = 0;
        // The first one ends at once, and shows whether polls work.
        let mut seconds = 0;
        loop {
            let is_idle = lanes.is_idle();
            if is_idle {
                window.clear();
            }
            let poll = self.poll(context, if is_idle { seconds } else { 0 });
            let Some(updates) = lanes.run_until(poll, &mut window).await else {
                return Ok(());
            };
            seconds = self.config.poll_timeout;
            let mut news = window.filter_new(updates?);
            if is_idle && news.is_empty() {
                empty_polls += 1;
                if empty_polls < MAX_EMPTY_POLLS {
                    continue;
                }
                news = self.check_missed_updates(context).await?;
            }
            empty_polls = 0;
            let parsed = lanes
                .run_until(self.parse_updates(news, context), &mut window)
                .await;
            let Some(mut updates) = parsed else {
                return Ok(());
            };
            if ends_with_album(&updates) {
                // The rest of the album may be on its way. Nothing of it is confirmed, so all comes
                // again.
                let rest = async {
                    tokio::time::sleep(ALBUM_WAIT).await;
                    self.poll(context, 0).await
                };
                let Some(updates_again) = lanes.run_until(rest, &mut window).await else {
                    return Ok(());
                };
                let mut news = window.filter_new(updates_again?);
                news.retain(|update| updates.iter().all(|known| known.id != update.id));
                let parsed = lanes
                    .run_until(self.parse_updates(news, context), &mut window)
                    .await;
                let Some(rest) = parsed else { return Ok(()) };
                updates.extend(rest);
                updates.sort_by_key(|update| update.id);
            }
            for job in jobs(updates) {
                window.add(&job);
                lanes.add(job);
            }
            if lanes
                .until_idle(BUSY_POLL_INTERVAL, &mut window)
                .await
                .is_none()
            {
                return Ok(());
            }
        }
    }

    /// Asks Telegram for the updates that wait.
    pub(crate) async fn webhook_info(&self) -> Result<WebhookInfo, ChannelError> {
        self.api
            .call(&GetWebhookInfo::new())
            .await
            .map_err(CallError::repeatable)
    }

    /// Checks that no updates wait. Waiting ones are fetched over a new connection.
    async fn check_missed_updates(
        &self,
        context: &ChannelContext,
    ) -> Result<Vec<RawUpdate>, ChannelError> {
        let waiting = match self.webhook_info().await {
            Ok(waiting) => waiting.pending_update_count,
            Err(error) if error.is_permanent() => return Err(error),
            Err(error) => {
                tracing::debug!(channel = %self.base.name, %error, "Telegram does not say how many updates wait");
                return Ok(Vec::new());
            }
        };
        if waiting == 0 {
            return Ok(Vec::new());
        }
        self.api.renew();
        let updates = self.poll(context, 0).await?;
        if updates.is_empty() && self.webhook_info().await?.pending_update_count >= waiting {
            return Err(ChannelError::Unavailable(format!(
                "{waiting} updates wait at Telegram, but polls bring none"
            )));
        }
        Ok(updates)
    }

    /// Polls until there is an answer. A poll after a failure returns at once, so that the recovery
    /// is noticed.
    async fn poll(
        &self,
        context: &ChannelContext,
        seconds: u32,
    ) -> Result<Vec<RawUpdate>, ChannelError> {
        let mut reconnect = Reconnect::new("Telegram", self.config.reconnect_pause(), MAX_FAILURES);
        let mut is_repeated = false;
        loop {
            let seconds = if is_repeated { 0 } else { seconds };
            let mut request = GetUpdates::new()
                .timeout(seconds)
                .allowed_updates(Self::allowed_updates());
            request.offset = Some(self.offset.load(Ordering::Relaxed)).filter(|offset| *offset > 0);
            let error = match self.api.poll(&request).await {
                Ok(updates) => {
                    self.report_alive(context);
                    let updates = updates.iter().filter_map(|update| {
                        let update = RawUpdate::peek(update.get());
                        if update.is_none() {
                            tracing::warn!(channel = %self.base.name, "an update without a usable id was passed over");
                        }
                        update
                    });
                    return Ok(updates.collect());
                }
                Err(error) => error,
            };
            let pause = self.pause_after(error, is_repeated, &mut reconnect, context);
            let pause = pause.await?;
            is_repeated = true;
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the pause after a failed poll, or the reason why the channel is down.
    async fn pause_after(
        &self,
        error: CallError,
        is_repeated: bool,
        reconnect: &mut Reconnect,
        context: &ChannelContext,
    ) -> Result<Duration, ChannelError> {
        if error.is(Refusal::is_about_webhook) && !is_repeated {
            tracing::warn!(channel = %self.base.name, "a webhook is set for this bot; it is removed, because the bot polls");
            self.api
                .call::<_, IgnoredAny>(&DeleteWebhook::new())
                .await
                .map_err(CallError::repeatable)?;
            return Ok(Duration::ZERO);
        }
        if let CallError::Refused(Refusal {
            code: 409,
            description,
            ..
        }) = &error
        {
            let advice = "stop the other program that polls with this token, or give one of the two its own bot";
            return Err(ChannelError::Conflict(format!("{advice} ({description})")));
        }
        reconnect.failed(error.repeatable(), context.progress.as_ref())
    }
}

fn ends_with_album(updates: &[ParsedUpdate]) -> bool {
    updates
        .last()
        .filter(|_| updates.len() < MAX_BATCH)
        .is_some_and(|update| update.album().is_some())
}
