//! What `/status` says about a session.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use nanobot_session::{Entry, ReadFrom};
use nanobot_types::{SessionKey, Usage};

use super::Agent;

/// Sessions whose tokens are remembered; beyond that, only the sum is.
const REMEMBERED: usize = 1024;

/// Tokens since the program started.
#[derive(Debug, Default)]
pub(super) struct Totals {
    by_session: Mutex<HashMap<SessionKey, Usage>>,
}

impl Totals {
    pub(super) fn add(&self, session: &SessionKey, usage: Usage) {
        let mut by_session = self.by_session.lock().unwrap_or_else(PoisonError::into_inner);
        if by_session.len() < REMEMBERED || by_session.contains_key(session) {
            *by_session.entry(session.clone()).or_default() += usage;
        }
    }

    fn of(&self, session: &SessionKey) -> Usage {
        self.by_session.lock().unwrap_or_else(PoisonError::into_inner).get(session).copied().unwrap_or_default()
    }
}

impl Agent {
    /// Model, tokens and messages of a session, as lines for a person.
    pub async fn describe(&self, session: &SessionKey) -> String {
        let usage = self.totals.of(session);
        let cached = (usage.cached_tokens * 100).checked_div(usage.prompt_tokens).unwrap_or(0);
        let messages = match self.sessions.read(session, ReadFrom::Cursor).await {
            Ok(view) => {
                let sent =
                    view.standing().into_iter().filter(|record| matches!(record.entry, Entry::Message(_))).count();
                format!("{} messages, {sent} in context", view.head)
            }
            Err(error) => format!("unreadable ({error})"),
        };
        format!(
            "Model: {}\nTokens since start: {} in ({cached} % cached), {} out\nSession {session}: {messages}",
            self.settings.model, usage.prompt_tokens, usage.completion_tokens
        )
    }
}
