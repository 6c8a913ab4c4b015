//! The assistant at a terminal: a conversation, or one question.
//!
//! Decision: if a gateway has the home, both go through its socket. Otherwise a conversation runs
//! over an in-process bus, and a question needs no bus. A prompt also fires the jobs that write to
//! the terminal while no gateway does.

mod ask;
mod attachment;
mod catch_up;
mod gateway;
mod jobs;
mod local;
mod long;
mod progress;
mod reconnect;
mod restart;
mod session_lock;
mod streamed;
mod subagents;
mod turns;

use std::collections::VecDeque;
use std::path::PathBuf;

use nanobot_agent_core::AgentError;
use nanobot_control::{ControlConversation, ConversationEvent, TERMINAL_CHANNEL, TerminalEvent};
use nanobot_state::ProcessLock;
use nanobot_types::{ChannelName, ChatId};

pub use ask::{TerminalMessage, TerminalReply, ask};
pub use progress::TerminalProgress;

use self::catch_up::ShownEvents;
use self::local::LocalAssistant;
use self::reconnect::{Reconnection, UnansweredMessages};
use self::turns::RunningTurns;
use crate::gateway::restart::{RESTARTED, RESTARTING};
use crate::{FirstRun, ModelChoice, Runtime, RuntimeError, is_command, session_store};

/// Session and model of a conversation.
#[derive(Clone, Debug)]
pub struct TerminalOptions {
    /// The session, as `channel:chat`; a name without a colon is a chat of `cli`.
    pub session: String,
    /// Use the demo, whatever model is configured.
    pub demo: bool,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        Self {
            session: "cli:direct".to_owned(),
            demo: false,
        }
    }
}

/// `true` for a message to the model, and for the command that sends the last one again.
#[must_use]
pub fn starts_turn(text: &str) -> bool {
    !is_command(text) || text.trim().eq_ignore_ascii_case("/retry")
}

/// Splits a session into channel and chat.
fn split_session(session: &str) -> (ChannelName, ChatId) {
    match session.split_once(':') {
        Some((channel, chat)) => (channel.into(), chat.into()),
        None => (TERMINAL_CHANNEL.into(), session.into()),
    }
}

/// A conversation at a terminal.
pub struct Terminal {
    peer: TerminalPeer,
    runtime: Runtime,
    options: TerminalOptions,
    /// The turn of the last message, and those of others that a prompt shows.
    turns: RunningTurns,
    /// Number of unfinished subagents when the last turn ended.
    unfinished: u32,
    /// Set while a restart is pending.
    is_restarting: bool,
    /// The conversation that will replace this one.
    replacement: Option<restart::RestartFuture>,
    /// Events that are returned before those of the peer.
    deferred: VecDeque<TerminalEvent>,
    /// The way back to a gateway whose connection ended, at a prompt.
    reconnection: Option<Reconnection>,
    /// Set from the return to a gateway until the missed events were returned.
    is_catching_up: bool,
    /// What a prompt has shown of a gateway's session.
    shown: ShownEvents,
    /// Messages from a prompt to a gateway.
    unanswered: UnansweredMessages,
    model: ModelChoice,
    created: Vec<PathBuf>,
    first_run: Option<FirstRun>,
    /// `true` if a user sees the events at once, so that jobs may fire here.
    is_prompt: bool,
    /// Keeps other prompts out of the session while no gateway has it.
    session_lock: Option<ProcessLock>,
}

/// The other side of the conversation.
#[derive(Debug)]
enum TerminalPeer {
    /// An assistant of this process.
    Own(LocalAssistant),
    /// A gateway.
    Gateway(ControlConversation),
    /// None: the conversation ended.
    Nobody,
}

impl Terminal {
    /// Starts a conversation with the gateway that has the home, or with an assistant of this
    /// process if none runs.
    ///
    /// # Errors
    /// Returns [`RuntimeError`] if the configuration, the workspace or the model cannot be used.
    pub async fn start(runtime: &Runtime, options: TerminalOptions) -> Result<Self, RuntimeError> {
        Self::begin(runtime, options, false, None).await
    }

