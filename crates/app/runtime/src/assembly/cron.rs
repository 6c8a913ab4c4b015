//! Scheduled jobs as configured, and the outcomes of their runs.
//!
//! Decision: every command edits the file of jobs itself, under its lock. The gateway notices
//! through file events, so commands do not have to ask it. A gateway fires jobs; without one, an open
//! prompt fires those that write to the terminal.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{Agent, AudienceLookup};
use nanobot_bus::{Bus, Claims, Ledger, LedgerEntry, LedgerFilter, Queue};
use nanobot_config::Config;
use nanobot_control::UnseenReplies;
use nanobot_cron::{
    CronParts, CronService, CronSettings, CronTool, JobHost, JobStore, RunOutcomes, SessionOwners,
    SystemClock, UnseenResult, Zone, host_zone, job_of_turn, zone_named,
};
use nanobot_session::{Entry, ReadFrom, SessionStore, TurnEnd, TurnOutcome};
use nanobot_tool::{Tool, Typed};
use nanobot_types::{FiredJob, MessageId, OutboundMessage, SessionKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::assembly::settings::AgentDefaults;

/// Maximum number of ledger entries that are searched.
const MAX_ENTRIES: usize = 10_000;

/// `cron`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronConfig {
    /// Runs jobs in the gateway, and lets the assistant create them.
    pub(crate) enabled: bool,
    /// The assistant's time zone, as an IANA name; the host's by default.
    pub(crate) timezone: Option<String>,
    /// Limits of jobs.
    #[serde(flatten)]
    pub(crate) settings: CronSettings,
}

impl Default for CronConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            timezone: None,
            settings: CronSettings::default(),
        }
    }
}

/// The jobs of a configuration.
#[derive(Clone, Debug)]
pub struct JobScheduling {
    /// The file of jobs.
    pub store: JobStore,
    /// The assistant's time zone.
    pub zone: Zone,
    enabled: bool,
    settings: CronSettings,
}

impl JobScheduling {
    /// Returns the jobs of `config`; nothing is read yet.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Config`] if `cron` cannot be used, [`RuntimeError::Zone`] if there
    /// is no such time zone.
    pub fn of(config: &Config) -> Result<Self, RuntimeError> {
        let CronConfig {
            enabled,
            timezone,
            settings,
        } = config.section("cron")?;
        let AgentDefaults {
            timezone: agent_timezone,
            ..
        } = config.section("agents.defaults")?;
        let named = timezone
            .map(|name| ("cron.timezone", name))
            .or_else(|| agent_timezone.map(|name| ("agents.defaults.timezone", name)));
        let zone = match named {
            Some((key, name)) => {
                zone_named(&name).map_err(|source| RuntimeError::Zone { key, source })?
            }
            None => host_zone(),
        };
        Ok(Self {
            store: JobStore::new(config.paths().cron_store.clone()),
            zone,
            enabled,
            settings,
        })
    }

    /// Returns the `cron` tool; `None` if jobs are disabled.
    pub(crate) fn tool(&self, audiences: AudienceLookup, host: JobHost) -> Option<Arc<dyn Tool>> {
        let tool = CronTool::new(
            self.store.clone(),
            Arc::new(SystemClock),
            self.settings,
            self.zone,
        )
        .with_owners(Arc::new(AudienceOwners(audiences)))
        .with_host(host);
        self.enabled
            .then(|| Arc::new(Typed::new(tool)) as Arc<dyn Tool>)
    }

    /// Returns the service that fires jobs; `None` if jobs are disabled.
    pub(crate) fn service(
        self,
        bus: Arc<dyn Bus>,
        claims: Arc<dyn Claims>,
        runs: Arc<dyn RunOutcomes>,
        host: JobHost,
    ) -> Option<CronService> {
        let Self {
            store,
            zone,
            enabled,
            settings,
        } = self;
        let parts = CronParts {
            store,
            bus,
            claims,
            runs,
            clock: Arc::new(SystemClock),
            settings,
            zone,
            host,
        };
        enabled.then(|| CronService::new(parts))
    }
}

