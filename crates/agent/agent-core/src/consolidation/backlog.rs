//! Messages that are summarised only with the person's consent, because they are many.
//!
//! Decision: they leave the conversation at once, so that requests hold the newest messages and
//! ordinary summaries go on. They stay in the session, where they can be searched, and wait there.
//! A chunk is noted before the cursor moves past it; after a crash in between, the move is repeated.

use std::collections::HashMap;
use std::fmt;
use std::iter::Sum;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use nanobot_context::estimate_tokens;
use nanobot_session::{Entry, Seq, SessionError, SessionView};
use nanobot_types::{SessionKey, TraceId};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::notifier::{Notifier, QuestionOutcome};
use super::pieces::pieces;
use super::run::BATCH;
use super::state::{self, Chunk, Consent, Pending};
use super::summarise::INSTRUCTIONS;
use super::{Consolidator, STATE, SummaryExtent};

/// Number of times that a question is offered in a row if it may not have been seen.
const OFFERS: u32 = 2;
/// Pause after these before it is offered again.
const OFFER_PAUSE: Duration = Duration::from_hours(1);
/// Maximum number of sessions whose offered questions are remembered.
const MAX_OFFERED: usize = 1024;

/// The estimated cost of summarising a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BacklogCost {
    pub(super) messages: u64,
    pub(super) requests: u64,
    pub(super) tokens: u64,
}

impl BacklogCost {
    /// Returns the cost of `part` of `whole` messages.
    pub(super) fn of_part(self, part: u64, whole: u64) -> Self {
        let share = |cost: u64| cost.saturating_mul(part).div_ceil(whole.max(1));
        Self {
            messages: part,
            requests: share(self.requests),
            tokens: share(self.tokens),
        }
    }
}

impl Sum for BacklogCost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |sum, cost| Self {
            messages: sum.messages.saturating_add(cost.messages),
            requests: sum.requests.saturating_add(cost.requests),
            tokens: sum.tokens.saturating_add(cost.tokens),
        })
    }
}

/// Returns the question for the person. `trouble` is the reason why earlier summaries ended.
pub(super) fn question(cost: BacklogCost, trouble: Option<&str>) -> String {
    let BacklogCost {
        messages,
        requests,
        tokens,
    } = cost;
    let begin = trouble.map_or_else(String::new, |why| {
        format!(
            "Summarising older messages has stopped, because the model failed repeatedly ({why}). "
        )
    });
    format!(
        "{begin}{messages} older messages of this conversation were never summarised. Summarising them takes about \
         {requests} requests with {tokens} tokens. /summarize does that in the background; without it, requests \
         contain the newer messages only. The older ones stay in the session and can be searched. /summarize stop \
         ends this reminder."
    )
}

