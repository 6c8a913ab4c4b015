//! Notices that a channel is down, sent through another channel: `channels.lifecycleNotices`.
//!
//! Decision: off unless a chat is configured. Short outages are ignored. Every longer outage is
//! reported once when it has lasted long enough, and once when it is over. The idempotency key of
//! the notice is made of the channel and the time at which it went down, so that it is not sent
//! twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nanobot_bus::{Bus, LONGEST_DELAY};
use nanobot_channel::ChannelName;
use nanobot_channels::{Health, HealthMap, HealthState};
use nanobot_types::{
    ChatAddress, NoticeKind, OutboundKey, OutboundKind, OutboundMessage, OutboundSlot, TraceId,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::assembly::settings::LifecycleNotices;

/// An outage that has not ended.
#[derive(Debug)]
struct Outage {
    began: Instant,
    /// Part of the idempotency keys of its notices.
    name: String,
    why: String,
    is_reported: bool,
}

/// Watches the health of channels and reports outages.
pub(crate) struct OutageNotices {
    pub(crate) settings: LifecycleNotices,
    pub(crate) health: Health,
    pub(crate) bus: Arc<dyn Bus>,
}

impl OutageNotices {
    /// Watches until `cancel` fires.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        if !self.settings.tell.is_empty() {
            cancel.run_until_cancelled(self.watch()).await;
        }
    }

    async fn watch(&self) {
        // Adding an unbounded duration to an `Instant` could overflow.
        let threshold =
            Duration::from_secs(self.settings.after_minutes.saturating_mul(60)).min(LONGEST_DELAY);
        let mut changed = self.health.subscribe();
        let mut outages = BTreeMap::new();
        loop {
            let now = changed.borrow_and_update().clone();
            self.update_outages(&now, &mut outages, threshold).await;
            let next = outages
                .values()
                .filter(|outage| !outage.is_reported)
                .map(|outage| outage.began + threshold)
                .min();
            let due = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                news = changed.changed() => if news.is_err() { return },
                () = due => {}
            }
        }
    }

    async fn update_outages(
        &self,
        now: &HealthMap,
        outages: &mut BTreeMap<ChannelName, Outage>,
        threshold: Duration,
    ) {
        let mut over = Vec::new();
        for channel in outages.keys() {
            match now.get(channel) {
                Some(HealthState::Running) => over.push((channel.clone(), true)),
                // The channel is not configured any more.
                None => over.push((channel.clone(), false)),
                Some(_) => {}
            }
        }
        for (channel, has_recovered) in over {
            let Some(outage) = outages.remove(&channel) else {
                continue;
            };
            if has_recovered && outage.is_reported {
                let minutes = outage.began.elapsed().as_secs() / 60;
                let text =
                    format!("The channel {channel} receives again, after {minutes} minutes.");
                self.send_notice(&channel, now, &outage, NoticeKind::OutageEnded, &text)
                    .await;
            }
        }
        for (channel, state) in now {
            let (HealthState::Degraded { why, .. } | HealthState::Failed { why }) = state else {
                continue;
            };
            let outage = outages.entry(channel.clone()).or_insert_with(|| Outage {
                began: Instant::now(),
                name: chrono::Utc::now().timestamp_millis().to_string(),
                why: String::new(),
                is_reported: false,
            });
            outage.why.clone_from(why);
            if !outage.is_reported && outage.began.elapsed() >= threshold {
                outage.is_reported = true;
                let text = format!(
                    "The channel {channel} has not been well for {} minutes: {why}",
                    threshold.as_secs() / 60
                );
                self.send_notice(channel, now, outage, NoticeKind::OutageBegan, &text)
                    .await;
            }
        }
    }

    /// Sends a notice to every configured chat that another channel reaches. `kind` makes the kind
    /// of the notice from the index of the chat.
    async fn send_notice(
        &self,
        down: &ChannelName,
        now: &HealthMap,
        outage: &Outage,
        kind: fn(u32) -> NoticeKind,
        text: &str,
    ) {
        for (chat, index) in self.settings.tell.iter().zip(0..) {
            let Some((channel, chat)) = chat.split_once(':') else {
                tracing::warn!(
                    chat,
                    "channels.lifecycleNotices.tell wants chats as channel:chat"
                );
                continue;
            };
            let channel = ChannelName::from(channel);
            if channel == *down || !now.contains_key(&channel) {
                continue;
            }
            let address = ChatAddress::new(channel, chat);
            let turn = TraceId::from(format!("outage of {down} {}", outage.name));
            let key = OutboundKey::new(turn, OutboundSlot::Notice(kind(index)));
            let notice = OutboundMessage::to(address, key, OutboundKind::Notice, text.to_owned());
            if let Err(error) = self.bus.publish_outbound(notice).await {
                tracing::error!(channel = %down, %error, "could not announce that the channel is down");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nanobot_bus::MemoryBus;
    use nanobot_channel::{Channel, ChannelError};
    use nanobot_channels::{ChannelManager, ChannelManagerParts, ChannelSettings, ManagedChannel};
    use nanobot_testkit::RecordingChannel;
    use tokio_util::task::TaskTracker;

    use super::*;

    /// Starts two channels, one of which is to go down.
    fn manager(
        bus: &MemoryBus,
        health: &Health,
        channels: &[Arc<RecordingChannel>; 2],
    ) -> ChannelManager {
        let managed = |channel: &Arc<RecordingChannel>| {
            let mut settings = ChannelSettings::default();
            settings.delivery.alive_within_s = 1_000_000;
            ManagedChannel::fixed(Arc::clone(channel) as Arc<dyn Channel>, settings)
        };
        let channels = channels.iter().map(managed).collect();
        ChannelManager::start(&ChannelManagerParts {
            health: health.clone(),
            ..ChannelManagerParts::new(bus, channels, "unused")
        })
        .unwrap()
    }

    /// The task would panic if the clock could not add the duration.
    #[tokio::test(start_paused = true)]
    async fn any_outage_threshold_is_accepted() {
        for after_minutes in [u64::MAX, u64::MAX / 60, 1 << 50] {
            let (bus, health, tasks) = (MemoryBus::new(), Health::default(), TaskTracker::new());
            let channels = ["down", "up"].map(|name| Arc::new(RecordingChannel::new(name)));
            let manager = manager(&bus, &health, &channels);
            let settings = LifecycleNotices {
                tell: vec!["up:7".to_owned()],
                after_minutes,
            };
            let watching = tasks.spawn(
                OutageNotices {
                    settings,
                    health,
                    bus: Arc::new(bus),
                }
                .run(CancellationToken::new()),
            );
            let [down, up] = &channels;
            down.wait_for_runs(1).await.unwrap();
            down.crash(ChannelError::Auth("revoked".to_owned()));
            tokio::time::sleep(Duration::from_mins(10)).await;
            assert!(!watching.is_finished(), "{after_minutes}");
            assert_eq!(up.texts(), Vec::<String>::new(), "{after_minutes}");
            watching.abort();
            assert!(manager.stop().await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn outage_and_recovery_are_reported_once_elsewhere() {
        let (bus, health, tasks) = (MemoryBus::new(), Health::default(), TaskTracker::new());
        let channels = ["down", "up"].map(|name| Arc::new(RecordingChannel::new(name)));
        let manager = manager(&bus, &health, &channels);
        let tell = ["up:7", "down:7", "nowhere:7", "nonsense"]
            .map(str::to_owned)
            .to_vec();
        let settings = LifecycleNotices {
            tell,
            ..LifecycleNotices::default()
        };
        let watching = tasks.spawn(
            OutageNotices {
                settings,
                health,
                bus: Arc::new(bus),
            }
            .run(CancellationToken::new()),
        );
        let [down, up] = &channels;
        for channel in &channels {
            channel.wait_for_runs(1).await.unwrap();
        }
        // A short outage is not reported.
        down.crash(ChannelError::Unavailable("no route".to_owned()));
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(up.texts(), Vec::<String>::new());
        down.crash(ChannelError::Auth("revoked".to_owned()));
        tokio::time::sleep(Duration::from_mins(50)).await;
        let outage = "The channel down has not been well for 5 minutes: the platform refuses the credentials: revoked";
        assert_eq!(up.texts(), [outage]);
        // By now the channel was started once more.
        tokio::time::sleep(Duration::from_mins(30)).await;
        let texts = up.texts();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(
            texts
                .last()
                .unwrap()
                .starts_with("The channel down receives again, after "),
            "{texts:?}"
        );
        assert_eq!(down.texts(), Vec::<String>::new());
        watching.abort();
        assert!(manager.stop().await);
    }
}
