//! Summarises the waiting chunks of a session, one after the other.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use nanobot_memory::{MemoryError, Reason, Scope};
use nanobot_session::{Entry, ReadFrom, Seq, SessionError};
use nanobot_types::{ModelId, NoticeKind, SessionKey, chain};

use super::notifier::{MemoryProblem, Notifier};
use super::pieces::{TranscriptPiece, pieces};
use super::state::{Chunk, Consent, Flush, Pending, Position, Rewrite, summary_change};
use super::{
    CompactReport, Consolidator, NextChunk, STATE, SummaryExtent, SummaryProgress, backlog, now,
    size,
};
use crate::{AudienceLookup, budget};

/// Maximum number of chunks per run.
const ROUNDS: usize = 5;
/// Maximum number of messages held in memory at a time.
pub(super) const BATCH: u64 = 1024;
/// Number of summaries after which other sessions get their turn.
const PARTS: usize = 4;
/// Number of failures of the model after which the messages themselves go into the history.
const FAILURES: u32 = 3;
/// Maximum number of characters of such messages.
const RAW: usize = 32_000;

/// One run over a session.
pub(super) struct ConsolidationRun<'a> {
    pub(super) session: &'a SessionKey,
    pub(super) scope: Scope,
    notifier: &'a dyn Notifier,
    /// `true` while nothing has gone wrong.
    clean: bool,
    /// Remaining summaries until other sessions get their turn.
    parts: usize,
    /// The message at which it works, which names its notices.
    place: u64,
}

/// The result of working on a chunk.
enum ChunkProgress {
    /// It has left the conversation.
    Whole,
    /// Another task finished it.
    Gone,
    /// A part of it is summarised; the rest is left for later.
    Partly,
    /// It failed for now, with this reason.
    Failed(String),
}

/// Marks a session as being summarised; dropping it removes the mark.
struct RunningGuard<'a> {
    running: &'a Mutex<HashSet<SessionKey>>,
    session: &'a SessionKey,
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        self.running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(self.session);
    }
}

impl Consolidator {
    /// Summarises the waiting chunks of a session, in a few rounds.
    pub(super) async fn run(
        &self,
        session: &SessionKey,
        aim: SummaryExtent,
        notifier: &dyn Notifier,
    ) -> CompactReport {
        let mut report = CompactReport::default();
        let is_first = self
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(session.clone());
        if !is_first {
            return CompactReport {
                busy: true,
                background: self.progress(session).await,
                ..report
            };
        }
        let _alone = RunningGuard {
            running: &self.running,
            session,
        };
        let served = self.router.context_window(&ModelId::from("")).await;
        self.served_for_summaries
            .store(budget::tokens_of(served), Ordering::Relaxed);
        loop {
            let Ok(_permit) = self.permits.acquire().await else {
                return report;
            };
            match self.rounds(session, aim, notifier, &mut report).await {
                Ok(true) if !self.closing.is_cancelled() => {}
                Ok(_) => break,
                Err(error) => {
                    report.error = Some(chain(&error));
                    break;
                }
            }
        }
        if let Ok(view) = self.sessions.read(session, ReadFrom::Cursor).await {
            report.remaining = size(&view).messages;
            report.background = Pending::of(&view).progress();
        }
        report
    }

    /// Returns the progress of messages that are summarised with consent.
    async fn progress(&self, session: &SessionKey) -> Option<SummaryProgress> {
        let view = self.sessions.read(session, STATE).await.ok()?;
        Pending::of(&view).progress()
    }

    /// Runs one round. Returns `true` if there is more to do.
    async fn rounds(
        &self,
        session: &SessionKey,
        aim: SummaryExtent,
        notifier: &dyn Notifier,
        report: &mut CompactReport,
    ) -> Result<bool, SessionError> {
        let mut run = ConsolidationRun {
            session,
            scope: self.scope(session).await,
            notifier,
            clean: true,
            parts: PARTS,
            place: 0,
        };
        let mut more = false;
        for _ in 0..ROUNDS {
            let chunk = match self.next(session, aim).await? {
                NextChunk::Chunk(chunk) => *chunk,
                NextChunk::AskFirst => {
                    // Messages with consent are still to be summarised.
                    more = aim == SummaryExtent::Due && self.progress(session).await.is_some();
                    break;
                }
                NextChunk::Nothing => break,
            };
            let (messages, is_left) = (chunk.upto - chunk.from, chunk.left);
            match self.process_chunk(&mut run, chunk).await? {
                ChunkProgress::Whole if is_left => {}
                ChunkProgress::Whole => report.messages += messages,
                ChunkProgress::Gone => {}
                ChunkProgress::Partly => return Ok(true),
                ChunkProgress::Failed(why) => {
                    report.error = Some(why);
                    break;
                }
            }
        }
        // The notice of a problem has said enough for now.
        if run.clean {
            report.question = self.ask(session, notifier).await?;
        }
        Ok(more)
    }

    /// Returns the memory scope of a session's summaries, which belongs to its audience.
    pub(super) async fn scope(&self, session: &SessionKey) -> Scope {
        let audiences =
            AudienceLookup::new(self.sessions.clone(), self.context.memory().is_divided());
        audiences.of(session).await.home()
    }

