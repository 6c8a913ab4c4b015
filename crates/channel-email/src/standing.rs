//! Signs of life that keep showing what is wrong.

use std::sync::{Arc, Mutex, PoisonError};

use nanobot_channel::Progress;

/// The supervisor's [`Progress`], and what keeps the channel from working fully.
pub(crate) struct Standing {
    supervisor: Arc<dyn Progress>,
    trouble: Arc<Trouble>,
}

/// Reasons why the channel is degraded, kept over connections.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<String>>);

impl Trouble {
    /// Sets what is wrong. `true` if nothing was before.
    pub(crate) fn begin(&self, why: &str) -> bool {
        let mut trouble = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = trouble.is_none();
        trouble.get_or_insert_with(|| why.to_owned());
        is_first
    }

    /// Nothing is wrong any more.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn now(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Standing {
    pub(crate) fn new(supervisor: Arc<dyn Progress>, trouble: Arc<Trouble>) -> Self {
        Self { supervisor, trouble }
    }
}

impl Progress for Standing {
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
