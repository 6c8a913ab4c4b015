//! Runs turns in sessions: reads the log, journals every step, resumes interrupted turns.
//!
//! Decision: every turn of a session, whether for a lane, a program or the terminal, goes through
//! [`Agent::run_turn`], which admits one turn at a time per session and a bounded number overall.
//! The session log is the journal; a turn has no other state.

mod conclude;
mod context_report;
mod describe;
mod direct;
mod job_failures;
mod log;
mod memory;
mod model;
mod parts;
mod permits;
mod rewind;
mod served_window;
mod skills;
mod turn_start;
mod usage;
mod window;

use std::sync::Arc;

use nanobot_approvals::Approvals;
use nanobot_bus::EventFeed;
use nanobot_context::{
    Calibrator, ContextBuilder, SessionFacts, estimate_message, estimate_tokens, estimate_tools,
    runtime_block, zone_label,
};
use nanobot_session::{Entry, ReadFrom, Seq, SessionStore, SessionView, TurnEnd, TurnOutcome};
use nanobot_types::{
    ChannelName, ChatId, ChatMessage, Event, InboundMessage, MessageId, Origin, SessionKey,
    Timestamp, TraceId,
};
use tracing::Instrument as _;

pub use context_report::{ContextPart, ContextReport};
pub use direct::DirectRequest;
pub(crate) use direct::NoSteering;
pub use model::ModelMenu;
pub use parts::{AgentParts, AgentSettings, TurnReport, TurnRequest};
pub(crate) use rewind::RetryInput;
pub use rewind::SessionReservation;
pub use usage::UsageReport;

use crate::address;
use crate::consolidation::{Consolidator, ConsolidatorParts, Size};
use crate::engine::{EngineReport, TurnEngine, TurnFacts, TurnIo, TurnProgress, untrusted_origin};
use crate::evidence::{TurnStep, TurnSteps};
use crate::locks::KeyedLocks;
use crate::prefix::{LogFacts, PrefixWatch};
use crate::{AgentError, Signal, Subagents};
use log::{ConversationSize, SessionLog};
use memory::MemoryCheckTimer;
use model::Announced;
use permits::TurnPermits;
use served_window::WindowNotices;
use turn_start::{FreshSteering, Resumed, TurnStart};
use usage::LastTurns;

/// Reply of a turn in which the model said nothing.
const NOTHING_TO_SAY: &str = "Done. I have nothing to add.";

/// An assistant with sessions.
#[derive(Debug)]
pub struct Agent {
    engine: TurnEngine,
    sessions: Arc<dyn SessionStore>,
    context: Arc<ContextBuilder>,
    events: EventFeed,
    settings: AgentSettings,
    locks: KeyedLocks,
    permits: TurnPermits,
    last_turns: LastTurns,
    fallbacks: Announced,
    windows: WindowNotices,
    prefixes: PrefixWatch,
    consolidator: Arc<Consolidator>,
    subagents: Option<Arc<Subagents>>,
    last_look: MemoryCheckTimer,
}

impl Agent {
    /// Creates an agent from its parts.
    #[must_use]
    pub fn new(parts: AgentParts, settings: AgentSettings) -> Self {
        let permits = TurnPermits::new(settings.max_concurrent_turns);
        let prefixes = PrefixWatch::new(parts.context.store().clone());
        let calibrator = Arc::new(
            settings
                .calibration_file
                .clone()
                .map_or_else(Calibrator::new, Calibrator::with_file),
        );
        let consolidator = Consolidator::new(ConsolidatorParts {
            settings: settings.consolidation.clone(),
            router: parts.router.clone(),
            sessions: parts.sessions.clone(),
            context: parts.context.clone(),
            calibrator: calibrator.clone(),
            events: parts.events.clone(),
        });
        let engine = TurnEngine::new(parts.router, parts.registry, parts.events.clone())
            .calibrated_by(calibrator)
            .with_secrets(settings.secrets.clone())
            .with_approvals(settings.approvals.clone());
        let engine = match &settings.results_folder {
            Some(folder) => engine.keeping_results(folder),
            None => engine,
        };
        let engine = match &settings.media_folder {
            Some(folder) => engine.receiving_files_in(folder),
            None => engine,
        };
        Self {
            engine,
            sessions: parts.sessions,
            context: parts.context,
            events: parts.events,
            settings,
            locks: KeyedLocks::default(),
            permits,
            last_turns: LastTurns::default(),
            fallbacks: Announced::default(),
            windows: WindowNotices::default(),
            prefixes,
            consolidator: Arc::new(consolidator),
            subagents: None,
            last_look: MemoryCheckTimer::default(),
        }
    }

