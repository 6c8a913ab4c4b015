//! Signs of life that keep reporting a problem.

use std::sync::Arc;

use nanobot_channel::Liveness;
use tokio::sync::watch;

/// The reason why a channel is impaired, kept over connections.
#[derive(Debug, Default)]
pub struct Trouble(watch::Sender<Option<String>>);

impl Trouble {
    /// Sets the reason, unless there is one. `true` if there was none.
    pub fn set_if_none(&self, why: &str) -> bool {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| why.to_owned());
            is_first
        })
    }

    /// Replaces the reason; `None` if the channel works again.
    pub fn set(&self, why: Option<String>) {
        self.0.send_if_modified(|known| {
            let is_new = *known != why;
            *known = why;
            is_new
        });
    }

    /// Waits until there is a reason.
    pub async fn wait_until_set(&self) {
        // This is the sender, so it cannot be closed.
        drop(self.0.subscribe().wait_for(Option::is_some).await);
    }

    /// Wraps `supervisor`, so that signs of life report the reason while there is one.
    #[must_use]
    pub fn wrap(self: &Arc<Self>, supervisor: &Arc<dyn Liveness>) -> Arc<dyn Liveness> {
        Arc::new(ImpairedLiveness {
            supervisor: Arc::clone(supervisor),
            trouble: Arc::clone(self),
        })
    }

    fn current(&self) -> Option<String> {
        self.0.borrow().clone()
    }
}

/// The supervisor's [`Liveness`], with the reason added to signs of life.
struct ImpairedLiveness {
    supervisor: Arc<dyn Liveness>,
    trouble: Arc<Trouble>,
}

impl Liveness for ImpairedLiveness {
    fn alive(&self) {
        match self.trouble.current() {
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
