//! The beat itself.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_bus::{Bus, BusError, Ledger, LedgerFilter, Queue};
use nanobot_types::{
    ChannelName, ChatId, ChatKind, DeliveryContext, HEARTBEAT_SESSION, InboundMessage, Origin,
    SessionKey, Timestamp,
};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{Decider, Decision, active_tasks};

/// A file longer than this, in bytes, is not read: it is no list of tasks.
pub const LONGEST_FILE: u64 = 256 << 10;
/// Open messages beyond which nobody looks for an earlier beat.
const LOOKED_AT: usize = 10_000;

/// `gateway.heartbeat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatSettings {
    /// Whether a gateway looks at the file.
    pub enabled: bool,
    /// Seconds from one look to the next.
    pub interval_s: u64,
    /// Messages of earlier beats that the next one still sees.
    pub keep_recent_messages: usize,
}

impl Default for HeartbeatSettings {
    /// Every half hour, with eight messages.
    fn default() -> Self {
        Self {
            enabled: true,
            interval_s: 1800,
            keep_recent_messages: 8,
        }
    }
}

/// Where what came of a beat is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The channel.
    pub channel: ChannelName,
    /// The chat in it.
    pub chat_id: ChatId,
    /// Where in the chat.
    pub delivery: DeliveryContext,
    /// Who else hears it, where that is known.
    pub chat: Option<ChatKind>,
}

/// Knows where people talk to the assistant.
#[async_trait]
pub trait Places: Send + Sync + std::fmt::Debug {
    /// Where somebody wrote last, of all places that can be written to now; `None` when there is
    /// none.
    async fn latest(&self) -> Option<Place>;
}

/// What a service needs.
#[derive(Clone, Debug)]
pub struct HeartbeatParts {
    /// `HEARTBEAT.md`.
    pub file: PathBuf,
    /// Who decides.
    pub decider: Decider,
    /// Where tasks go.
    pub bus: Arc<dyn Bus>,
    /// Whether the last ones are done.
    pub ledger: Arc<dyn Ledger>,
    /// Where to tell of it.
    pub places: Arc<dyn Places>,
    /// How often.
    pub settings: HeartbeatSettings,
}

/// What came of a beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beat {
    /// The file asks for nothing; no model was asked.
    Idle,
    /// The work of an earlier beat is not done; no model was asked.
    Busy,
    /// Nothing is due.
    Skipped,
    /// Work was begun.
    Begun,
}

/// Beats.
#[derive(Debug)]
pub struct HeartbeatService {
    parts: HeartbeatParts,
}

impl HeartbeatService {
    /// A service that did not beat yet.
    #[must_use]
    pub fn new(parts: HeartbeatParts) -> Self {
        Self { parts }
    }

    /// Beats until it is told to end, the first time after one interval. A fault is logged, and
    /// the next beat tries again.
    pub async fn run(self, end: CancellationToken) {
        let interval = Duration::from_secs(self.parts.settings.interval_s.max(1));
        if !self.parts.settings.enabled {
            return;
        }
        while end
            .run_until_cancelled(tokio::time::sleep(interval))
            .await
            .is_some()
        {
            match self.beat(chrono::Local::now().fixed_offset(), &end).await {
                Ok(beat) => tracing::debug!(?beat, "a heartbeat"),
                Err(error) => tracing::warn!(error, "a heartbeat came to nothing"),
            }
        }
    }

    /// One beat.
    ///
    /// # Errors
    /// Why nothing could be decided or begun.
    pub async fn beat(&self, now: Timestamp, end: &CancellationToken) -> Result<Beat, String> {
        let Some(tasks) = self.tasks().await? else {
            return Ok(Beat::Idle);
        };
        if self.is_busy().await.map_err(|error| error.to_string())? {
            return Ok(Beat::Busy);
        }
        let Decision::Run(work) = self.parts.decider.decide(&tasks, now, end).await? else {
            return Ok(Beat::Skipped);
        };
        let message = self.message(&work, now).await;
        self.parts
            .bus
            .publish_inbound(message)
            .await
            .map_err(|error| error.to_string())?;
        Ok(Beat::Begun)
    }

    async fn tasks(&self) -> Result<Option<String>, String> {
        let file = &self.parts.file;
        let unreadable = |error: std::io::Error| format!("{}: {error}", file.display());
        match tokio::fs::metadata(file).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
            Ok(metadata) if metadata.len() > LONGEST_FILE => {
                return Err(format!(
                    "{}: longer than {LONGEST_FILE} bytes",
                    file.display()
                ));
            }
            Ok(_) => {}
        }
        let bytes = tokio::fs::read(file).await.map_err(unreadable)?;
        Ok(active_tasks(&String::from_utf8_lossy(&bytes)))
    }

    async fn is_busy(&self) -> Result<bool, BusError> {
        let open = self
            .parts
            .ledger
            .list(Queue::Inbound, LedgerFilter::Open, LOOKED_AT)
            .await?;
        let mut inbound = open.iter().filter_map(|entry| entry.inbound.as_ref());
        Ok(inbound.any(|message| message.origin == Origin::Heartbeat))
    }

    async fn message(&self, work: &str, now: Timestamp) -> InboundMessage {
        let place = self.parts.places.latest().await.unwrap_or_else(|| Place {
            channel: "cli".into(),
            chat_id: "direct".into(),
            delivery: DeliveryContext::default(),
            chat: None,
        });
        let content = format!(
            "[Heartbeat]\nNobody wrote this: it comes from HEARTBEAT.md, which you look after. Work on it now. Answer \
             with what its owner should know, or with HEARTBEAT_OK alone if there is nothing.\n\n{work}"
        );
        InboundMessage {
            id: Some(format!("heartbeat-{}", now.timestamp_millis()).into()),
            timestamp: now,
            session_key_override: Some(SessionKey::from(HEARTBEAT_SESSION)),
            origin: Origin::Heartbeat,
            delivery: place.delivery,
            chat: place.chat,
            ..InboundMessage::text(place.channel, "heartbeat", place.chat_id, content)
        }
    }
}
