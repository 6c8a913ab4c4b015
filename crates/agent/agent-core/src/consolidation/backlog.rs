//! Messages that are summarised only with the person's consent, because they are many.
//!
//! Decision: they leave the conversation at once, so that requests hold the newest messages and
//! ordinary summaries go on. They stay in the session, where they can be searched, and wait there.
//! A chunk is noted before the cursor moves past it; after a crash in between, the move is repeated.

use std::fmt;

use nanobot_session::{Seq, SessionError};
use nanobot_types::SessionKey;

use super::state::{Chunk, Consent};
use super::summarise::INSTRUCTIONS;
use super::{Consolidator, STATE};

/// The estimated cost of summarising a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BacklogCost {
    pub(super) messages: u64,
    pub(super) requests: u64,
    pub(super) tokens: u64,
}

impl BacklogCost {
    /// Returns the question for the person.
    pub(super) fn question(&self) -> String {
        let Self {
            messages,
            requests,
            tokens,
        } = *self;
        format!(
            "{messages} older messages of this conversation were never summarised. Summarising them takes about \
             {requests} requests with {tokens} tokens. /summarize does that in the background; without it, requests \
             contain the newer messages only. The older ones stay in the session and can be searched."
        )
    }
}

/// Returns the notice that a chunk with consent is summarised.
pub(super) fn finished(messages: u64) -> String {
    format!("{messages} older messages are summarised now; the summaries are in memory/HISTORY.md.")
}

/// The effect of a decision about messages that wait to be summarised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BacklogReport {
    /// No messages wait.
    Nothing,
    /// So many messages are being summarised in the background.
    Begun(u64),
    /// So many messages wait again.
    Stopped(u64),
}

impl fmt::Display for BacklogReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str(
                "No older messages wait to be summarised. /compact summarises the conversation up to now.",
            ),
            Self::Begun(messages) => write!(
                f,
                "Summarising {messages} older messages in the background, while a gateway or a prompt is open. \
                 /summarize stop ends that; what is summarised by then stays."
            ),
            Self::Stopped(messages) => write!(
                f,
                "Stopped; {messages} older messages wait. /summarize goes on."
            ),
        }
    }
}

impl Consolidator {
    /// Estimates the cost of summarising a chunk of so many tokens.
    pub(super) fn cost(&self, session: &SessionKey, chunk: &Chunk, tokens: usize) -> BacklogCost {
        let requests = tokens.div_ceil(self.part_limit(session, 0).max(1)).max(1);
        let tokens = tokens.saturating_add(requests.saturating_mul(INSTRUCTIONS));
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        BacklogCost {
            messages: chunk.upto.saturating_sub(chunk.from),
            requests: count(requests),
            tokens: count(tokens),
        }
    }

    /// Records the person's decision about the messages that wait to be summarised.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub(crate) async fn decide(
        &self,
        session: &SessionKey,
        agrees: bool,
    ) -> Result<BacklogReport, SessionError> {
        let (from, to) = match agrees {
            true => (Consent::Awaited, Consent::Given),
            false => (Consent::Given, Consent::Awaited),
        };
        self.change(session, STATE, |view, pending| {
            let mut messages: u64 = 0;
            for chunk in &mut pending.chunks {
                // Messages that are still in the conversation are not waiting yet.
                if chunk.consent == from && Seq(chunk.upto) <= view.cursor {
                    chunk.consent = to;
                    let begin = chunk.done.seq.max(chunk.from);
                    messages = messages.saturating_add(chunk.upto.saturating_sub(begin));
                }
            }
            let report = match (messages, agrees) {
                (0, _) => BacklogReport::Nothing,
                (messages, true) => BacklogReport::Begun(messages),
                (messages, false) => BacklogReport::Stopped(messages),
            };
            (Vec::new(), report)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_states_the_cost() {
        let cost = BacklogCost {
            messages: 99_000,
            requests: 97,
            tokens: 2_800_000,
        };
        let question = cost.question();
        for part in [
            "99000 older messages",
            "97 requests with 2800000 tokens",
            "/summarize",
        ] {
            assert!(question.contains(part), "{question}");
        }
    }
}