    /// Adds subagents, which run the tasks of the `spawn` tool.
    #[must_use]
    pub fn with_subagents(self, subagents: Arc<Subagents>) -> Self {
        Self {
            subagents: Some(subagents),
            ..self
        }
    }

    /// Returns its subagents, if it has any.
    #[must_use]
    pub fn subagents(&self) -> Option<&Arc<Subagents>> {
        self.subagents.as_ref()
    }

    /// Returns its approvals, if it has any.
    #[must_use]
    pub fn approvals(&self) -> Option<&Arc<Approvals>> {
        self.settings.approvals.as_ref()
    }

    /// Returns the session store.
    #[must_use]
    pub fn sessions(&self) -> &Arc<dyn SessionStore> {
        &self.sessions
    }

    /// Returns the feed of its events.
    #[must_use]
    pub fn events(&self) -> &EventFeed {
        &self.events
    }

    /// Returns the runtime block, which tells the model when a message was sent and in which chat.
    #[must_use]
    pub fn runtime_block(&self, at: &Timestamp, channel: &ChannelName, chat: &ChatId) -> String {
        runtime_block(at, &zone_label(at), Some((channel, chat)))
    }

    /// Runs a turn to its end, resumes one that a crash interrupted, or returns the end of a
    /// finished one. When this returns `Ok`, the end is recorded.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if the journal failed and [`AgentError::Interrupted`] if the
    /// program shuts down. In both cases the same request resumes the turn later.
    pub async fn run_turn(&self, request: TurnRequest<'_>) -> Result<TurnReport, AgentError> {
        self.run_turn_noting(request, TurnSteps::default(), None)
            .await
    }

    /// Runs a turn as [`Agent::run_turn`] does, and notes the step under way in `steps`. A new turn
    /// replaces the last exchange if that begins at `replaces`.
    ///
    /// # Errors
    /// See [`Agent::run_turn`].
    pub(crate) async fn run_turn_noting(
        &self,
        request: TurnRequest<'_>,
        steps: TurnSteps,
        replaces: Option<Seq>,
    ) -> Result<TurnReport, AgentError> {
        let TurnFacts {
            session, channel, ..
        } = &request.facts;
        let span = tracing::info_span!("turn", %session, trace = %request.trace, %channel);
        self.turn(request, steps, replaces).instrument(span).await
    }

    async fn turn(
        &self,
        request: TurnRequest<'_>,
        steps: TurnSteps,
        replaces: Option<Seq>,
    ) -> Result<TurnReport, AgentError> {
        let session = request.facts.session.clone();
        let _owner = self.locks.lock(&session).await;
        let _permit = self
            .permits
            .acquire(&request.observer, &request.cancel)
            .await?;
        steps.step(TurnStep::Opening);
        self.consolidator.calibrator().load().await;
        let view = self.sessions.read(&session, ReadFrom::Cursor).await?;
        let view = self.make_room(&session, view, &request.observer).await?;
        let mut view = self.shorten_heartbeat(&session, view).await?;
        if request.facts.origin == Origin::User
            && let Some(question) = self.consolidator.reminder(&session, &view)
        {
            request.observer.signal(Signal::Notice(question));
        }
        let replaced = replaces.and_then(|from| rewind::replace_exchange(&mut view, from));
        let mut log =
            SessionLog::new(self.sessions.clone(), &request.facts, view.head).with_steps(steps);
        log.conversation = ConversationSize::of(&view);
        let log_facts = LogFacts::of(&view, &request.entry.at);
        let trace = request.trace.clone();
        let failed_before = job_failures::failed_before(&session, &view, &trace);
        let report = match TurnStart::of(&view, request.entry.inbound.as_ref()) {
            TurnStart::Ended(end) => {
                let report = recorded_report(trace, end);
                return Ok(job_failures::report_once(&session, failed_before, report));
            }
            TurnStart::Fresh {
                mut repairs,
                messages,
            } => {
                repairs.splice(0..0, replaced);
                repairs.extend(self.audience_change(&view, &request.facts));
                repairs.extend(address::address_change(&view.metadata, &request.facts));
                self.events.send(Event::TurnStarted {
                    session: session.clone(),
                    trace,
                });
                self.begin(&mut log, (view, log_facts), repairs, messages, request)
                    .await?
            }
            TurnStart::Resumed(resumed) => {
                tracing::info!(session = %session, trace = %trace, "resuming an interrupted turn");
                self.resume(&mut log, (view, log_facts), resumed, request)
                    .await?
            }
        };
        self.record_size(&session, &log, report.ended);
        self.notice_memory(&session, &report.trace, log.ran_tools())
            .await;
        let report = job_failures::report_once(&session, failed_before, report);
        self.events.send(Event::TurnFinished {
            session,
            trace: report.trace.clone(),
        });
        Ok(report)
    }

