//! Runs jobs that are due.
//!
//! Decision: a run starts in three steps, and the process may crash after each of them. First the
//! run is entered into the file, together with the next due time. Then its time is claimed. Then
//! its message, whose id is made of the job and the time, is published. A run without a message is
//! published again, which is safe because the bus deduplicates by id. A run ends with its turn and
//! with all subagents that the turn started.
//!
//! One process fires jobs at a time. A prompt begins only the runs that it can show, and ends its own
//! runs only: those of a gateway are unknown to its ledger. Its messages end with it, so the next
//! process publishes those again whose turns have not ended.
//!
//! There is no polling while idle: the service sleeps until a job is due, the file changes, or a
//! message of a job is settled.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use nanobot_bus::{Bus, BusError, Claims, EventFeed};
use nanobot_types::{
    ChatAddress, Event, FiredJob, InboundMessage, JobId, MessageId, Origin, PLACED_KEY, SessionKey,
    SessionKind, UNTRUSTED_KEY,
};
use nanobot_watch::FileWatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::host::FiringRight;
use crate::job::{Catchup, Job, Jobs, Overlap, RunRecord, RunStatus, RunningJob};
use crate::plan::begin_due;
use crate::store::StoreStamp;
use crate::unseen::message_id;
use crate::zone::Zone;
use crate::{CronError, JobHost, JobStore};

/// Maximum sleep before a due time, so that a changed clock or a suspended computer is noticed.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Interval between checks for the end of runs, in case no event reports it. Also the delay before
/// a failed step is retried.
const RUNNING_POLL: Duration = Duration::from_secs(5);
/// Interval between attempts to become the process that fires jobs, and between checks of a prompt
/// for a gateway.
const HOST_POLL: Duration = Duration::from_secs(2);

/// The parts of the `cron` configuration that apply to running jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct CronSettings {
    /// Catch-up policy for times that passed while no gateway ran.
    pub catchup: Catchup,
    /// Policy for a job that is due while its previous run is in progress.
    pub overlap: Overlap,
    /// Lets jobs create jobs.
    pub jobs_may_add_jobs: bool,
    /// The shortest interval that the assistant may set, in seconds.
    pub min_interval_seconds: u32,
}

impl Default for CronSettings {
    /// At least a minute between runs; jobs may not create jobs.
    fn default() -> Self {
        Self {
            catchup: Catchup::default(),
            overlap: Overlap::default(),
            jobs_may_add_jobs: false,
            min_interval_seconds: 60,
        }
    }
}

/// Source of the current time.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the current time.
    fn now(&self) -> DateTime<Utc>;
}

/// The system clock.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}

/// Reports the outcome of runs.
#[async_trait]
pub trait RunOutcomes: Send + Sync + std::fmt::Debug {
    /// Returns the outcome of the work on a message (by its journal id), including everything that
    /// it started in `session`; `None` while it is in progress. The error is a message for people.
    async fn ended(&self, session: &SessionKey, message: &MessageId) -> Option<Result<(), String>>;
}

/// Dependencies of a [`CronService`].
#[derive(Clone, Debug)]
pub struct CronParts {
    /// The jobs.
    pub store: JobStore,
    /// The bus that receives the messages.
    pub bus: Arc<dyn Bus>,
    /// Claims on due times, so that each runs once.
    pub claims: Arc<dyn Claims>,
    /// The outcomes of the messages.
    pub runs: Arc<dyn RunOutcomes>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The settings.
    pub settings: CronSettings,
    /// The assistant's time zone.
    pub zone: Zone,
    /// The process of the service.
    pub host: JobHost,
}

/// Service that runs jobs when they are due.
#[derive(Debug)]
pub struct CronService {
    parts: CronParts,
    /// Stamp of the file after the last tick.
    seen: Option<StoreStamp>,
    /// Set while nothing is left to do before the next due time.
    idle: Option<Idle>,
    /// The next due time, in milliseconds since 1970, as of the last tick.
    next_due: Option<i64>,
    /// Set while another process waits to fire jobs: no more runs begin.
    is_yielding: bool,
}

#[derive(Debug)]
struct Idle {
    stamp: Option<StoreStamp>,
    since: DateTime<Utc>,
    until: Option<i64>,
}

impl CronService {
    /// Creates a service.
    #[must_use]
    pub fn new(parts: CronParts) -> Self {
        Self {
            parts,
            seen: None,
            idle: None,
            next_due: None,
            is_yielding: false,
        }
    }

