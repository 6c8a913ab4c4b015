//! Supervises one channel: restarts, liveness checks and health reporting.
//!
//! Decision: a channel counts as alive when it reports so ([`Liveness::alive`]), not while its
//! socket is open. However a run ends (an error, a panic, a stall, an early return), the whole
//! channel is restarted after a backoff. A channel that hung or panicked is rebuilt, and everything
//! it held open is dropped. A failure that only a person can repair is retried once an hour and
//! logged once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    Access, Channel as _, ChannelContext, ChannelError, ChannelName, CommandInfo, Intake, Liveness,
    MediaStore, Notes, Transcriber,
};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::claim::{Claim, Claimed};
use crate::health::{Health, HealthState};
use crate::replaceable::Replaceable;
use crate::settings::CLOCK_LIMIT;
use crate::{ChannelSettings, backoff};

/// Initial backoff before a restart.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum backoff before a restart.
const MAX_BACKOFF: Duration = Duration::from_mins(1);
/// Initial backoff after a conflict, where another program receives in place of this channel.
const INITIAL_CONFLICT_BACKOFF: Duration = Duration::from_secs(30);
const MAX_CONFLICT_BACKOFF: Duration = Duration::from_mins(10);
/// Time a channel must run without a new conflict before it counts as running.
const CONFLICT_QUIET_TIME: Duration = Duration::from_mins(1);
/// Interval between retries of a failure that a person has to repair.
const PERMANENT_RETRY_INTERVAL: Duration = Duration::from_hours(1);
/// Interval between checks whether another program on this computer has stopped receiving.
const CLAIM_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Time alive after which a run counts as healthy and the backoff starts over.
const STABLE_AFTER: Duration = Duration::from_mins(1);
/// Time a channel has to return after its run was cancelled.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Everything a channel runs with, and the means to watch it.
pub(crate) struct Supervisor {
    pub(crate) channel: Arc<Replaceable>,
    pub(crate) settings: watch::Receiver<ChannelSettings>,
    /// Path of the lock file that the channel must hold to receive.
    pub(crate) claim: Option<PathBuf>,
    pub(crate) access: Arc<dyn Access>,
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) media: Arc<dyn MediaStore>,
    pub(crate) notes: Arc<dyn Notes>,
    pub(crate) transcriber: Option<Arc<dyn Transcriber>>,
    pub(crate) commands: Arc<[CommandInfo]>,
    pub(crate) suspects: Arc<Semaphore>,
    pub(crate) health: Health,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// Reason a run ended.
#[derive(Debug)]
enum RunEnd {
    /// The run was cancelled.
    Cancelled,
    /// The channel has to be restarted, not before `after` if the platform named a delay.
    Down { why: String, after: Duration },
    /// The channel hung or panicked and has to be rebuilt.
    Broken { why: String },
    /// Another program receives in its place.
    Conflict { why: String },
    /// A restart cannot help until a person repairs something.
    Permanent { why: String },
}

/// Result of one run.
#[derive(Debug)]
struct RunResult {
    end: RunEnd,
    /// Time from the start to the last sign of life.
    alive_for: Duration,
}

/// State kept from run to run.
#[derive(Debug, Default)]
struct RunHistory {
    tries: u32,
    conflicts: u32,
    /// Reason logged last; cleared when the channel was healthy again.
    last_reason: Option<String>,
    /// Time until which the last conflict may not be over.
    quiet_until: Option<Instant>,
}

impl RunHistory {
    /// Resets the counters after a run that was healthy for a while. A conflict keeps its own: two
    /// programs that take turns at one account also run well for a while each.
    fn reset_after_healthy_run(&mut self, end: &RunEnd) {
        self.tries = 0;
        if !matches!(end, RunEnd::Conflict { .. }) {
            self.conflicts = 0;
            self.last_reason = None;
        }
    }

    /// Returns `true` if `why` differs from the reason logged last, and remembers it.
    fn is_new_reason(&mut self, why: &str) -> bool {
        let is_new_reason = self.last_reason.as_deref() != Some(why);
        self.last_reason = Some(why.to_owned());
        is_new_reason
    }
}

