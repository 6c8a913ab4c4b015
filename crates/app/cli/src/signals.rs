//! Signals of the system that ask the process to end.

use std::io;

/// Exit code after Ctrl-C.
#[cfg(not(unix))]
const INTERRUPTED: u8 = 130;

/// Listens for SIGINT, SIGTERM and SIGHUP (on systems without signals, for Ctrl-C only).
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Starts to listen. From now on the signals do not end the process by themselves.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal and returns its exit code. Cancel-safe.
    pub(crate) async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
            _ = self.hangup.recv() => 129,
        }
    }
}

/// Listens for Ctrl-C.
#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    /// Never fails on this system.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next Ctrl-C and returns its exit code. Cancel-safe.
    pub(crate) async fn next(&mut self) -> u8 {
        if tokio::signal::ctrl_c().await.is_err() {
            return std::future::pending().await;
        }
        INTERRUPTED
    }
}
