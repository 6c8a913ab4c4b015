//! The periodic check of `HEARTBEAT.md`, as configured.

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_agent_core::{HeartbeatFilter, address_of};
use nanobot_bus::{Bus, Ledger};
use nanobot_channels::{Health, HealthState};
use nanobot_config::Config;
use nanobot_heartbeat::{
    Decider, Evaluator, HeartbeatParts, HeartbeatService, HeartbeatSettings, HeartbeatTargets,
};
use nanobot_provider::ProviderRouter;
use nanobot_session::{SessionInfo, SessionStore};
use nanobot_types::ChatAddress;
use tokio_util::sync::CancellationToken;

use crate::RuntimeError;

/// Parts of a gateway's heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Heartbeat {
    settings: HeartbeatSettings,
    workspace: std::path::PathBuf,
    router: Arc<ProviderRouter>,
}

impl Heartbeat {
    /// Returns the heartbeat of `config`, which uses the models of `router`.
    pub(crate) fn of(config: &Config, router: Arc<ProviderRouter>) -> Result<Self, RuntimeError> {
        Ok(Self {
            settings: config.section("gateway.heartbeat")?,
            workspace: config.workspace()?,
            router,
        })
    }

    /// Returns the service that runs the heartbeat.
    pub(crate) fn service(
        &self,
        bus: Arc<dyn Bus>,
        ledger: Arc<dyn Ledger>,
        places: Arc<dyn HeartbeatTargets>,
    ) -> HeartbeatService {
        HeartbeatService::new(HeartbeatParts {
            file: self.workspace.join("HEARTBEAT.md"),
            decider: Decider::new(self.router.clone()),
            bus,
            ledger,
            places,
            settings: self.settings,
        })
    }

    /// Returns the judge that decides which heartbeat replies are sent.
    pub(crate) fn reply_filter(&self) -> Arc<dyn HeartbeatFilter> {
        Arc::new(ReplyFilter(Evaluator::new(
            self.router.clone(),
            &self.workspace,
        )))
    }
}

#[derive(Debug)]
struct ReplyFilter(Evaluator);

#[async_trait]
impl HeartbeatFilter for ReplyFilter {
    async fn filter(&self, task: &str, answer: &str) -> Option<String> {
        // The caller stops waiting by itself when the program shuts down.
        self.0.filter(task, answer, &CancellationToken::new()).await
    }
}

/// Finds the chats in which people talk to the assistant, from its sessions.
#[derive(Debug)]
pub(crate) struct SessionTargets {
    pub(crate) sessions: Arc<dyn SessionStore>,
    /// State of the channels: a failed one cannot be written to.
    pub(crate) channels: Health,
}

#[async_trait]
impl HeartbeatTargets for SessionTargets {
    async fn latest(&self) -> Option<ChatAddress> {
        let mut sessions = self.sessions.list().await.ok()?;
        sessions.sort_by_key(|session| std::cmp::Reverse(session.updated_at));
        sessions
            .iter()
            .find_map(|session| self.usable_address(session))
    }
}

impl SessionTargets {
    fn usable_address(&self, session: &SessionInfo) -> Option<ChatAddress> {
        let address = address_of(&session.key, &session.metadata)?;
        let is_usable = match self.channels.snapshot().get(&address.channel) {
            None | Some(HealthState::Failed { .. }) => false,
            Some(HealthState::Starting | HealthState::Running | HealthState::Degraded { .. }) => {
                true
            }
        };
        is_usable.then_some(address)
    }
}