    async fn process_chunk(
        &self,
        run: &mut ConsolidationRun<'_>,
        mut chunk: Chunk,
    ) -> Result<ChunkProgress, SessionError> {
        // A flush noted by an earlier run may be written already.
        let mut may_be_written = chunk.flush.is_some();
        loop {
            run.place = chunk.done.seq;
            if let Some(flush) = chunk.flush.take() {
                if let Err(error) = self
                    .flush(run, &flush, std::mem::take(&mut may_be_written))
                    .await
                {
                    return Ok(ChunkProgress::Failed(chain(&error)));
                }
                chunk.summarised(if flush.raw { "" } else { &flush.history });
                chunk.done = flush.done;
                run.place = chunk.done.seq;
                chunk.failures = 0;
                if !self.save(run, &chunk).await? {
                    return Ok(ChunkProgress::Gone);
                }
                run.parts = run.parts.saturating_sub(1);
            }
            let rest = self.next_pieces(run.session, &mut chunk).await?;
            if rest.is_empty() {
                self.finish(run, &chunk).await?;
                return Ok(ChunkProgress::Whole);
            }
            if run.parts == 0 {
                return Ok(ChunkProgress::Partly);
            }
            match self.summarise(run, &rest, chunk.untrusted).await {
                Ok(flush) => chunk.note(flush),
                Err(_) if self.closing.is_cancelled() => {
                    return Ok(ChunkProgress::Failed("interrupted".to_owned()));
                }
                Err(why) => {
                    chunk.failures += 1;
                    tracing::warn!(session = %run.session, why, failures = chunk.failures, "could not summarise a conversation");
                    let is_last = chunk.failures >= FAILURES;
                    if !is_last || chunk.consent == Consent::Given {
                        if is_last {
                            chunk.await_consent(Some(why.clone()));
                        }
                        self.save(run, &chunk).await?;
                        return Ok(ChunkProgress::Failed(why));
                    }
                    self.notify_once(run, &MemoryProblem::Raw(why)).await;
                    if let Some(flush) = verbatim_flush(run.session, &rest) {
                        chunk.note(flush);
                    }
                }
            }
            if !self.save(run, &chunk).await? {
                return Ok(ChunkProgress::Gone);
            }
        }
    }

    /// Returns the next pieces of a chunk that are not summarised, from at most [`BATCH`] messages.
    async fn next_pieces(
        &self,
        session: &SessionKey,
        chunk: &mut Chunk,
    ) -> Result<Vec<TranscriptPiece>, SessionError> {
        loop {
            let from = chunk.done.seq.max(chunk.from);
            let upto = chunk.upto.min(from.saturating_add(BATCH));
            if from >= upto {
                return Ok(Vec::new());
            }
            let view = self
                .sessions
                .read(
                    session,
                    ReadFrom::Range {
                        from: Seq(from),
                        upto: Seq(upto),
                    },
                )
                .await?;
            let rest = pieces(&view, chunk);
            if !rest.is_empty() {
                return Ok(rest);
            }
            // These messages contain no text.
            chunk.done = Position {
                seq: upto,
                piece: 0,
            };
        }
    }

