//! Return of a prompt to its session after the connection to the gateway ended.
//!
//! Decision: a prompt waits for the gateway as long as its user stays, and never continues with an
//! assistant of its own: the gateway may return at any time, and then two assistants would write to
//! one session. Messages without an answer are sent again under their ids, so a message is processed
//! once, whether the gateway had stored it or not.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use nanobot_control::{
    ControlClient, ControlConversation, ControlError, PreparedMessage, TerminalEvent,
};
use nanobot_types::OutboundKey;
use tokio::time::{Instant, timeout};

use super::catch_up::ShownEvents;
use super::{Terminal, TerminalPeer, jobs, session_lock};
use crate::gateway::restart::RESTARTED;
use crate::{ModelChoice, Runtime, RuntimeError, control_socket, session_store};

/// First and longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Time after which the user learns how to start the gateway.
const ADVICE_DELAY: Duration = Duration::from_mins(1);
/// Maximum time to write a message to the socket.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of messages without an answer that are sent again.
const MAX_UNANSWERED: usize = 64;

const GONE: &str = "The gateway is gone; reconnecting…";
const BACK: &str = "The gateway is back.";
const ADVICE: &str = "The gateway has not come back, or a prompt without it has this conversation now. \
                      `nanobot gateway` starts it; this prompt joins it then and sends what is queued. Ctrl-D leaves.";

/// Messages from a prompt that have no answer yet, the oldest first.
#[derive(Debug, Default)]
pub(super) struct UnansweredMessages(VecDeque<PreparedMessage>);

impl UnansweredMessages {
    fn add(&mut self, message: PreparedMessage) {
        if self.0.len() >= MAX_UNANSWERED {
            self.0.pop_front();
        }
        self.0.push_back(message);
    }

    /// Removes what an event answers: the message of the turn, and at the end of a turn also those
    /// before it.
    fn take_event(&mut self, event: &TerminalEvent, key: Option<&OutboundKey>) {
        match (event, key) {
            (TerminalEvent::TurnEnd { turn, .. }, _) => {
                if let Some(last) = self.0.iter().position(|message| message.turn() == turn) {
                    self.0.drain(..=last);
                }
            }
            (TerminalEvent::Reply { .. }, Some(key)) if key.is_reply() => {
                self.0.retain(|message| *message.turn() != key.turn);
            }
            _ => {}
        }
    }
}

/// The attempts to return to a session.
pub(super) struct Reconnection {
    attempts: Pin<Box<dyn Future<Output = Rejoined> + Send>>,
    advice_at: Option<Instant>,
}

impl std::fmt::Debug for Reconnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reconnection")
            .field("advice_at", &self.advice_at)
            .finish_non_exhaustive()
    }
}

/// A conversation in the session that was left, and what the terminal missed.
#[derive(Debug)]
pub(super) struct Rejoined {
    runtime: Runtime,
    model: ModelChoice,
    conversation: ControlConversation,
    state: SessionState,
}

/// What a terminal knows about its session.
#[derive(Debug, Default)]
struct SessionState {
    shown: ShownEvents,
    unanswered: UnansweredMessages,
    /// Events that were missed.
    missed: Vec<TerminalEvent>,
}

/// Progress of a reconnection.
#[derive(Debug)]
pub(super) enum Progress {
    /// The gateway is gone for long.
    Advice,
    /// The session was joined again.
    Rejoined(Box<Rejoined>),
}

impl Reconnection {
    fn begin(runtime: Runtime, session: String, state: SessionState) -> Self {
        Self {
            attempts: Box::pin(rejoin(runtime, session, state)),
            advice_at: Some(Instant::now() + ADVICE_DELAY),
        }
    }

    /// Waits for the next progress; it must not be called again after [`Progress::Rejoined`].
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Progress {
        let advice_at = self.advice_at;
        let advice = async {
            match advice_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            rejoined = &mut self.attempts => Progress::Rejoined(Box::new(rejoined)),
            () = advice => {
                self.advice_at = None;
                Progress::Advice
            }
        }
    }
}

/// Tries to join the session until it succeeds.
async fn rejoin(runtime: Runtime, session: String, mut state: SessionState) -> Rejoined {
    let (mut pause, longest) = PAUSES;
    loop {
        match attempt(&runtime, &session, &mut state).await {
            Ok((runtime, model, conversation)) => {
                return Rejoined {
                    runtime,
                    model,
                    conversation,
                    state,
                };
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, "the gateway cannot be reached yet");
            }
        }
        tokio::time::sleep(pause).await;
        pause = pause.saturating_mul(2).min(longest);
    }
}