impl Supervisor {
    /// Runs the channel until it is cancelled.
    pub(crate) async fn run(self) {
        let name = self.channel.name().clone();
        self.health.set(&name, HealthState::Starting);
        let Some(_claim) = self.cancel.run_until_cancelled(self.claim(&name)).await else {
            return;
        };
        let mut record = RunHistory::default();
        loop {
            let run = self.run_once(&name, record.quiet_until).await;
            if run.alive_for >= STABLE_AFTER {
                record.reset_after_healthy_run(&run.end);
            }
            let Some(pause) = self.handle_run_end(&name, run.end, &mut record) else {
                return;
            };
            if self
                .cancel
                .run_until_cancelled(tokio::time::sleep(pause))
                .await
                .is_none()
            {
                return;
            }
        }
    }

    /// Waits until no other program on this computer receives for the same account. Returns `None`
    /// if there is nothing to claim, or the claim fails.
    async fn claim(&self, name: &ChannelName) -> Option<Claim> {
        let path = self.claim.as_deref()?;
        let owner = format!("process {}", std::process::id());
        let mut is_logged = false;
        loop {
            match Claim::take(path, &owner) {
                Ok(Claimed::Ours(claim)) => return Some(claim),
                Ok(Claimed::Taken(other)) => {
                    let why = format!(
                        "another gateway on this computer receives with these credentials ({other})"
                    );
                    if !is_logged {
                        tracing::warn!(channel = %name, why, "stop one of the two, or give each an account of its own");
                    }
                    is_logged = true;
                    self.health.degraded(name, &why);
                }
                Err(error) => {
                    tracing::debug!(channel = %name, %error, "cannot tell if another gateway receives");
                    return None;
                }
            }
            tokio::time::sleep(CLAIM_POLL_INTERVAL).await;
        }
    }

    /// Logs how a run ended and returns the backoff before the next one; `None` after the last.
    fn handle_run_end(
        &self,
        name: &ChannelName,
        end: RunEnd,
        record: &mut RunHistory,
    ) -> Option<Duration> {
        let (why, after) = match end {
            RunEnd::Cancelled => return None,
            RunEnd::Permanent { why } => {
                if record.is_new_reason(&why) {
                    tracing::error!(channel = %name, why, "the channel cannot run until this is fixed; retrying once an hour");
                }
                self.health.set(name, HealthState::Failed { why });
                return Some(backoff::exponential(
                    PERMANENT_RETRY_INTERVAL,
                    PERMANENT_RETRY_INTERVAL,
                    0,
                ));
            }
            RunEnd::Conflict { why } => {
                if record.is_new_reason(&why) {
                    tracing::warn!(channel = %name, why, "another program receives in place of this channel");
                }
                self.health.degraded(name, &why);
                let pause = backoff::exponential(
                    INITIAL_CONFLICT_BACKOFF,
                    MAX_CONFLICT_BACKOFF,
                    record.conflicts,
                );
                record.conflicts = record.conflicts.saturating_add(1);
                record.quiet_until = Some(Instant::now() + pause + CONFLICT_QUIET_TIME);
                return Some(pause);
            }
            RunEnd::Broken { why } => {
                self.channel.replace();
                (why, Duration::ZERO)
            }
            RunEnd::Down { why, after } => (why, after),
        };
        if record.is_new_reason(&why) {
            tracing::warn!(channel = %name, why, "the channel is down; restarting it");
        } else {
            tracing::debug!(channel = %name, why, tries = record.tries, "the channel is still down");
        }
        self.health.degraded(name, &why);
        let pause = backoff::exponential(INITIAL_BACKOFF, MAX_BACKOFF, record.tries);
        record.tries = record.tries.saturating_add(1);
        Some(pause.max(after))
    }

