//! Limits the number of connected clients.
//!
//! Decision: if all seats are taken, the oldest client that has neither a pending request nor a
//! conversation is disconnected. Otherwise a program of the same user could lock all commands out
//! of the gateway by holding connections.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Maximum number of clients. Each may buffer one request line.
const MAX_CLIENTS: usize = 32;

/// A seat of one client, freed when dropped.
#[derive(Debug)]
pub(crate) struct ControlSeat {
    /// Cancelled when the client has to disconnect.
    pub(crate) end: CancellationToken,
    /// `true` while the client can be disconnected without losing anything.
    pub(crate) is_idle: Arc<AtomicBool>,
    _permit: OwnedSemaphorePermit,
}

/// All seats.
#[derive(Debug)]
pub(crate) struct Seats {
    free: Arc<Semaphore>,
    /// The clients, oldest first.
    taken: Mutex<VecDeque<(CancellationToken, Arc<AtomicBool>)>>,
    end: CancellationToken,
}

impl Seats {
    /// Creates free seats. All clients are disconnected when `end` is cancelled.
    pub(crate) fn new(end: CancellationToken) -> Self {
        Self {
            free: Arc::new(Semaphore::new(MAX_CLIENTS)),
            taken: Mutex::default(),
            end,
        }
    }

    /// Takes a seat, evicting an idle client if necessary. Returns `None` if no client is idle.
    pub(crate) async fn take(&self) -> Option<ControlSeat> {
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
        // A client has gone if this is the only reference to its state.
        taken.retain(|(_, is_idle)| Arc::strong_count(is_idle) > 1);
        taken.push_back((end.clone(), Arc::clone(&is_idle)));
        drop(taken);
        Some(ControlSeat {
            end,
            is_idle,
            _permit: permit,
        })
    }

    /// Evicts the oldest idle client.
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
            // A client has gone since the first check.
            None => (taken.len() < MAX_CLIENTS).then_some(()),
        }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, VecDeque<(CancellationToken, Arc<AtomicBool>)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