    async fn begin(
        &self,
        log: &mut SessionLog,
        read: (SessionView, LogFacts),
        mut repairs: Vec<Entry>,
        mut messages: Vec<Arc<ChatMessage>>,
        request: TurnRequest<'_>,
    ) -> Result<TurnReport, AgentError> {
        let taken = request.entry.inbound.iter().cloned().collect();
        let progress = TurnProgress {
            untrusted: untrusted_origin(&request.entry).map(str::to_owned),
            ..TurnProgress::default()
        };
        messages.push(request.entry.sent());
        repairs.push(Entry::Message(request.entry.clone()));
        log.append(repairs).await?;
        self.run_engine(log, read, (messages, progress), taken, request)
            .await
    }

    async fn resume(
        &self,
        log: &mut SessionLog,
        read: (SessionView, LogFacts),
        resumed: Resumed,
        request: TurnRequest<'_>,
    ) -> Result<TurnReport, AgentError> {
        resumed.steps.iter().for_each(|step| log.update_flags(step));
        if let Some(reply) = resumed.reply {
            return self
                .record_end(
                    log,
                    request.trace.clone(),
                    resumed.inbound,
                    EngineReport::replied(reply, request.trace),
                )
                .await;
        }
        if !resumed.repairs.is_empty() {
            log.append(resumed.repairs).await?;
        }
        self.run_engine(
            log,
            read,
            (resumed.messages, resumed.progress),
            resumed.inbound,
            request,
        )
        .await
    }

    async fn run_engine(
        &self,
        log: &mut SessionLog,
        (view, log_facts): (SessionView, LogFacts),
        (messages, progress): (Vec<Arc<ChatMessage>>, TurnProgress),
        taken: Vec<MessageId>,
        request: TurnRequest<'_>,
    ) -> Result<TurnReport, AgentError> {
        let mut steering = FreshSteering::new(request.steering, taken);
        let session = &request.facts.session;
        let audience = self.audience(session).await;
        let model = self.preferred_model(&view.metadata);
        let served = self.served_window(session, &model);
        let served = request.cancel.run_until_cancelled(served).await.flatten();
        let facts = SessionFacts {
            audience: Some(&audience),
            summary: log.conversation.summary.as_deref(),
            profile: self.profile(session),
            ..log_facts.for_context()
        };
        let epoch = self.fitting_epoch(session, facts).await;
        let mut requests = self.prefixes.turn(session, log_facts, &view, &epoch).await;
        // Frees a long conversation, which would otherwise be held twice during model calls.
        drop(view);
        let refresh = self.engine.registry().refresh();
        request.cancel.run_until_cancelled(refresh).await;
        let tools = requests.stable_order(self.tools_of(&epoch.prompt));
        log.conversation.fixed = estimate_tokens(epoch.prompt.text()) + estimate_tools(&tools);
        let size = &mut log.conversation.size;
        *size = Size {
            messages: messages.len(),
            tokens: messages
                .iter()
                .map(|message| estimate_message(message))
                .sum(),
        };
        let fixed = log.conversation.fixed;
        let observer = request.observer.clone();
        self.announce_window(&request.facts, &*observer, &model, (served, fixed));
        let io = TurnIo {
            facts: &request.facts,
            system: epoch.prompt.text().clone(),
            model: model.clone(),
            tools,
            context: &self.context,
            journal: log,
            steering: &mut steering,
            observer: request.observer,
            requests: &mut requests,
            cancel: request.cancel,
        };
        let options = &self.settings.options;
        let report = self
            .engine
            .run(messages, progress, request.trace.clone(), options, io)
            .await;
        requests.close().await;
        let mut report = report?;
        if report.outcome != TurnOutcome::Stopped {
            // A server that had to load the model first knows its window now.
            let served = self.served_window(&request.facts.session, &model).await;
            self.announce_window(&request.facts, &*observer, &model, (served, fixed));
        }
        self.announce_fallback(&request.facts, &mut report);
        self.last_turns.record(&request.facts.session, report.usage);
        if report.outcome == TurnOutcome::Stopped && request.interrupt.is_cancelled() {
            return Err(AgentError::Interrupted);
        }
        if let Some(approvals) = self.approvals() {
            approvals.turn_ended(&request.trace).await;
        }
        self.record_end(log, request.trace, steering.into_message_ids(), report)
            .await
    }