/// The times at which questions were offered to people who may not have seen them.
pub(super) type OfferedQuestions = HashMap<SessionKey, (u32, Instant)>;

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
    /// Returns the tokens of the facts that each request of a session contains.
    pub(super) async fn facts_tokens(&self, session: &SessionKey) -> usize {
        let scope = self.scope(session).await;
        let facts = self.context.memory().facts(&scope).await;
        facts.map_or(0, |facts| estimate_tokens(&facts.text))
    }

    /// Estimates the cost of summarising a chunk, with so many tokens of facts in each request. The
    /// messages that `view` has are divided into requests as a run does it; the others count as
    /// their average.
    pub(super) fn cost(
        &self,
        session: &SessionKey,
        view: &SessionView,
        chunk: &Chunk,
        facts: usize,
    ) -> BacklogCost {
        let limit = self.part_limit(session, facts).max(1);
        let upto = if view.is_partial() {
            view.head
        } else {
            Seq(chunk.upto)
        };
        let is_read = |seq: Seq| Seq(chunk.from) <= seq && seq < upto;
        let records = view.effective_records().into_iter();
        let read = records
            .filter(|record| matches!(record.entry, Entry::Message(_)) && is_read(record.seq))
            .count();
        let sample = packed(view, &Chunk::new(Seq(chunk.from), upto), limit);
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let messages = chunk.upto.saturating_sub(chunk.from);
        let scaled = |of_sample: usize| {
            number(of_sample)
                .saturating_mul(messages)
                .div_ceil(number(read).max(1))
        };
        let requests = scaled(sample.thousandths).div_ceil(1_000).max(1);
        let overhead = requests.saturating_mul(number(INSTRUCTIONS.saturating_add(facts)));
        BacklogCost {
            messages,
            requests,
            tokens: scaled(sample.tokens).saturating_add(overhead),
        }
    }

    /// Makes a chunk wait for consent if it takes too many requests. Returns `true` if it does.
    pub(super) fn needs_consent(
        &self,
        session: &SessionKey,
        view: &SessionView,
        chunk: &mut Chunk,
        facts: usize,
    ) -> bool {
        let cost = self.cost(session, view, chunk, facts);
        let needs_consent = cost.requests > u64::from(self.settings.max_unasked_requests);
        if needs_consent {
            chunk.cost = Some(cost);
            chunk.await_consent(None);
        }
        needs_consent
    }

    /// Returns the entry that a reset of a session needs, to be appended together with the reset;
    /// `true` if it leaves something to summarise; and the question about messages that wait. To be
    /// called with the state of the session locked.
    pub(crate) async fn reset_entry(
        &self,
        session: &SessionKey,
        view: &SessionView,
    ) -> (Entry, bool, Option<String>) {
        let facts = self.facts_tokens(session).await;
        let mut pending = Pending::of(view);
        pending.abandon(view.cursor, view.head, |chunk| {
            self.needs_consent(session, view, chunk, facts);
        });
        let is_due = pending.next().is_some();
        let question = pending.question(session).map(|question| question.text);
        (state::reset_entry(&pending), is_due, question)
    }

    /// Asks the person about messages that wait for consent, unless that is done. Returns the
    /// question if it is not durable yet.
    pub(super) async fn ask(
        &self,
        session: &SessionKey,
        notifier: &dyn Notifier,
    ) -> Result<Option<String>, SessionError> {
        let view = self.sessions.read(session, STATE).await?;
        let Some(question) = Pending::of(&view).question(session) else {
            return Ok(None);
        };
        if self.may_offer(session) {
            match notifier.ask(question.clone()).await {
                QuestionOutcome::Durable => self.mark_asked(session).await?,
                QuestionOutcome::Offered => self.note_offer(session),
                QuestionOutcome::Dropped => {}
            }
        }
        Ok(Some(question.text))
    }

    /// Records that the reply of a turn will contain the question, before it is stored. If a crash
    /// follows, the question is asked again under the key of that reply: once, whether the reply was
    /// stored or not.
    pub(crate) async fn note_asking_reply(
        &self,
        session: &SessionKey,
        turn: &TraceId,
    ) -> Result<(), SessionError> {
        self.change(session, STATE, |_, pending| {
            pending.note_asking_reply(turn);
            (Vec::new(), ())
        })
        .await
    }

    /// Returns the question that the person may not have seen, unless it was offered lately.
    pub(crate) fn reminder(&self, session: &SessionKey, view: &SessionView) -> Option<String> {
        let question = Pending::of(view).question(session)?.text;
        if !self.settings.enabled || !self.may_offer(session) {
            return None;
        }
        self.note_offer(session);
        Some(question)
    }

    /// Records, in the background, that the question of a session is durable.
    pub(crate) fn question_published(self: &Arc<Self>, session: &SessionKey) {
        // Until that is recorded, this process does not ask again.
        self.offered()
            .insert(session.clone(), (OFFERS, Instant::now()));
        let (this, session) = (Arc::clone(self), session.clone());
        self.tasks.spawn(async move {
            if let Err(error) = this.mark_asked(&session).await {
                tracing::warn!(%error, %session, "could not record that a question was asked");
            }
        });
    }

    async fn mark_asked(&self, session: &SessionKey) -> Result<(), SessionError> {
        self.change(session, STATE, |_, pending| {
            pending.mark_asked();
            (Vec::new(), ())
        })
        .await
    }

    fn may_offer(&self, session: &SessionKey) -> bool {
        let offered = self.offered().get(session).copied();
        offered.is_none_or(|(count, at)| count < OFFERS || at.elapsed() >= OFFER_PAUSE)
    }

    fn note_offer(&self, session: &SessionKey) {
        let mut offered = self.offered();
        if offered.len() >= MAX_OFFERED {
            offered.retain(|_, (_, at)| at.elapsed() < OFFER_PAUSE);
        }
        let (count, at) = offered
            .entry(session.clone())
            .or_insert_with(|| (0, Instant::now()));
        *count = count.saturating_add(1);
        *at = Instant::now();
    }

    pub(super) fn offered(&self) -> MutexGuard<'_, OfferedQuestions> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the person's decision about the messages that wait to be summarised. The messages
    /// of a conversation that is too long wait, even if no background task has noted that yet.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub(crate) async fn decide(
        &self,
        session: &SessionKey,
        agrees: bool,
    ) -> Result<BacklogReport, SessionError> {
        let mut report = self.decide_noted(session, agrees).await?;
        if report == BacklogReport::Nothing && self.settings.enabled {
            self.next(session, SummaryExtent::Due).await?;
            report = self.decide_noted(session, agrees).await?;
        }
        self.offered().remove(session);
        Ok(report)
    }

    async fn decide_noted(
        &self,
        session: &SessionKey,
        agrees: bool,
    ) -> Result<BacklogReport, SessionError> {
        let decision = match agrees {
            true => Consent::Given,
            false => Consent::Awaited,
        };
        self.change(session, STATE, |view, pending| {
            let mut messages: u64 = 0;
            for chunk in &mut pending.chunks {
                // Messages that are still in the conversation are not waiting yet.
                if chunk.consent == Consent::NotNeeded || Seq(chunk.upto) > view.cursor {
                    continue;
                }
                if chunk.consent != decision {
                    chunk.failures = 0;
                    chunk.trouble = None;
                }
                chunk.consent = decision;
                chunk.asked = true;
                messages = messages.saturating_add(chunk.remaining());
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

/// The requests into which messages are divided.
#[derive(Debug, Default)]
struct Packed {
    /// Thousandths of a request. The last one is not full.
    thousandths: usize,
    tokens: usize,
}

/// Divides the messages of a chunk into requests of at most `limit` tokens and [`BATCH`] messages.
fn packed(view: &SessionView, chunk: &Chunk, limit: usize) -> Packed {
    let mut packed = Packed::default();
    let (mut first, mut part) = (None, 0);
    let mut last = 0;
    for piece in pieces(view, chunk) {
        let tokens = estimate_tokens(&piece.text).saturating_add(1);
        let seq = match piece.done.piece {
            0 => piece.done.seq.saturating_sub(1),
            _ => piece.done.seq,
        };
        let fits = |first: u64| part + tokens <= limit && seq < first.saturating_add(BATCH);
        if !first.is_some_and(fits) {
            packed.thousandths += first.map_or(0, |_| 1_000);
            (first, part) = (Some(seq), 0);
        }
        part += tokens;
        packed.tokens += tokens;
        last = seq;
    }
    if let Some(first) = first {
        let count = usize::try_from((last - first + 1).saturating_mul(1_000) / BATCH);
        let of_messages = count.unwrap_or(1_000);
        packed.thousandths += of_messages
            .max(part.saturating_mul(1_000) / limit)
            .min(1_000);
    }
    packed
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
        let text = question(cost, None);
        for part in [
            "99000 older messages",
            "97 requests with 2800000 tokens",
            "/summarize",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
