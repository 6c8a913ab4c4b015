//! Keeps one channel running: restarts, liveness, health.
//!
//! Decision: a channel is alive when it says so ([`Progress::alive`]), not when its socket is open.
//! Whatever ends it (an error, a panic, a stall, its own return) starts it anew as a whole after a
//! pause; only an error that somebody has to repair in the configuration ends the trying.

use std::sync::Arc;
use std::time::Duration;

use nanobot_channel::{
    Access, Channel, ChannelContext, ChannelError, ChannelName, CommandInfo, Intake, MediaStore, Progress, Transcriber,
};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::health::{Health, HealthState};
use crate::{ChannelSettings, pause};

/// The first pause before a restart.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause before a restart.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A channel that ran for so long was well: its next pause is the first again.
const STABLE: Duration = Duration::from_mins(1);
/// How long a channel has to return after it was told to.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// What a channel runs with, and how it is watched.
pub(crate) struct Supervisor {
    pub(crate) channel: Arc<dyn Channel>,
    pub(crate) settings: watch::Receiver<ChannelSettings>,
    pub(crate) access: Arc<dyn Access>,
    pub(crate) intake: Arc<dyn Intake>,
    pub(crate) media: Arc<dyn MediaStore>,
    pub(crate) transcriber: Option<Arc<dyn Transcriber>>,
    pub(crate) commands: Arc<[CommandInfo]>,
    pub(crate) health: Health,
    pub(crate) cancel: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

/// How a run ended.
enum End {
    /// It was told to.
    Cancelled,
    /// It has to be started again.
    Down(String),
    /// Starting it again cannot help.
    Permanent(String),
}

impl Supervisor {
    /// Runs the channel until it is cancelled or cannot run.
    pub(crate) async fn run(self) {
        let name = self.channel.name().clone();
        self.health.set(&name, HealthState::Starting);
        let mut tries = 0;
        loop {
            let began = Instant::now();
            match self.run_once(&name).await {
                End::Cancelled => return,
                End::Permanent(why) => {
                    tracing::error!(channel = %name, why, "the channel cannot run until its configuration is changed");
                    self.health.set(&name, HealthState::Failed { why });
                    return;
                }
                End::Down(why) => {
                    tracing::warn!(channel = %name, why, "the channel is down and will be started again");
                    self.health.degraded(&name, &why);
                }
            }
            if began.elapsed() >= STABLE {
                tries = 0;
            }
            let rest = tokio::time::sleep(pause::growing(FIRST_PAUSE, LONGEST_PAUSE, tries));
            if self.cancel.run_until_cancelled(rest).await.is_none() {
                return;
            }
            tries = tries.saturating_add(1);
        }
    }

    async fn run_once(&self, name: &ChannelName) -> End {
        let cancel = self.cancel.child_token();
        // However this ends, also when it is itself aborted, the channel is told to stop.
        let _stop = cancel.clone().drop_guard();
        let (alive, mut last) = watch::channel(Instant::now());
        let alive = Arc::new(alive);
        let progress = Vital { name: name.clone(), health: self.health.clone(), alive: Arc::clone(&alive) };
        let context = ChannelContext {
            access: Arc::clone(&self.access),
            intake: Arc::clone(&self.intake),
            progress: Arc::new(progress),
            media: Arc::clone(&self.media),
            transcriber: self.transcriber.clone(),
            commands: Arc::clone(&self.commands),
            tasks: self.tasks.clone(),
            cancel: cancel.clone(),
        };
        let channel = Arc::clone(&self.channel);
        let mut task = self.tasks.spawn(async move { channel.run(context).await });
        loop {
            let within = self.settings.borrow().delivery.alive_within();
            let deadline = *last.borrow_and_update() + within;
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    if !stopped(&mut task).await {
                        tracing::warn!(channel = %name, "the channel did not stop in time and was ended");
                    }
                    return End::Cancelled;
                }
                ended = &mut task => return self.judge(ended),
                // `alive` is held above, so this fails never.
                _ = last.changed() => {}
                () = tokio::time::sleep_until(deadline) => {
                    cancel.cancel();
                    stopped(&mut task).await;
                    return End::Down(format!("it gave no sign of life for {} s", within.as_secs()));
                }
            }
        }
    }

    fn judge(&self, ended: Result<Result<(), ChannelError>, JoinError>) -> End {
        match ended {
            _ if self.cancel.is_cancelled() => End::Cancelled,
            Ok(Ok(())) => End::Down("it ended by itself".to_owned()),
            Ok(Err(error)) if error.is_permanent() => End::Permanent(error.to_string()),
            Ok(Err(error)) => End::Down(error.to_string()),
            Err(error) if error.is_panic() => End::Down("it panicked".to_owned()),
            Err(_) => End::Down("it was ended from outside".to_owned()),
        }
    }
}

/// Waits for a task that was told to stop, and ends it when it does not. `true` when it stopped.
async fn stopped(task: &mut JoinHandle<Result<(), ChannelError>>) -> bool {
    let in_time = tokio::time::timeout(STOP_WITHIN, &mut *task).await.is_ok();
    if !in_time {
        task.abort();
    }
    in_time
}

/// The signs of life of one run.
struct Vital {
    name: ChannelName,
    health: Health,
    alive: Arc<watch::Sender<Instant>>,
}

impl Progress for Vital {
    fn alive(&self) {
        self.alive.send_replace(Instant::now());
        self.health.set(&self.name, HealthState::Running);
    }

    fn degraded(&self, why: &str) {
        self.health.degraded(&self.name, why);
    }
}