    async fn record_end(
        &self,
        log: &mut SessionLog,
        trace: TraceId,
        inbound: Vec<MessageId>,
        report: EngineReport,
    ) -> Result<TurnReport, AgentError> {
        let ended = match report.outcome {
            TurnOutcome::Replied if log.answered_here() => TurnOutcome::Suppressed,
            outcome => outcome,
        };
        let visible = match ended {
            TurnOutcome::Suppressed | TurnOutcome::Stopped => None,
            TurnOutcome::Replied => Some(report.reply.unwrap_or_else(|| NOTHING_TO_SAY.to_owned())),
            TurnOutcome::Limited | TurnOutcome::Failed => report.reply,
        };
        let end = TurnEnd {
            turn: trace.clone(),
            inbound,
            outcome: ended,
            visible: visible.clone(),
        };
        let last = report.last.map(Entry::Message);
        log.append(last.into_iter().chain([Entry::TurnEnded(end)]).collect())
            .await?;
        Ok(TurnReport {
            trace,
            ended,
            visible,
            stream: report.stream,
        })
    }

    /// Adds a line to the reply of the first turn that another model than the preferred one
    /// answered.
    fn announce_fallback(&self, facts: &TurnFacts, report: &mut EngineReport) {
        if facts.origin != Origin::User || report.outcome != TurnOutcome::Replied {
            return;
        }
        let line = self.fallbacks.once(&facts.session, report.fallback.take());
        if let (Some(line), Some(reply)) = (line, &mut report.reply) {
            reply.push_str(&format!("\n\n[{line}]"));
        }
    }

    /// Sets the delivery of a job's message to the current location of its chat.
    pub(crate) async fn set_delivery(&self, message: &mut InboundMessage) {
        address::find_delivery(&*self.sessions, message).await;
    }

    /// Returns the number of steps recorded after the message in its turn; `u32::MAX` if the turn
    /// ended, 0 if the log cannot be read. The number grows between attempts if a turn is merely
    /// interrupted, and stays the same if the turn crashes the process.
    pub(crate) async fn steps_recorded(&self, session: &SessionKey, inbound: &MessageId) -> u32 {
        match self.sessions.read(session, ReadFrom::Cursor).await {
            Ok(view) => turn_start::steps_recorded(&view, inbound),
            Err(error) => {
                tracing::warn!(%error, session = %session, "could not read the journal of a turn");
                0
            }
        }
    }

    /// Copies the conversation of a session into a new session and returns its key. Returns `None`
    /// if the session is empty.
    ///
    /// # Errors
    /// Returns [`AgentError::Session`] if a session log failed.
    pub async fn branch(&self, session: &SessionKey) -> Result<Option<SessionKey>, AgentError> {
        let _owner = self.locks.lock(session).await;
        if self
            .sessions
            .read(session, ReadFrom::Seq(Seq(u64::MAX)))
            .await?
            .head
            == Seq(0)
        {
            return Ok(None);
        }
        Ok(Some(
            nanobot_session::branch(&*self.sessions, session, None).await?,
        ))
    }
}

fn recorded_report(trace: TraceId, end: Option<TurnEnd>) -> TurnReport {
    match end {
        Some(end) => TurnReport {
            trace: end.turn,
            ended: end.outcome,
            visible: end.visible,
            stream: None,
        },
        // Only the id is left of a turn that ended long ago. Its reply was published before the
        // messages after it.
        None => TurnReport {
            trace,
            ended: TurnOutcome::Replied,
            visible: None,
            stream: None,
        },
    }
}
