//! Signals of the system that ask the process to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code after Ctrl-C.
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
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => 143,
            _ = self.hangup.recv() => 129,
        }
    }
}

/// Discards interrupts while another program has the keyboard: Ctrl-C reaches all processes of the
/// terminal then.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterruptFilter(Arc<AtomicBool>);

impl InterruptFilter {
    /// Discards interrupts from now on.
    pub(crate) fn ignore(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Heeds interrupts again.
    pub(crate) fn heed(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Waits for the next signal that is not discarded, and returns its exit code. Cancel-safe.
    pub(crate) async fn next(&self, signals: &mut Signals) -> u8 {
        loop {
            let code = signals.next().await;
            if code != INTERRUPTED || !self.0.load(Ordering::Relaxed) {
                return code;
            }
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
