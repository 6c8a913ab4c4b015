//! The heartbeat service.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nanobot_bus::{Bus, BusError, Ledger, LedgerFilter, Queue};
use nanobot_types::{ChatAddress, InboundMessage, Origin, SessionKey, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{Decider, Decision, active_tasks};

/// Maximum size of the file, in bytes. A larger one is not a list of tasks, and is not read.
pub const MAX_FILE_BYTES: u64 = 256 << 10;
/// Maximum number of open messages that are searched for an earlier heartbeat.
const MAX_OPEN: usize = 10_000;

/// The configuration section `gateway.heartbeat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatSettings {
    /// Runs the heartbeat in the gateway.
    pub enabled: bool,
    /// Interval between heartbeats, in seconds.
    pub interval_s: u64,
    /// Number of messages of earlier heartbeats that the next one still sees.
    pub keep_recent_messages: usize,
}

impl Default for HeartbeatSettings {
    /// A heartbeat each half hour, with eight messages.
    fn default() -> Self {
        Self {
            enabled: true,
            interval_s: 1800,
            keep_recent_messages: 8,
        }
    }
}

/// Finds the chats in which people talk to the assistant.
#[async_trait]
pub trait HeartbeatTargets: Send + Sync + std::fmt::Debug {
    /// Returns the chat with the most recent message, of all chats that can be written to now;
    /// `None` if there is none.
    async fn latest(&self) -> Option<ChatAddress>;
}

/// Dependencies of a [`HeartbeatService`].
#[derive(Clone, Debug)]
pub struct HeartbeatParts {
    /// Path of `HEARTBEAT.md`.
    pub file: PathBuf,
    /// Decides which tasks are due.
    pub decider: Decider,
    /// The bus that receives the tasks.
    pub bus: Arc<dyn Bus>,
    /// The ledger, which shows whether the work of an earlier heartbeat is done.
    pub ledger: Arc<dyn Ledger>,
    /// The chats to send replies to.
    pub places: Arc<dyn HeartbeatTargets>,
    /// The settings.
    pub settings: HeartbeatSettings,
}

/// The outcome of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeartbeatOutcome {
    /// The file has no tasks; no model was asked.
    Idle,
    /// The work of an earlier heartbeat is in progress; no model was asked.
    Busy,
    /// No task is due.
    Skipped,
    /// Work was begun.
    Begun,
}

/// Service that runs the heartbeat.
#[derive(Debug)]
pub struct HeartbeatService {
    parts: HeartbeatParts,
}

impl HeartbeatService {
    /// Creates a service.
    #[must_use]
    pub fn new(parts: HeartbeatParts) -> Self {
        Self { parts }
    }

    /// Runs heartbeats until `end` is cancelled, the first after one interval. An error is logged,
    /// and the next heartbeat tries again.
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
                Ok(beat) => tracing::debug!(?beat, "heartbeat finished"),
                Err(error) => tracing::warn!(error, "heartbeat failed"),
            }
        }
    }

    /// Runs one heartbeat.
    ///
    /// # Errors
    /// Returns a message if nothing could be decided or begun.
    pub async fn beat(
        &self,
        now: Timestamp,
        end: &CancellationToken,
    ) -> Result<HeartbeatOutcome, String> {
        let Some(tasks) = self.tasks().await? else {
            return Ok(HeartbeatOutcome::Idle);
        };
        if self.is_busy().await.map_err(|error| error.to_string())? {
            return Ok(HeartbeatOutcome::Busy);
        }
        let Decision::Run(work) = self.parts.decider.decide(&tasks, now, end).await? else {
            return Ok(HeartbeatOutcome::Skipped);
        };
        let message = self.message(&work, now).await;
        self.parts
            .bus
            .publish_inbound(message)
            .await
            .map_err(|error| error.to_string())?;
        Ok(HeartbeatOutcome::Begun)
    }

    async fn tasks(&self) -> Result<Option<String>, String> {
        let file = &self.parts.file;
        let unreadable = |error: std::io::Error| format!("{}: {error}", file.display());
        match tokio::fs::metadata(file).await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
            Ok(metadata) if metadata.len() > MAX_FILE_BYTES => {
                return Err(format!(
                    "{}: longer than {MAX_FILE_BYTES} bytes",
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
            .list(Queue::Inbound, LedgerFilter::Open, MAX_OPEN)
            .await?;
        let mut inbound = open.iter().filter_map(|entry| entry.inbound.as_ref());
        Ok(inbound.any(|message| message.origin == Origin::Heartbeat))
    }

    async fn message(&self, work: &str, now: Timestamp) -> InboundMessage {
        let address = self.parts.places.latest().await;
        let address = address.unwrap_or_else(ChatAddress::terminal);
        let content = format!(
            "[Heartbeat]\nNobody wrote this: it comes from HEARTBEAT.md, which you look after. Work on it now. Answer \
             with what its owner should know, or with HEARTBEAT_OK alone if there is nothing.\n\n{work}"
        );
        InboundMessage {
            id: Some(format!("heartbeat-{}", now.timestamp_millis()).into()),
            timestamp: now,
            session_key_override: Some(SessionKey::of_heartbeat()),
            origin: Origin::Heartbeat,
            ..InboundMessage::at(address, "heartbeat", content)
        }
    }
}