async fn attempt(
    runtime: &Runtime,
    session: &str,
    state: &mut SessionState,
) -> Result<(Runtime, ModelChoice, ControlConversation), RuntimeError> {
    let client = ControlClient::reach(&control_socket(runtime.config())).await?;
    let runtime = runtime.reload()?;
    let config = runtime.config();
    let workspace = config.workspace()?;
    if workspace != client.about().workspace {
        return Err(ControlError::Refused {
            why: "it has another workspace now".to_owned(),
        }
        .into());
    }
    session_lock::refuse_if_held(config, session).await?;
    // From here on, events arrive; what came before is in the session.
    let mut conversation = client.watch(session).await?;
    let own = state.unanswered.0.iter();
    let own: Vec<_> = own.map(|message| message.turn().clone()).collect();
    let missed = state
        .shown
        .missed(&*session_store(config)?, session, &own)
        .await?;
    for event in &missed.events {
        state.unanswered.take_event(event, None);
    }
    let is_answered = |message: &PreparedMessage| {
        let turn = message.turn().as_str();
        missed.answered.iter().any(|id| id.as_str() == turn)
    };
    state.unanswered.0.retain(|message| !is_answered(message));
    state.missed.extend(missed.events);
    for message in &state.unanswered.0 {
        send_in_time(&mut conversation, message).await?;
    }
    state.missed.extend(jobs::unseen(config).await?);
    let model = ModelChoice::of_gateway(client.about().model.clone());
    Ok((runtime, model, conversation))
}

async fn send_in_time(
    conversation: &mut ControlConversation,
    message: &PreparedMessage,
) -> Result<(), ControlError> {
    let sent = timeout(SEND_TIMEOUT, conversation.send_prepared(message)).await;
    sent.unwrap_or_else(|_elapsed| Err(ControlError::Broken(std::io::ErrorKind::TimedOut.into())))
}

impl Terminal {
    /// Records an event of the gateway, and returns it as it is shown; `None` if it was shown before
    /// or is not shown.
    pub(super) fn admit(
        &mut self,
        event: TerminalEvent,
        key: Option<OutboundKey>,
    ) -> Option<TerminalEvent> {
        if !self.is_prompt {
            return Some(event);
        }
        let event = jobs::labelled(event, key.as_ref())?;
        self.unanswered.take_event(&event, key.as_ref());
        let observed = key.clone();
        if !self.shown.admit(&event, key) {
            return None;
        }
        self.turns.observe(&event, observed.as_ref());
        Some(event)
    }

    /// Sends a message of a prompt to its gateway, now or after its return.
    ///
    /// # Errors
    /// Returns [`RuntimeError::Control`] if the message is longer than a request may be.
    pub(super) async fn send_reliably(
        &mut self,
        message: PreparedMessage,
    ) -> Result<(), RuntimeError> {
        let TerminalPeer::Gateway(conversation) = &mut self.peer else {
            return Ok(());
        };
        match send_in_time(conversation, &message).await {
            Err(error @ ControlError::TooLong { .. }) => return Err(error.into()),
            sent => {
                self.unanswered.add(message);
                if let Err(error) = sent {
                    let event = self.reconnect(&error);
                    self.deferred.push_back(event);
                }
            }
        }
        Ok(())
    }

    /// Begins to reconnect to the gateway, and returns the event to show.
    pub(super) fn reconnect(&mut self, error: &ControlError) -> TerminalEvent {
        tracing::warn!(
            error = error as &dyn std::error::Error,
            "the connection to the gateway ended"
        );
        self.peer = TerminalPeer::Nobody;
        self.reconnection = Some(Reconnection::begin(
            self.runtime.clone(),
            self.options.session.clone(),
            SessionState {
                shown: std::mem::take(&mut self.shown),
                unanswered: std::mem::take(&mut self.unanswered),
                missed: Vec::new(),
            },
        ));
        if !self.is_restarting {
            self.deferred
                .push_back(TerminalEvent::News(GONE.to_owned()));
        }
        // The text of the interrupted stream comes again as a whole.
        TerminalEvent::StreamEnd { resuming: true }
    }

    /// Continues with the progress of a reconnection, and returns the event to show.
    pub(super) fn take_progress(&mut self, progress: Progress) -> TerminalEvent {
        let rejoined = match progress {
            Progress::Advice => return TerminalEvent::News(ADVICE.to_owned()),
            Progress::Rejoined(rejoined) => *rejoined,
        };
        self.reconnection = None;
        self.runtime = rejoined.runtime;
        self.model = rejoined.model;
        self.peer = TerminalPeer::Gateway(rejoined.conversation);
        self.shown = rejoined.state.shown;
        self.unanswered = rejoined.state.unanswered;
        self.is_catching_up = !rejoined.state.missed.is_empty();
        self.deferred.extend(rejoined.state.missed);
        let was_restarting = std::mem::take(&mut self.is_restarting);
        let text = if was_restarting { RESTARTED } else { BACK };
        TerminalEvent::News(text.to_owned())
    }
}
