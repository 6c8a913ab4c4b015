//! Seats of connected clients.
//!
//! Decision: where all are taken, the oldest client that neither asks nor converses is hung up on. A
//! program of this user that holds connections could otherwise keep every command away from its gateway.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Most clients at a time. Each may hold a line of a request.
const CLIENTS: usize = 32;

/// A place for one client, free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    /// Fires when the client is to go.
    pub(crate) end: CancellationToken,
    /// Nothing is lost if the client goes now.
    pub(crate) is_idle: Arc<AtomicBool>,
    _permit: OwnedSemaphorePermit,
}

/// All seats.
#[derive(Debug)]
pub(crate) struct Seats {
    free: Arc<Semaphore>,
    /// The clients, the oldest first.
    taken: Mutex<VecDeque<(CancellationToken, Arc<AtomicBool>)>>,
    end: CancellationToken,
}

impl Seats {
    /// Free seats whose clients all go when `end` fires.
    pub(crate) fn new(end: CancellationToken) -> Self {
        Self {
            free: Arc::new(Semaphore::new(CLIENTS)),
            taken: Mutex::default(),
            end,
        }
    }

    /// Takes a seat, where needed from a client that is idle. `None` if no client is.
    pub(crate) async fn take(&self) -> Option<Seat> {
        let permit = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_taken) => {
                self.evict()?;
                self.end
                    .run_until_cancelled(Arc::clone(&self.free).acquire_owned())
                    .await?
                    .ok()?
            }
        };
        let (end, is_idle) = (self.end.child_token(), Arc::new(AtomicBool::new(true)));
        let mut taken = self.taken();
        // The state of a client that went is known here alone.
        taken.retain(|(_, is_idle)| Arc::strong_count(is_idle) > 1);
        taken.push_back((end.clone(), Arc::clone(&is_idle)));
        drop(taken);
        Some(Seat {
            end,
            is_idle,
            _permit: permit,
        })
    }

    /// Has the oldest idle client go.
    fn evict(&self) -> Option<()> {
        let mut taken = self.taken();
        taken.retain(|(_, is_idle)| Arc::strong_count(is_idle) > 1);
        let oldest = taken
            .iter()
            .position(|(_, is_idle)| is_idle.load(Ordering::Relaxed));
        match oldest {
            Some(oldest) => {
                let (end, _) = taken.remove(oldest)?;
                end.cancel();
                Some(())
            }
            // One of them went between the two looks.
            None => (taken.len() < CLIENTS).then_some(()),
        }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, VecDeque<(CancellationToken, Arc<AtomicBool>)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