    /// Runs jobs until `end` is cancelled, while no other process does. An error is logged, and the
    /// step retried. `watch` reports changes of the file, `events` reports settled messages.
    pub async fn run(mut self, watch: FileWatch, events: EventFeed, end: CancellationToken) {
        let mut changes = watch.follow(self.parts.store.path());
        let mut events = events.subscribe();
        let (mut failing, mut right) = (false, FiringRight::default());
        while !end.is_cancelled() {
            let outcome = self.step(&mut right).await;
            if let Err(error) = &outcome
                && !failing
            {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "cannot process the jobs"
                );
            }
            failing = outcome.is_err();
            let is_changed = async {
                // The watch reports this service's own changes too; they leave the file with the
                // stamp in `seen`.
                while self.parts.store.stamp() == self.seen || !right.is_held() {
                    changes.changed().await;
                }
            };
            let is_due = async {
                match self.pause(right.is_held()) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = end.cancelled() => {}
                () = is_changed => {}
                () = is_due => {}
                () = run_ended(&mut events) => {}
            }
        }
        if self.parts.host.is_prompt() && right.is_held() {
            self.is_yielding = true;
            self.idle = None;
            if let Err(error) = self.tick().await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "cannot record the ends of jobs");
            }
        }
    }

    /// Does everything that is due now if this process has or gets the right to fire jobs. A prompt
    /// gives it up to a gateway after its own runs have ended.
    async fn step(&mut self, right: &mut FiringRight) -> Result<(), CronError> {
        let (store, host) = (&self.parts.store, &self.parts.host);
        if !right.is_held() {
            if !right.acquire(store, host)? {
                return Ok(());
            }
            self.is_yielding = false;
            self.adopt().await?;
        } else if host.is_prompt() {
            self.is_yielding = store.is_gateway_present()?;
        }
        self.tick().await?;
        if self.is_yielding && !self.has_own_runs().await? {
            right.release();
        }
        Ok(())
    }

    /// Takes over the runs of a prompt that ended: those whose turn has not succeeded are published
    /// again.
    async fn adopt(&mut self) -> Result<(), CronError> {
        let store = self.parts.store.clone();
        let now = self.parts.clock.now();
        let jobs = blocking(&store, JobStore::read).await?;
        let mut ended = self.ended(jobs, |running| running.in_memory).await;
        ended.retain(|end| end.outcome.is_ok());
        self.idle = None;
        blocking(&store, move |store| {
            store.edit(|jobs| {
                ended.into_iter().for_each(|end| finish(jobs, end, now));
                jobs.iter_mut()
                    .flat_map(|job| &mut job.state.running)
                    .filter(|running| running.in_memory)
                    .for_each(|running| {
                        running.message = None;
                        running.in_memory = false;
                    });
            })
        })
        .await
    }

    async fn has_own_runs(&self) -> Result<bool, CronError> {
        let jobs = blocking(&self.parts.store, JobStore::read).await?;
        let is_own = |job: &Job| job.state.running.iter().any(|running| running.in_memory);
        Ok(jobs.iter().any(is_own))
    }

    /// Does everything that is due now.
    ///
    /// # Errors
    /// Returns [`CronError`] if the file cannot be used. Runs that were begun continue at the next
    /// call.
    pub async fn tick(&mut self) -> Result<(), CronError> {
        let now = self.parts.clock.now();
        let store = self.parts.store.clone();
        let stamp = store.stamp();
        let is_idle = |idle: &Idle| {
            idle.stamp == stamp
                && now >= idle.since
                && idle
                    .until
                    .is_none_or(|until| now.timestamp_millis() < until)
        };
        if self.idle.as_ref().is_some_and(is_idle) {
            return Ok(());
        }
        (self.seen, self.idle, self.next_due) = (stamp, None, None);
        let jobs = blocking(&store, JobStore::read).await?;
        let is_prompt = self.parts.host.is_prompt();
        let ended = self
            .ended(jobs, |running| running.in_memory == is_prompt)
            .await;
        let (settings, zone) = (self.parts.settings, self.parts.zone);
        let (host, is_yielding) = (self.parts.host.clone(), self.is_yielding);
        let ((started, jobs), stamp) = blocking(&store, move |store| {
            store.edit_and_stamp(|jobs| {
                ended.into_iter().for_each(|end| finish(jobs, end, now));
                if is_yielding {
                    return (Vec::new(), jobs.clone());
                }
                let old = unpublished(jobs, &host);
                begin_due(jobs, &host, now, settings, zone);
                let mut started = unpublished(jobs, &host);
                started.retain(|(_, at)| !old.iter().any(|(_, known)| known == at));
                let started = started.into_iter().map(|(job, at)| (job, at, true));
                (
                    old.into_iter()
                        .map(|(job, at)| (job, at, false))
                        .chain(started)
                        .collect::<Vec<_>>(),
                    jobs.clone(),
                )
            })
        })
        .await?;
        self.seen = stamp;
        // A job that is due but was not begun waits for something other than time.
        let is_ahead = |due: &i64| *due > now.timestamp_millis();
        let dues = jobs
            .iter()
            .filter(|job| job.enabled && self.parts.host.can_fire(job))
            .filter_map(|job| job.state.next_run_at_ms);
        self.next_due = dues.filter(is_ahead).min();
        if started.is_empty() && jobs.iter().all(|job| job.state.running.is_empty()) {
            self.idle = Some(Idle {
                stamp,
                since: now,
                until: self.next_due,
            });
        }
        self.publish(started, now).await
    }

    /// Returns the time until the next step; `None` if only a change of the file or an event can
    /// require one.
    fn pause(&self, is_firing: bool) -> Option<Duration> {
        if !is_firing {
            return Some(HOST_POLL);
        }
        let left = self.next_due.map(|due| {
            let left = due.saturating_sub(self.parts.clock.now().timestamp_millis());
            Duration::from_millis(u64::try_from(left).unwrap_or(0)).min(MAX_PAUSE)
        });
        let is_idle = self.idle.is_some();
        left.into_iter()
            .chain((!is_idle).then_some(RUNNING_POLL))
            .chain(self.parts.host.is_prompt().then_some(HOST_POLL))
            .min()
    }

    /// Returns the runs that have ended, of those that `predicate` selects.
    async fn ended(
        &self,
        jobs: Jobs,
        predicate: impl Fn(&RunningJob) -> bool + Send,
    ) -> Vec<FinishedRun> {
        let mut ended = Vec::new();
        for job in jobs.iter() {
            for running in job
                .state
                .running
                .iter()
                .filter(|running| predicate(running))
            {
                let Some(message) = &running.message else {
                    continue;
                };
                if let Some(outcome) = self
                    .parts
                    .runs
                    .ended(&SessionKey::of_job(&job.id), message)
                    .await
                {
                    ended.push(FinishedRun {
                        job: job.id.clone(),
                        at_ms: running.at_ms,
                        outcome,
                    });
                }
            }
        }
        ended
    }

    async fn publish(
        &self,
        started: Vec<(Job, i64, bool)>,
        now: DateTime<Utc>,
    ) -> Result<(), CronError> {
        for (job, at, is_new) in started {
            let published = self.publish_one(&job, at, is_new, now).await;
            let id = job.id.clone();
            match published {
                Ok(message) => {
                    let in_memory = self.parts.host.is_prompt();
                    blocking(&self.parts.store, move |store| {
                        store.edit(|jobs| record_message(jobs, &id, at, message, in_memory))
                    })
                    .await?;
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::error!(error, job = %id, "cannot start a job that is due");
                }
            }
        }
        Ok(())
    }

    /// Publishes the message of a run; `None` if another process did so.
    async fn publish_one(
        &self,
        job: &Job,
        at: i64,
        is_new: bool,
        now: DateTime<Utc>,
    ) -> Result<Option<MessageId>, BusError> {
        let is_ours = self
            .parts
            .claims
            .claim_once(&format!("cron:{}:{at}", job.id))
            .await?;
        // The claims of another process are not known here, but its runs are.
        let has_run = job
            .state
            .run_history
            .iter()
            .any(|run| run.run_at_ms == at && run.status != RunStatus::Skipped);
        // A run that was begun before a crash may be claimed but not published, so it is published
        // again.
        if is_new && (!is_ours || has_run) {
            return Ok(None);
        }
        let message = message_of(job, at, now, self.parts.zone);
        let name = message.journal_id();
        self.parts.bus.publish_inbound(message).await?;
        tracing::info!(job = %job.id, at, "started a job");
        Ok(name)
    }
}