/// Keeps the results of jobs that no terminal showed for the next prompt.
#[derive(Debug)]
pub(crate) struct UnseenJobResults(pub(crate) JobStore);

#[async_trait]
impl UnseenReplies for UnseenJobResults {
    async fn keep(&self, message: &OutboundMessage) -> bool {
        if job_of_turn(&message.key.turn).is_none() || !message.kind.is_durable() {
            return false;
        }
        let store = self.0.clone();
        let result = UnseenResult {
            at: chrono::Utc::now(),
            text: message.content.clone(),
            job: FiredJob::of(&message.metadata),
        };
        match tokio::task::spawn_blocking(move || store.keep_unseen(&result)).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(error, "cannot keep the result of a job for the next prompt");
                false
            }
            Err(error) => {
                tracing::error!(%error, "cannot keep the result of a job for the next prompt");
                false
            }
        }
    }
}

/// Identifies the owner of a job by the audience of its session.
#[derive(Debug)]
struct AudienceOwners(AudienceLookup);

#[async_trait]
impl SessionOwners for AudienceOwners {
    async fn owner(&self, session: &SessionKey) -> Option<String> {
        self.0.owner(session).await
    }
}

/// Reads from the ledger and the session log how a run ended.
#[derive(Debug)]
pub(crate) struct JobRuns {
    pub(crate) agent: Arc<Agent>,
    pub(crate) sessions: Arc<dyn SessionStore>,
    pub(crate) ledger: Arc<dyn Ledger>,
}

impl JobRuns {
    /// Finds the entry of a message among those that match; `None` if the ledger cannot be read.
    async fn entry(
        &self,
        filter: LedgerFilter,
        message: &MessageId,
    ) -> Option<Option<LedgerEntry>> {
        let entries = self
            .ledger
            .list(Queue::Inbound, filter, MAX_ENTRIES)
            .await
            .ok()?;
        let matches = |entry: &LedgerEntry| {
            entry
                .inbound
                .as_ref()
                .and_then(|inbound| inbound.journal_id())
                .as_ref()
                == Some(message)
        };
        Some(entries.into_iter().find(matches))
    }
}

#[async_trait]
impl RunOutcomes for JobRuns {
    async fn ended(&self, session: &SessionKey, message: &MessageId) -> Option<Result<(), String>> {
        // Check the ledger before the session log: the end of a turn is recorded before its message
        // is settled.
        let is_open = self.entry(LedgerFilter::Open, message).await?.is_some();
        let has_helpers = self
            .agent
            .subagents()
            .is_some_and(|subagents| !subagents.of_session(session).is_empty());
        if is_open || has_helpers {
            return None;
        }
        let view = self.sessions.read(session, ReadFrom::Cursor).await.ok()?;
        let ends = view
            .records
            .iter()
            .rev()
            .filter_map(|record| match &record.entry {
                Entry::TurnEnded(end) => Some(end),
                _ => None,
            });
        if let Some(end) = ends.into_iter().find(|end| end.inbound.contains(message)) {
            return Some(outcome(end));
        }
        if view.answered.contains(message) {
            return Some(Ok(()));
        }
        let failed = self
            .entry(LedgerFilter::Failed, message)
            .await?
            .and_then(|entry| entry.why);
        Some(Err(failed.unwrap_or_else(|| "it was given up".to_owned())))
    }
}

fn outcome(end: &TurnEnd) -> Result<(), String> {
    match end.outcome {
        TurnOutcome::Replied | TurnOutcome::Suppressed => Ok(()),
        TurnOutcome::Stopped => Err("stopped".to_owned()),
        TurnOutcome::Failed | TurnOutcome::Limited => Err(end
            .visible
            .clone()
            .unwrap_or_else(|| "the turn failed".to_owned())),
    }
}