    /// Starts a conversation like [`start`](Self::start) with a user who sees events at once. While
    /// no gateway runs, jobs that write to the terminal fire here. The first events are the results
    /// of jobs that no terminal showed.
    ///
    /// # Errors
    /// Returns the same errors as [`start`](Self::start), and [`RuntimeError::SessionInUse`] if a
    /// prompt without a gateway has the session.
    pub async fn start_prompt(
        runtime: &Runtime,
        options: TerminalOptions,
    ) -> Result<Self, RuntimeError> {
        Self::begin(runtime, options, true, None).await
    }

    /// Starts a conversation. A prompt may have the lock of its session already.
    async fn begin(
        runtime: &Runtime,
        options: TerminalOptions,
        is_prompt: bool,
        lock: Option<ProcessLock>,
    ) -> Result<Self, RuntimeError> {
        let terminal = Self::connect_or_build(runtime, options, is_prompt, lock).await?;
        let mut deferred = terminal.deferred;
        if is_prompt {
            deferred.extend(jobs::unseen(runtime.config()).await?);
        }
        Ok(Self {
            deferred,
            is_prompt,
            ..terminal
        })
    }

    async fn connect_or_build(
        runtime: &Runtime,
        options: TerminalOptions,
        is_prompt: bool,
        lock: Option<ProcessLock>,
    ) -> Result<Self, RuntimeError> {
        let config = runtime.config();
        if let Some(client) = gateway::of(config, &options).await? {
            let model = ModelChoice::of_gateway(client.about().model.clone());
            let session = options.session.clone();
            if !is_prompt {
                let peer = TerminalPeer::Gateway(client.converse(session).await?);
                return Ok(Self::new(peer, runtime, options, model, Vec::new(), None));
            }
            // A prompt that joins the gateway may bring the lock; it drops it below.
            if lock.is_none() {
                session_lock::refuse_if_held(config, &session).await?;
            }
            let peer = TerminalPeer::Gateway(client.watch(session.clone()).await?);
            let shown = ShownEvents::join(&*session_store(config)?, &session).await?;
            let terminal = Self::new(peer, runtime, options, model, Vec::new(), None);
            return Ok(Self { shown, ..terminal });
        }
        let session_lock = match lock {
            None if is_prompt => Some(session_lock::acquire(config, &options.session).await?),
            held => held,
        };
        let started = LocalAssistant::start(runtime, &options, is_prompt).await?;
        let peer = TerminalPeer::Own(started.assistant);
        let terminal = Self::new(
            peer,
            runtime,
            options,
            started.model,
            started.created,
            started.first_run,
        );
        Ok(Self {
            session_lock,
            ..terminal
        })
    }

    fn new(
        peer: TerminalPeer,
        runtime: &Runtime,
        options: TerminalOptions,
        model: ModelChoice,
        created: Vec<PathBuf>,
        first_run: Option<FirstRun>,
    ) -> Self {
        Self {
            peer,
            runtime: runtime.clone(),
            options,
            turns: RunningTurns::default(),
            unfinished: 0,
            is_restarting: false,
            replacement: None,
            deferred: VecDeque::new(),
            reconnection: None,
            is_catching_up: false,
            shown: ShownEvents::default(),
            unanswered: UnansweredMessages::default(),
            model,
            created,
            first_run,
            is_prompt: false,
            session_lock: None,
        }
    }

    /// Returns the model that answers.
    #[must_use]
    pub fn model(&self) -> &ModelChoice {
        &self.model
    }

    /// Returns the files that were created in the workspace.
    #[must_use]
    pub fn created(&self) -> &[PathBuf] {
        &self.created
    }

    /// Returns the findings in a home of the Python program, on the first run.
    #[must_use]
    pub fn first_run(&self) -> Option<&FirstRun> {
        self.first_run.as_ref()
    }

