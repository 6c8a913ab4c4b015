//! A small pool of helper processes, started on demand and ended when idle.

use std::{
    env, fmt,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{sleep, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    HAS_ENTRY, MAX_DOCUMENT, PROGRAM,
    process::{Helper, HelperFailure},
};
use crate::{Extract, ExtractError, ExtractRequest, ExtractResponse, exchange::answer_of};

/// Maximum number of helpers at once.
const HELPERS: usize = 2;
/// Idle time after which a helper ends.
const WARM: Duration = Duration::from_secs(5);
/// Timeout for a response in wall-clock time, for a machine too busy to use up the CPU time.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads documents in helper processes.
///
/// No process exists before the first use, after a few idle seconds, or after this is dropped.
pub struct HelperProcess {
    /// Path of the helper; `None` for the one that [`HelperProcess::new`] describes.
    program: Option<PathBuf>,
    seats: Semaphore,
    idle: Idle,
    tasks: TaskTracker,
    stopped: CancellationToken,
    _stop: DropGuard,
}

impl fmt::Debug for HelperProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperProcess")
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Default for HelperProcess {
    fn default() -> Self {
        Self::new()
    }
}

impl HelperProcess {
    /// Creates a pool that uses this program as the helper if its `main` calls
    /// [`enter`](crate::enter) first, and else the program [`PROGRAM`]. That is looked for whenever
    /// a process is started, in the folder of this program and then in `PATH`; without it, requests
    /// fail with [`ExtractError::NotInstalled`]. No process is started yet.
    #[must_use]
    pub fn new() -> Self {
        Self::of(None)
    }

    /// Creates a pool that uses another program, whose `main` calls [`enter`](crate::enter) first.
    #[must_use]
    pub fn at(program: PathBuf) -> Self {
        Self::of(Some(program))
    }

    fn of(program: Option<PathBuf>) -> Self {
        let stopped = CancellationToken::new();
        Self {
            program,
            seats: Semaphore::new(HELPERS),
            idle: Idle::default(),
            tasks: TaskTracker::new(),
            _stop: stopped.clone().drop_guard(),
            stopped,
        }
    }

    fn program(&self) -> Result<PathBuf, ExtractError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        if !HAS_ENTRY.load(Ordering::Relaxed) {
            return nanobot_programs::find_installed(PROGRAM).ok_or(ExtractError::NotInstalled);
        }
        // The file at the program's path may have been updated since this process started.
        if cfg!(target_os = "linux") {
            Ok("/proc/self/exe".into())
        } else {
            env::current_exe().map_err(ExtractError::Start)
        }
    }

    fn start(&self) -> Result<Helper, ExtractError> {
        Helper::start(&self.program()?).map_err(ExtractError::Start)
    }

    /// Waits for a free slot. Never returns `None`, because the semaphore is not closed.
    async fn seat(&self) -> Option<SemaphorePermit<'_>> {
        self.seats.acquire().await.ok()
    }

    /// Returns a helper to the pool, and ends it if it stays idle.
    fn return_to_pool(&self, helper: Helper) {
        let number = self.idle.add(helper);
        let (idle, stopped) = (self.idle.clone(), self.stopped.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = sleep(WARM) => {}
                () = stopped.cancelled() => {}
            }
            if let Some(helper) = idle.take(number) {
                helper.end().await;
            }
        });
    }
}

#[async_trait]
impl Extract for HelperProcess {
    fn check(&self) -> Result<(), ExtractError> {
        self.program().map(|_path| ())
    }

    fn prepare(&self) {
        if self.seats.available_permits() == 0 || self.idle.is_any() {
            return;
        }
        match self.start() {
            Ok(helper) => self.return_to_pool(helper),
            Err(error) => tracing::debug!(%error, "cannot start a reader in advance"),
        }
    }

    async fn extract(&self, request: ExtractRequest) -> Result<ExtractResponse, ExtractError> {
        let size = request.size();
        if size > MAX_DOCUMENT {
            return Err(ExtractError::TooLarge {
                bytes: size,
                limit: MAX_DOCUMENT,
            });
        }
        let parts = request.into_parts()?;
        let _seat = self.seat().await;
        let mut warm = self.idle.newest();
        loop {
            let is_warm = warm.is_some();
            let mut helper = match warm.take() {
                Some(helper) => helper,
                None => self.start()?,
            };
            match timeout(PATIENCE, helper.exchange(&parts, size)).await {
                Ok(Ok(answer)) => {
                    self.return_to_pool(helper);
                    return answer_of(answer);
                }
                // Whatever ended an idle helper did not depend on this document.
                Ok(Err(HelperFailure::Retired | HelperFailure::For(ExtractError::Ended(_))))
                    if is_warm => {}
                Ok(Err(HelperFailure::Retired)) => {
                    return Err(ExtractError::Ended("it sent no response".to_owned()));
                }
                Ok(Err(HelperFailure::For(error))) => return Err(error),
                Err(_elapsed) => {
                    helper.end().await;
                    return Err(ExtractError::TimedOut);
                }
            }
        }
    }
}

/// The idle helpers, each with a unique number.
#[derive(Clone, Debug, Default)]
struct Idle(Arc<Mutex<WaitingJob>>);

#[derive(Debug, Default)]
struct WaitingJob {
    count: u64,
    helpers: Vec<(u64, Helper)>,
}

impl Idle {
    fn with<T>(&self, act: impl FnOnce(&mut WaitingJob) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, helper: Helper) -> u64 {
        self.with(|waiting| {
            waiting.count += 1;
            waiting.helpers.push((waiting.count, helper));
            waiting.count
        })
    }

    fn take(&self, number: u64) -> Option<Helper> {
        self.with(|waiting| {
            let place = waiting
                .helpers
                .iter()
                .position(|(known, _)| *known == number)?;
            Some(waiting.helpers.swap_remove(place).1)
        })
    }

    /// Returns `true` if a live helper is idle.
    fn is_any(&self) -> bool {
        self.with(|waiting| {
            waiting
                .helpers
                .iter_mut()
                .any(|(_, helper)| helper.is_alive())
        })
    }

    /// Removes and returns the live helper that has been idle for the shortest time.
    fn newest(&self) -> Option<Helper> {
        self.with(|waiting| {
            waiting.helpers.retain_mut(|(_, helper)| helper.is_alive());
            let newest = waiting.helpers.iter().map(|(number, _)| *number).max()?;
            let place = waiting
                .helpers
                .iter()
                .position(|(known, _)| *known == newest)?;
            Some(waiting.helpers.swap_remove(place).1)
        })
    }
}
