//! Jobs at a prompt: firing without a gateway, and results that no terminal showed.
//!
//! Decision: results of jobs have a heading of their own, whichever chat of the terminal they are
//! for, so that none is taken for the answer to a question and none is lost in a chat that is not
//! open. The steps of their turns are not shown, because they are no part of the conversation.

use std::sync::Arc;

use nanobot_agent_core::{Agent, AgentError};
use nanobot_bus::{Bus, Claims, Ledger, LedgerFilter, MemoryBus, Queue};
use nanobot_config::Config;
use nanobot_control::{TerminalEvent, UnseenReplies as _};
use nanobot_cron::{JobHost, JobStore, host_zone, job_of_turn, run_of_turn};
use nanobot_types::{FiredJob, OutboundKey, OutboundMessage};
use nanobot_watch::FileWatch;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::assembly::cron::{JobRuns, JobScheduling, UnseenJobResults};
use crate::{RuntimeError, session_store};

/// Capacity of the queue of notices.
const MAX_NOTICES: usize = 16;
/// Maximum number of unshown results that are kept at the end.
const MAX_RESULTS: usize = 100;

/// The jobs of an open prompt.
#[derive(Debug)]
pub(super) struct PromptJobs {
    store: JobStore,
    notices: mpsc::Receiver<String>,
    tasks: TaskTracker,
    end: CancellationToken,
}

/// Returns the host of jobs for a terminal, and the receiver of its notices if it is a prompt.
pub(super) fn host(is_prompt: bool) -> (JobHost, Option<mpsc::Receiver<String>>) {
    if !is_prompt {
        return (JobHost::Other, None);
    }
    let (notices, receiver) = mpsc::channel(MAX_NOTICES);
    (JobHost::Prompt { notices }, Some(receiver))
}

/// `true` if a message belongs to the turn of a job.
pub(super) fn is_of_job(message: &OutboundMessage) -> bool {
    job_of_turn(&message.key.turn).is_some()
}

/// Returns an event as a prompt shows it: the result of a job with its run, and `None` for a step of
/// a job's turn.
pub(super) fn labelled(event: TerminalEvent, key: Option<&OutboundKey>) -> Option<TerminalEvent> {
    let Some((job, at)) = key.and_then(|key| run_of_turn(&key.turn)) else {
        return Some(event);
    };
    match event {
        TerminalEvent::Reply {
            text,
            streamed: _,
            ok,
            job: run,
        } => Some(TerminalEvent::Reply {
            text,
            streamed: false,
            ok,
            // An older gateway does not name the job.
            job: run.or_else(|| {
                Some(FiredJob {
                    name: job.to_string(),
                    at: at.with_timezone(&host_zone()).fixed_offset(),
                })
            }),
        }),
        TerminalEvent::TurnEnd { .. } => Some(event),
        _ => None,
    }
}

/// Returns the next notice about jobs; never returns if there are none. Cancel-safe.
pub(super) async fn next_notice(jobs: &mut Option<PromptJobs>) -> String {
    let notice = match jobs {
        Some(jobs) => jobs.notices.recv().await,
        None => None,
    };
    match notice {
        Some(notice) => notice,
        None => std::future::pending().await,
    }
}

/// Removes and returns the results that no terminal showed. A failure is logged.
///
/// # Errors
/// Returns the errors of [`JobScheduling::of`].
pub(super) async fn unseen(config: &Config) -> Result<Vec<TerminalEvent>, RuntimeError> {
    let JobScheduling { store, zone, .. } = JobScheduling::of(config)?;
    let taken = tokio::task::spawn_blocking(move || store.take_unseen()).await;
    let results = match taken {
        Ok(Ok(results)) => results,
        Ok(Err(error)) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "cannot read the results of jobs that were not shown");
            Vec::new()
        }
        Err(error) => {
            tracing::warn!(%error, "cannot read the results of jobs that were not shown");
            Vec::new()
        }
    };
    let show = |result: nanobot_cron::UnseenResult| {
        let at = result.at.with_timezone(&zone).fixed_offset();
        let name = String::new();
        TerminalEvent::Reply {
            text: result.text,
            streamed: false,
            ok: true,
            job: Some(result.job.unwrap_or(FiredJob { name, at })),
        }
    };
    Ok(results.into_iter().map(show).collect())
}

impl PromptJobs {
    /// Starts to fire jobs on `bus`.
    ///
    /// # Errors
    /// Returns the errors of [`JobScheduling::of`] and [`session_store`].
    pub(super) fn start(
        config: &Config,
        agent: Arc<Agent>,
        bus: &Arc<MemoryBus>,
        host: JobHost,
        notices: mpsc::Receiver<String>,
    ) -> Result<Self, RuntimeError> {
        let scheduling = JobScheduling::of(config)?;
        let store = scheduling.store.clone();
        let ledger: Arc<dyn Ledger> = bus.clone();
        let (tasks, end) = (TaskTracker::new(), CancellationToken::new());
        let events = agent.events().clone();
        let runs = Arc::new(JobRuns {
            agent,
            sessions: session_store(config)?,
            ledger,
        });
        let (queue, claims): (Arc<dyn Bus>, Arc<dyn Claims>) = (bus.clone(), bus.clone());
        if let Some(service) = scheduling.service(queue, claims, runs, host) {
            tasks.spawn(service.run(FileWatch::new(), events, end.clone()));
        }
        Ok(Self {
            store,
            notices,
            tasks,
            end,
        })
    }

    /// Stops firing after the assistant ended, and keeps the results that were not shown.
    pub(super) async fn end(self, bus: &MemoryBus) {
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let unshown = bus
            .list(Queue::Outbound, LedgerFilter::Open, MAX_RESULTS)
            .await
            .map_err(AgentError::from);
        match unshown {
            Ok(mut entries) => {
                // The newest is first.
                entries.reverse();
                let results = UnseenJobResults(self.store);
                for message in entries.into_iter().filter_map(|entry| entry.outbound) {
                    results.keep(&message).await;
                }
            }
            Err(error) => tracing::warn!(%error, "cannot list the replies that were not shown"),
        }
    }
}
