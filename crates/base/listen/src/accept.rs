//! A TCP listener with a limited number of connections.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};

use crate::{Seat, SeatLimits, Seats};

/// Minimum interval between two log messages about refused connections.
const QUIET: Duration = Duration::from_mins(1);

/// A listener with limits.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    seats: Seats,
    warned: Mutex<Option<Instant>>,
}

impl Listener {
    /// Wraps a bound listener.
    #[must_use]
    pub fn new(listener: TcpListener, limits: SeatLimits) -> Self {
        Self {
            listener,
            seats: Seats::new(limits),
            warned: Mutex::default(),
        }
    }

    /// Accepts the next connection that gets a seat, and closes those that get none. Cancel-safe.
    ///
    /// # Errors
    /// Returns the system's error, for example if the process has too many open files. The caller
    /// has to pause before it tries again.
    pub async fn accept(&self) -> io::Result<(TcpStream, Seat)> {
        loop {
            let (stream, address) = self.listener.accept().await?;
            match self.seats.take(address.ip()) {
                Some(seat) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "cannot set TCP_NODELAY");
                    }
                    return Ok((stream, seat));
                }
                None => self.warn(address),
            }
        }
    }

    /// Logs a refusal, throttled so that strangers cannot fill the log.
    fn warn(&self, address: SocketAddr) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|last| last.elapsed() >= QUIET) {
            *warned = Some(Instant::now());
            let listener = self.listener.local_addr().ok();
            tracing::warn!(?listener, %address, "too many connections: a new one was closed");
        }
    }
}