    async fn run_once(&self, name: &ChannelName, quiet_until: Option<Instant>) -> RunResult {
        let cancel = self.cancel.child_token();
        // However this ends, even if it is aborted, the channel is cancelled.
        let _stop = cancel.clone().drop_guard();
        let began = Instant::now();
        let (alive, mut last) = watch::channel(began);
        let alive = Arc::new(alive);
        let progress = RunLiveness {
            name: name.clone(),
            health: self.health.clone(),
            alive: Arc::clone(&alive),
            over: cancel.clone(),
            quiet_until,
        };
        let context = ChannelContext {
            access: Arc::clone(&self.access),
            intake: Arc::clone(&self.intake),
            progress: Arc::new(progress),
            media: Arc::clone(&self.media),
            notes: Arc::clone(&self.notes),
            transcriber: self.transcriber.clone(),
            commands: Arc::clone(&self.commands),
            suspects: Arc::clone(&self.suspects),
            tasks: self.tasks.clone(),
            cancel: cancel.clone(),
        };
        let channel = self.channel.current();
        let mut task = self.tasks.spawn(async move { channel.run(context).await });
        let end = loop {
            let within = self.settings.borrow().delivery.alive_within();
            let deadline = *last.borrow_and_update() + within;
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    if !stop_or_abort(&mut task).await {
                        tracing::warn!(channel = %name, "the channel did not stop in time; aborted it");
                    }
                    break RunEnd::Cancelled;
                }
                ended = &mut task => break self.classify(ended),
                // `alive` is held above, so this never fails.
                _ = last.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    cancel.cancel();
                    stop_or_abort(&mut task).await;
                    break RunEnd::Broken { why: format!("it gave no sign of life for {} s", within.as_secs()) };
                }
            }
        };
        let alive_for = last.borrow().saturating_duration_since(began);
        RunResult { end, alive_for }
    }

    fn classify(&self, ended: Result<Result<(), ChannelError>, JoinError>) -> RunEnd {
        let down = |why: String| RunEnd::Down {
            why,
            after: Duration::ZERO,
        };
        match ended {
            _ if self.cancel.is_cancelled() => RunEnd::Cancelled,
            Ok(Ok(())) => down("it ended by itself".to_owned()),
            Ok(Err(error)) if error.is_permanent() => RunEnd::Permanent {
                why: error.to_string(),
            },
            Ok(Err(error @ ChannelError::Conflict(_))) => RunEnd::Conflict {
                why: error.to_string(),
            },
            Ok(Err(error @ ChannelError::RateLimited { retry_after })) => RunEnd::Down {
                why: error.to_string(),
                after: retry_after.min(CLOCK_LIMIT),
            },
            Ok(Err(error)) => down(error.to_string()),
            Err(error) if error.is_panic() => RunEnd::Broken {
                why: "it panicked".to_owned(),
            },
            Err(_) => RunEnd::Broken {
                why: "it was ended from outside".to_owned(),
            },
        }
    }
}

/// Waits for a cancelled task and aborts it on timeout. Returns `true` if it stopped in time.
async fn stop_or_abort(task: &mut JoinHandle<Result<(), ChannelError>>) -> bool {
    let in_time = tokio::time::timeout(STOP_TIMEOUT, &mut *task).await.is_ok();
    if !in_time {
        task.abort();
    }
    in_time
}

/// Receives the signs of life of one run.
struct RunLiveness {
    name: ChannelName,
    health: Health,
    alive: Arc<watch::Sender<Instant>>,
    /// Fires when the run is over: late signs from it say nothing about the next run.
    over: CancellationToken,
    /// Time until which another program may still be receiving in this one's place.
    quiet_until: Option<Instant>,
}

impl Liveness for RunLiveness {
    fn alive(&self) {
        if self.over.is_cancelled() {
            return;
        }
        let now = Instant::now();
        self.alive.send_replace(now);
        if self.quiet_until.is_some_and(|until| now < until) {
            return;
        }
        if let Some(HealthState::Degraded { since, .. }) = self.health.running(&self.name)
            && chrono::Local::now()
                .signed_duration_since(since)
                .to_std()
                .is_ok_and(|outage| outage >= STABLE_AFTER)
        {
            tracing::info!(channel = %self.name, "the channel receives again");
        }
    }

    fn degraded(&self, why: &str) {
        if !self.over.is_cancelled() {
            self.health.degraded(&self.name, why);
        }
    }

    fn impaired(&self, why: &str) {
        if !self.over.is_cancelled() {
            self.alive.send_replace(Instant::now());
            self.health.degraded(&self.name, why);
        }
    }
}
