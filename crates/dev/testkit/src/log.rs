//! Captures everything that a test program logs, so that it can be searched for leaks.
//!
//! There is one subscriber for the whole program, because `tracing` caches per call site whether
//! any subscriber is interested: a subscriber of a single thread would miss call sites that another
//! thread reached first. TRACE events of libraries are left out: they may print their traffic
//! there, and that level has to be enabled by name.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use crate::sync::lock;

/// Log output since the first call of [`Log::capture`].
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Starts capturing. Every call returns the same log.
    ///
    /// # Errors
    /// Returns an error if the test program has set a global subscriber of its own; it should use
    /// this one instead.
    pub fn capture() -> anyhow::Result<Self> {
        static CAPTURED: OnceLock<Option<Log>> = OnceLock::new();
        let captured = CAPTURED.get_or_init(|| {
            let log = Self::default();
            let shown = Targets::new()
                .with_default(LevelFilter::DEBUG)
                .with_target("nanobot", LevelFilter::TRACE);
            let layer = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(log.clone());
            let subscriber = tracing_subscriber::registry().with(layer.with_filter(shown));
            tracing::subscriber::set_global_default(subscriber)
                .is_ok()
                .then_some(log)
        });
        captured.clone().ok_or_else(|| {
            anyhow::anyhow!("this program has a subscriber of its own: let it use nanobot_testkit::log::Log::capture()")
        })
    }

    /// Returns the whole log.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.0)).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self::Writer {
        self.clone()
    }
}