    /// Writes a summary to memory. With `may_be_written`, an earlier run may have written it, so
    /// text that memory contains is not written again.
    async fn flush(
        &self,
        run: &mut ConsolidationRun<'_>,
        flush: &Flush,
        may_be_written: bool,
    ) -> Result<(), MemoryError> {
        let memory = self.context.memory();
        if !(may_be_written && memory.has_history(&run.scope, &flush.history).await?) {
            memory
                .append_history(&run.scope, flush.at, &flush.history)
                .await?;
        }
        let Some(rewrite) = &flush.facts else {
            return Ok(());
        };
        let reason = Reason::Consolidation {
            session: run.session.clone(),
        };
        match memory
            .replace_facts(&run.scope, rewrite.text.clone(), rewrite.base(), &reason)
            .await
        {
            Ok(_) => Ok(()),
            Err(MemoryError::Changed) if self.are_written(run, rewrite).await => Ok(()),
            Err(MemoryError::Changed) => {
                self.notify_once(run, &MemoryProblem::Changed).await;
                Ok(())
            }
            Err(MemoryError::TooLong { .. }) => {
                self.notify_once(run, &MemoryProblem::TooLong).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns `true` if the facts already equal a rewrite, which was then made before a crash.
    async fn are_written(&self, run: &ConsolidationRun<'_>, rewrite: &Rewrite) -> bool {
        self.context
            .memory()
            .facts(&run.scope)
            .await
            .is_ok_and(|facts| facts.text == rewrite.text)
    }

    /// Saves the progress of a chunk. Returns `false` if the chunk is no longer there, or the person
    /// stopped it.
    async fn save(&self, run: &ConsolidationRun<'_>, chunk: &Chunk) -> Result<bool, SessionError> {
        self.change(run.session, STATE, |_, pending| {
            let Some(stored) = pending.chunks.iter_mut().find(|stored| stored.is(chunk)) else {
                return (Vec::new(), false);
            };
            if stored.consent == Consent::Awaited {
                return (Vec::new(), false);
            }
            let left = stored.left;
            *stored = Chunk {
                left,
                ..chunk.clone()
            };
            (Vec::new(), true)
        })
        .await
    }

    /// Moves the cursor past a chunk that is in memory now.
    async fn finish(&self, run: &ConsolidationRun<'_>, chunk: &Chunk) -> Result<(), SessionError> {
        let was_agreed = self
            .change(run.session, STATE, |_, pending| {
                let mut entries = Vec::new();
                let Some(index) = pending.chunks.iter().position(|stored| stored.is(chunk)) else {
                    return (entries, false);
                };
                let stored = pending.chunks.remove(index);
                pending.told &= !run.clean;
                if !stored.left {
                    entries.push(Entry::Consolidated {
                        upto: Seq(chunk.upto),
                    });
                    if !chunk.summary.is_empty() {
                        entries.push(Entry::Metadata(summary_change(&chunk.summary, &now())));
                    }
                }
                (entries, stored.consent == Consent::Given)
            })
            .await?;
        self.context.renew(run.session);
        if was_agreed {
            let kind = NoticeKind::Summarised(notice_number(chunk.upto));
            let notice = backlog::finished(chunk.upto - chunk.from);
            run.notifier.notify(kind, notice).await;
        }
        Ok(())
    }

    /// Moves the messages that no longer fit into a request to the history, verbatim and without a
    /// model.
    pub(crate) async fn make_room(
        &self,
        session: &SessionKey,
        notifier: &dyn Notifier,
    ) -> Result<(), SessionError> {
        let mut run = ConsolidationRun {
            session,
            scope: self.scope(session).await,
            notifier,
            clean: true,
            parts: 1,
            place: 0,
        };
        let NextChunk::Chunk(mut chunk) = self.next(session, SummaryExtent::Due).await? else {
            return Ok(());
        };
        run.place = chunk.done.seq;
        if chunk.consent != Consent::NotNeeded {
            return Ok(());
        }
        let may_be_written = chunk.flush.is_some();
        if !may_be_written {
            // Text beyond the limit of the history is not read; the session has it.
            let rest = self.next_pieces(session, &mut chunk).await?;
            if let Some(flush) = verbatim_flush(session, &rest) {
                let done = Position {
                    seq: chunk.upto,
                    piece: 0,
                };
                chunk.note(Flush { done, ..flush });
            }
        }
        let Some(flush) = chunk.flush.take() else {
            return self.finish(&run, &chunk).await;
        };
        self.save(
            &run,
            &Chunk {
                flush: Some(flush.clone()),
                ..(*chunk).clone()
            },
        )
        .await?;
        self.notify_once(
            &mut run,
            &MemoryProblem::Raw("the model did not manage to".to_owned()),
        )
        .await;
        match self.flush(&mut run, &flush, may_be_written).await {
            Ok(()) => {
                chunk.done = flush.done;
                self.save(&run, &chunk).await?;
                self.finish(&run, &chunk).await
            }
            Err(error) => {
                tracing::warn!(%session, error = chain(&error), "could not archive old messages in the history");
                Ok(())
            }
        }
    }

    /// Notifies the person once that something went wrong.
    pub(super) async fn notify_once(
        &self,
        run: &mut ConsolidationRun<'_>,
        problem: &MemoryProblem,
    ) {
        tracing::warn!(session = %run.session, trouble = %problem, "memory was not updated as expected");
        run.clean = false;
        let first = self.change(run.session, STATE, |_, pending| {
            (Vec::new(), !std::mem::replace(&mut pending.told, true))
        });
        if first.await.unwrap_or(false) {
            let kind = NoticeKind::MemoryProblem(notice_number(run.place));
            run.notifier.notify(kind, problem.to_string()).await;
        }
    }
}

/// Returns the number of a message in the kind of a notice about it.
fn notice_number(message: u64) -> u32 {
    u32::try_from(message).unwrap_or(u32::MAX)
}

/// Returns messages verbatim as a history entry; `None` if there are none.
fn verbatim_flush(session: &SessionKey, rest: &[TranscriptPiece]) -> Option<Flush> {
    let last = rest.last()?;
    let mut messages: Vec<u64> = rest.iter().map(|piece| piece.done.seq).collect();
    messages.dedup();
    let mut history = format!(
        "[{}] [RAW] {} messages\n",
        last.at.format("%Y-%m-%d %H:%M"),
        messages.len()
    );
    let texts: Vec<&str> = rest.iter().map(|piece| piece.text.as_str()).collect();
    let text = texts.join("\n");
    match text.char_indices().nth(RAW) {
        Some((end, _)) => {
            history.push_str(text.get(..end).unwrap_or_default());
            history.push_str(&format!("\n[… the rest is in the session {session} …]"));
        }
        None => history.push_str(&text),
    }
    Some(Flush {
        at: last.at,
        history,
        facts: None,
        raw: true,
        untrusted: rest.iter().any(|piece| piece.untrusted),
        done: last.done,
    })
}
