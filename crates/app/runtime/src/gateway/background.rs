//! Background work of a gateway: jobs, heartbeat, retention, and notices of outages and approvals.

use std::sync::Arc;

use nanobot_agent_core::{Agent, HeartbeatFilter};
use nanobot_bus::{Bus, Ledger};
use nanobot_channels::Health;
use nanobot_cron::JobHost;
use nanobot_provider::ProviderRouter;
use nanobot_session::SessionStore;
use nanobot_state::SqliteBus;
use nanobot_watch::FileWatch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::approval_notice::ApprovalNotices;
use super::heartbeat::{Heartbeat, SessionTargets};
use super::lifecycle_notices::OutageNotices;
use super::retention::Retention;
use crate::assembly::access::HomeAccess;
use crate::assembly::channels::LIFECYCLE_NOTICES;
use crate::assembly::cron::{JobRuns, JobScheduling};
use crate::assembly::settings::LifecycleNotices;
use crate::{Runtime, RuntimeError, session_store};

/// The configured background work.
#[derive(Debug)]
pub(crate) struct Background {
    retention: Retention,
    scheduling: JobScheduling,
    heartbeat: Heartbeat,
    lifecycle: LifecycleNotices,
    sessions: Arc<dyn SessionStore>,
    access: HomeAccess,
}

/// Parts of the gateway that the background work uses.
pub(crate) struct BackgroundParts<'a> {
    pub(crate) bus: &'a SqliteBus,
    pub(crate) agent: &'a Arc<Agent>,
    pub(crate) health: &'a Health,
    pub(crate) watch: &'a FileWatch,
    /// Fires when no new work may begin.
    pub(crate) cancel: &'a CancellationToken,
    /// Fires when all work has to end.
    pub(crate) end: &'a CancellationToken,
}

impl Background {
    /// Returns the work that `config` asks for; nothing is started.
    pub(crate) fn of(
        runtime: &Runtime,
        bus: &SqliteBus,
        router: Arc<ProviderRouter>,
    ) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        Ok(Self {
            retention: Retention::new(config, bus.clone())?,
            scheduling: JobScheduling::of(config)?,
            heartbeat: Heartbeat::of(config, router)?,
            lifecycle: config.section(&format!("channels.{LIFECYCLE_NOTICES}"))?,
            sessions: session_store(config)?,
            access: HomeAccess::of(runtime),
        })
    }

    /// Returns the judge that decides which heartbeat replies are sent.
    pub(crate) fn reply_filter(&self) -> Arc<dyn HeartbeatFilter> {
        self.heartbeat.reply_filter()
    }

    /// Starts all of it.
    pub(crate) fn start(self, tasks: &TaskTracker, parts: &BackgroundParts<'_>) {
        let BackgroundParts {
            bus,
            agent,
            health,
            watch,
            cancel,
            end,
        } = *parts;
        let ledger: Arc<dyn Ledger> = Arc::new(bus.clone());
        let shared: Arc<dyn Bus> = Arc::new(bus.clone());
        tasks.spawn(self.retention.run(end.clone()));
        let notices = OutageNotices {
            settings: self.lifecycle,
            health: health.clone(),
            bus: shared.clone(),
        };
        tasks.spawn(notices.run(cancel.clone()));
        tasks.spawn(
            ApprovalNotices::new(self.access, shared.clone()).run(watch.clone(), cancel.clone()),
        );
        let targets = SessionTargets {
            sessions: self.sessions.clone(),
            channels: health.clone(),
        };
        let heartbeat = self
            .heartbeat
            .service(shared.clone(), ledger.clone(), Arc::new(targets));
        tasks.spawn(heartbeat.run(cancel.clone()));
        let runs = JobRuns {
            agent: agent.clone(),
            sessions: self.sessions,
            ledger,
        };
        if let Some(service) = self.scheduling.service(
            shared,
            Arc::new(bus.clone()),
            Arc::new(runs),
            JobHost::Gateway,
        ) {
            tasks.spawn(service.run(watch.clone(), agent.events().clone(), cancel.clone()));
        }
    }
}