/// Returns when a run may have ended.
async fn run_ended(events: &mut broadcast::Receiver<Event>) {
    loop {
        match events.recv().await {
            Ok(Event::MessageSettled { session }) if session.kind() == SessionKind::Job => {
                return;
            }
            Ok(_) => {}
            // The event may be among the lost ones.
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

struct FinishedRun {
    job: JobId,
    at_ms: i64,
    outcome: Result<(), String>,
}

/// Runs blocking work on a blocking thread.
async fn blocking<T: Send + 'static>(
    store: &JobStore,
    work: impl FnOnce(&JobStore) -> Result<T, CronError> + Send + 'static,
) -> Result<T, CronError> {
    let store = store.clone();
    let path = store.path().to_owned();
    let done = tokio::task::spawn_blocking(move || work(&store)).await;
    done.map_err(|error| CronError::Io {
        path,
        source: std::io::Error::other(error),
    })?
}

fn unpublished(jobs: &Jobs, host: &JobHost) -> Vec<(Job, i64)> {
    let runs = |job: &Job| {
        let waiting = job
            .state
            .running
            .iter()
            .filter(|running| running.message.is_none());
        waiting
            .map(|running| (job.clone(), running.at_ms))
            .collect::<Vec<_>>()
    };
    jobs.iter()
        .filter(|job| host.can_fire(job))
        .flat_map(runs)
        .collect()
}

/// Records the message of a run. `None` removes the run, which belongs to another process.
fn record_message(
    jobs: &mut Jobs,
    id: &JobId,
    at: i64,
    message: Option<MessageId>,
    in_memory: bool,
) {
    let Some(job) = jobs.find(id.as_str()) else {
        return;
    };
    match message {
        Some(message) => {
            let matching = job
                .state
                .running
                .iter_mut()
                .find(|running| running.at_ms == at);
            if let Some(running) = matching {
                running.message = Some(message);
                running.in_memory = in_memory;
            }
        }
        None => job
            .state
            .running
            .retain(|running| running.at_ms != at || running.message.is_some()),
    }
}

fn finish(jobs: &mut Jobs, end: FinishedRun, now: DateTime<Utc>) {
    let Some(job) = jobs.find(end.job.as_str()) else {
        return;
    };
    let Some(place) = job
        .state
        .running
        .iter()
        .position(|running| running.at_ms == end.at_ms)
    else {
        return;
    };
    let running = job.state.running.remove(place);
    let status = if end.outcome.is_ok() {
        RunStatus::Ok
    } else {
        RunStatus::Error
    };
    let duration_ms = now
        .timestamp_millis()
        .saturating_sub(running.fired_at_ms)
        .max(0);
    job.state.record(RunRecord {
        run_at_ms: end.at_ms,
        status,
        duration_ms,
        error: end.outcome.err(),
    });
    let is_done = !job.enabled && job.delete_after_run && job.state.running.is_empty();
    if is_done {
        jobs.remove(end.job.as_str());
    }
}

fn message_of(job: &Job, at: i64, now: DateTime<Utc>, zone: Zone) -> InboundMessage {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut address = ChatAddress::terminal();
    if let Some(channel) = given(&job.payload.channel) {
        address.channel = channel.into();
    }
    if let Some(chat) = given(&job.payload.to) {
        address.chat_id = chat.into();
    }
    address.delivery = job.payload.delivery.clone().unwrap_or_default();
    let content = format!(
        "[Scheduled task]\nThe time of the task '{}' has come. Do now what it says; do not schedule it again.\n\n{}",
        job.name, job.payload.message
    );
    let mut message = InboundMessage::at(address, "cron", content);
    message.id = Some(message_id(&job.id, at));
    message.timestamp = now.fixed_offset();
    message.session_key_override = Some(SessionKey::of_job(&job.id));
    message.origin = Origin::Cron {
        job: job.id.clone(),
    };
    job.payload.wish().write(&mut message.metadata);
    if let Some(origin) = job.payload.extra.get(UNTRUSTED_KEY) {
        message
            .metadata
            .insert(UNTRUSTED_KEY.to_owned(), origin.clone());
    }
    if job.payload.delivery.is_some() {
        message.metadata.insert(PLACED_KEY.to_owned(), true.into());
    }
    let fired = FiredJob {
        name: match job.name.as_str() {
            "" => job.id.to_string(),
            name => name.to_owned(),
        },
        at: now.with_timezone(&zone).fixed_offset(),
    };
    fired.write(&mut message.metadata);
    message
}
