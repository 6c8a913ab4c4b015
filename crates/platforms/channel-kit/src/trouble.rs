//! Signs of life that keep showing what is wrong.

use std::sync::Arc;

use nanobot_channel::Liveness;
use tokio::sync::watch;

/// Why a channel does not work fully, kept over connections.
#[derive(Debug, Default)]
pub struct Trouble(watch::Sender<Option<String>>);

impl Trouble {
    /// Sets what is wrong, unless something was before. `true` if nothing was.
    pub fn begin(&self, why: &str) -> bool {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            is_first
        })
    }

    /// Replaces what is wrong; `None` when nothing is any more.
    pub fn set(&self, why: Option<String>) {
        self.0.send_if_modified(|known| {
            let is_new = *known != why;
            *known = why;
            is_new
        });
    }

    /// Returns when something is wrong, at once if something is.
    pub async fn begun(&self) {
        // It is its own sender, so it cannot be closed.
        drop(self.0.subscribe().wait_for(Option::is_some).await);
    }

    /// Makes signs of life that say it to `supervisor` for as long as it lasts.
    #[must_use]
    pub fn shown_to(self: &Arc<Self>, supervisor: &Arc<dyn Liveness>) -> Arc<dyn Liveness> {
        Arc::new(Standing {
            supervisor: Arc::clone(supervisor),
            trouble: Arc::clone(self),
        })
    }

    fn now(&self) -> Option<String> {
        self.0.borrow().clone()
    }
}

/// The supervisor's [`Liveness`], whose signs of life say what is wrong.
struct Standing {
    supervisor: Arc<dyn Liveness>,
    trouble: Arc<Trouble>,
}

impl Liveness for Standing {
    fn alive(&self) {
        match self.trouble.now() {
            Some(why) => self.supervisor.impaired(&why),
            None => self.supervisor.alive(),
        }
    }

    fn degraded(&self, why: &str) {
        self.supervisor.degraded(why);
    }

    fn impaired(&self, why: &str) {
        self.supervisor.impaired(why);
    }
}