    /// `true` if a message is sent at once. Otherwise the assistant restarts or its gateway is
    /// gone, or missed events are still to be shown; [`next`](Self::next) goes on with that.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.is_live() && !self.is_catching_up
    }

    fn is_live(&self) -> bool {
        !self.is_restarting && self.replacement.is_none() && self.reconnection.is_none()
    }

    /// Sends a message or a command, also while a turn runs. Waits for a pending restart and for a
    /// gateway that is gone. If the gateway of a prompt goes now, the message is sent when it is
    /// back.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Agent`] if too many messages wait, [`RuntimeError::Control`] if the
    /// gateway is gone and this is no prompt, and [`RuntimeError::Attachment`] for a file that
    /// cannot be attached.
    pub async fn send(&mut self, message: impl Into<TerminalMessage>) -> Result<(), RuntimeError> {
        let TerminalMessage { text, files } = message.into();
        let media = attachment::store(self.runtime.config(), &files).await?;
        while !self.is_live() {
            match self.next_any().await {
                Some(event) => self.deferred.push_back(event),
                None => break,
            }
        }
        let turn = match &mut self.peer {
            TerminalPeer::Own(own) => own.send(&text, media).await?,
            TerminalPeer::Gateway(conversation) => {
                let short = long::for_gateway(self.runtime.config(), &text).await?;
                if let Some(kept) = &short {
                    self.deferred.push_back(TerminalEvent::News(kept.notice()));
                }
                let text = short.as_ref().map_or(text.as_str(), |kept| &kept.text);
                let media = media.into_iter().map(|file| file.location.into()).collect();
                let message = conversation.prepare(text, media);
                let turn = message.turn().clone();
                if self.is_prompt {
                    self.send_reliably(message).await?;
                } else {
                    conversation.send_prepared(&message).await?;
                }
                turn
            }
            TerminalPeer::Nobody => return Err(AgentError::Interrupted.into()),
        };
        if starts_turn(&text) {
            self.turns.sent(turn);
        }
        Ok(())
    }

    /// `true` while a turn runs: that of the last message (commands other than `/retry` have none),
    /// and at a prompt also one that another terminal or a subagent began, from its first step on.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.turns.is_any()
    }

    /// Returns the next event to show; `None` after the assistant ended. A turn's end is returned
    /// only for the turn of the last message, and at a prompt for one of others while there is none.
    /// Cancel-safe.
    pub async fn next(&mut self) -> Option<TerminalEvent> {
        loop {
            let next = match self.deferred.pop_front() {
                Some(deferred) => Some(deferred),
                None => self.next_any().await,
            };
            self.is_catching_up &= !self.deferred.is_empty();
            match next {
                Some(TerminalEvent::TurnEnd { turn, .. }) if !self.turns.end(&turn) => {}
                Some(end @ TerminalEvent::TurnEnd { .. }) => return Some(end),
                Some(question @ TerminalEvent::Question { .. }) => {
                    self.turns.asked();
                    return Some(question);
                }
                other => return other,
            }
        }
    }

    /// Returns the number of unfinished subagents of this conversation, as far as it is known here;
    /// 0 while the gateway is gone. [`next_unfinished`](Self::next_unfinished) waits for them.
    pub fn unfinished(&mut self) -> u32 {
        if !self.is_live() {
            return 0;
        }
        if let TerminalPeer::Own(own) = &self.peer {
            self.unfinished = self.unfinished.max(own.unfinished());
        }
        self.unfinished
    }

    /// Returns `true` if the end of this conversation stops unfinished work besides its running turn:
    /// subagents, messages that wait, or a running job. With a gateway nothing is stopped.
    pub async fn has_unfinished_work(&self) -> bool {
        match &self.peer {
            TerminalPeer::Own(own) => own.has_unfinished_work().await,
            TerminalPeer::Gateway(_) | TerminalPeer::Nobody => false,
        }
    }

    /// Returns the next event to show while subagents of this conversation are unfinished; `None`
    /// if none is left, or the assistant ended. Cancel-safe.
    pub async fn next_unfinished(&mut self) -> Option<TerminalEvent> {
        loop {
            let event = match self.deferred.pop_front() {
                Some(deferred) => deferred,
                None if self.unfinished > 0 => self.next_any().await?,
                None => return None,
            };
            if !matches!(event, TerminalEvent::TurnEnd { .. }) {
                return Some(event);
            }
        }
    }

    async fn next_any(&mut self) -> Option<TerminalEvent> {
        loop {
            if let Some(replacement) = &mut self.replacement {
                let restarted = replacement.await;
                return Some(self.replace_with(restarted));
            }
            if let Some(reconnection) = &mut self.reconnection {
                let progress = reconnection.next().await;
                return Some(self.take_progress(progress));
            }
            let event = match &mut self.peer {
                TerminalPeer::Own(own) => {
                    let restart = own.restart.clone();
                    tokio::select! {
                        biased;
                        event = own.next() => {
                            let (event, key) = event?;
                            if self.is_prompt {
                                self.turns.observe(&event, key.as_ref());
                            }
                            Some(event)
                        }
                        () = restart.requested().cancelled() => None,
                    }
                }
                TerminalPeer::Gateway(conversation) => match conversation.next().await {
                    Ok(ConversationEvent::Event { event, key, .. }) => {
                        match self.admit(event, key) {
                            Some(event) => Some(event),
                            None => continue,
                        }
                    }
                    Ok(ConversationEvent::TurnFinished) => continue,
                    Err(error) if self.is_prompt => return Some(self.reconnect(&error)),
                    Err(_) if self.is_restarting => None,
                    Err(error) => {
                        tracing::error!(
                            error = &error as &dyn std::error::Error,
                            "the gateway is gone"
                        );
                        return None;
                    }
                },
                TerminalPeer::Nobody => return None,
            };
            match event {
                Some(event) => {
                    if let TerminalEvent::TurnEnd { unfinished, .. } = event {
                        self.unfinished = unfinished;
                    }
                    self.is_restarting |= matches!(&event, TerminalEvent::Reply { text, ok: true, .. } if text == RESTARTING);
                    return Some(event);
                }
                None => {
                    let peer = std::mem::replace(&mut self.peer, TerminalPeer::Nobody);
                    self.replacement = Some(restart::begin(
                        peer,
                        self.runtime.clone(),
                        self.options.clone(),
                        self.is_prompt,
                        self.session_lock.take(),
                    ));
                }
            }
        }
    }

    /// Becomes the conversation that replaces this one, and reports that.
    fn replace_with(&mut self, restarted: Result<Self, RuntimeError>) -> TerminalEvent {
        self.replacement = None;
        self.is_restarting = false;
        self.turns = RunningTurns::default();
        match restarted {
            Ok(terminal) => {
                let mut terminal = terminal;
                let newer = std::mem::take(&mut terminal.deferred);
                terminal.deferred = std::mem::take(&mut self.deferred);
                terminal.deferred.extend(newer);
                *self = terminal;
                TerminalEvent::News(RESTARTED.to_owned())
            }
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "cannot restart the assistant"
                );
                let text = format!("I cannot begin again: {error}.");
                TerminalEvent::Reply {
                    text,
                    streamed: false,
                    ok: false,
                    job: None,
                }
            }
        }
    }

    /// Ends this conversation, as [`shut_down`](Self::shut_down) does, and starts another. After
    /// [`RuntimeError::SessionInUse`] this conversation goes on; after another error there is none.
    ///
    /// # Errors
    /// Returns the errors of [`start_prompt`](Self::start_prompt).
    pub async fn switch(&mut self, session: &str) -> Result<(), RuntimeError> {
        let is_same = split_session(session) == split_session(&self.options.session);
        let lock = match (&self.peer, &self.session_lock) {
            (TerminalPeer::Own(_), Some(_)) if is_same => self.session_lock.take(),
            (TerminalPeer::Own(_), Some(_)) => {
                Some(session_lock::acquire(self.runtime.config(), session).await?)
            }
            _ => None,
        };
        std::mem::replace(&mut self.peer, TerminalPeer::Nobody)
            .end()
            .await;
        let options = TerminalOptions {
            session: session.to_owned(),
            ..self.options.clone()
        };
        *self = Self::begin(&self.runtime, options, self.is_prompt, lock).await?;
        Ok(())
    }

    /// Ends the conversation. The running turn has a grace period; then it is stopped, and its
    /// steps are kept. A gateway stops a turn that no terminal waits for.
    pub async fn shut_down(self) {
        self.peer.end().await;
    }
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal")
            .field("talk", &self.peer)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

impl TerminalPeer {
    async fn end(self) {
        if let Self::Own(own) = self {
            own.end().await;
        }
    }
}
