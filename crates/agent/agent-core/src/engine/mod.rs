//! Runs one turn: alternates between the model and tools until there is a reply.
//!
//! Decision: the engine is a loop over recorded steps. It journals the assistant message before any
//! of its calls runs, and every result as it arrives. It can therefore start from the messages of
//! an interrupted turn as well: calls without a result are handled first, then the loop continues.
//! The router chooses the provider; the agent supplies the messages and publishes the reply.

mod call_step;
mod compact;
mod conversation;
mod cut;
mod hint;
mod long_message;
mod loop_guard;
mod options;
mod paged_text;
mod permission;
mod received;
mod result_file;
mod stream_tap;
mod text_calls;
mod turn;
mod turn_engine;
mod untrusted;
mod visible;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_context::ContextBuilder;
use nanobot_session::{MessageEntry, SessionError, TurnOutcome};
use nanobot_types::{
    ChannelName, ChatId, ChatKind, DeliveryContext, Map, MessageId, ModelId, Origin, SenderId,
    SessionKey, StreamId, ToolCall, ToolSpec, TraceId, Usage,
};
use tokio_util::sync::CancellationToken;

pub use options::TurnOptions;
pub use turn_engine::TurnEngine;
pub use watch::{AnsweredRequest, RequestObserver};

pub use call_step::{FATAL_NOTE, UNKNOWN_OUTCOME};
pub use cut::{CUT_KEY, Truncation};
pub(crate) use hint::tool_hint;
pub(crate) use long_message::mark_kept;
pub use long_message::{KeptMessage, MAX_MESSAGE_CHARS, keep_long_message};
pub use loop_guard::without_repetition_note;
pub(crate) use result_file::ResultFiles;
pub use result_file::{CUT, is_result_file};
pub(crate) use untrusted::{copy_untrusted_mark, mark_untrusted, untrusted_origin};

use crate::{Observer, TurnStep};

/// Records the steps of a turn.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Records messages. When it returns `Ok`, they are durable.
    async fn record(&mut self, messages: Vec<MessageEntry>) -> Result<(), SessionError>;

    /// Notes the step that is about to be taken, as evidence in case the process dies in it.
    /// Optional: without such notes an attempt is counted when the turn begins.
    fn step_started(&self, _step: TurnStep) {}
}

/// Source of messages that people send while the turn runs.
#[async_trait]
pub trait Steering: Send + Sync {
    /// Returns the messages that arrived since the last call, ready to be recorded. Never waits for
    /// more.
    async fn take(&mut self) -> Vec<MessageEntry>;
}

/// The facts about a turn that its tools see.
#[derive(Clone, Debug)]
pub struct TurnFacts {
    /// The session.
    pub session: SessionKey,
    /// The channel through which the turn's message arrived.
    pub channel: ChannelName,
    /// The chat on that channel.
    pub chat_id: ChatId,
    /// The message's id on the platform.
    pub message_id: Option<MessageId>,
    /// The sender, if the message has one.
    pub sender: Option<SenderId>,
    /// The kind of chat, if the channel reported it.
    pub chat: Option<ChatKind>,
    /// The destination of a reply.
    pub delivery: DeliveryContext,
    /// The message's metadata.
    pub metadata: Map,
    /// The origin of the message.
    pub origin: Origin,
}

/// The inputs and outputs of a turn besides its messages.
pub struct TurnIo<'a> {
    /// The facts about the turn.
    pub facts: &'a TurnFacts,
    /// The system prompt.
    pub system: Arc<str>,
    /// The preset of the router that is asked first; empty for its default.
    pub model: ModelId,
    /// The tools, in the order in which they are sent.
    pub tools: Arc<[ToolSpec]>,
    /// Renders stored messages for a request; reads their files.
    pub context: &'a ContextBuilder,
    /// Records the steps.
    pub journal: &'a mut dyn Journal,
    /// Source of messages that people send while the turn runs.
    pub steering: &'a mut dyn Steering,
    /// Receives the turn's signals.
    pub observer: Arc<dyn Observer>,
    /// Observes the turn's requests.
    pub requests: &'a mut dyn RequestObserver,
    /// Fires when the turn is stopped.
    pub cancel: CancellationToken,
}

/// The progress of an interrupted turn; the default is a turn that begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnProgress {
    /// Number of model calls.
    pub model_calls: u32,
    /// Number of tool calls, including the pending ones.
    pub tool_calls: u32,
    /// Calls of the last answer without a result, in order.
    pub pending: Vec<ToolCall>,
    /// Origin of the text by strangers that it read, if it did.
    pub untrusted: Option<String>,
}

/// The report of the engine on a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineReport {
    /// The outcome. [`TurnOutcome::Suppressed`] is up to the caller, which knows what was sent.
    pub outcome: TurnOutcome,
    /// The visible reply; `None` if the model said nothing or the turn was stopped.
    pub reply: Option<String>,
    /// The last message of the model, to be recorded together with the end of the turn.
    pub last: Option<MessageEntry>,
    /// The stream that showed the reply while it was written.
    pub stream: Option<StreamId>,
    /// The reason why another candidate than the preferred one gave the last answer, for people;
    /// `None` if the preferred one did.
    pub fallback: Option<String>,
    /// Tokens of all its model calls.
    pub usage: Usage,
    /// Number of model calls, including those before an interruption.
    pub iterations: u32,
    /// The turn.
    pub trace: TraceId,
}

impl EngineReport {
    /// Creates the report of a turn whose final reply was recorded by an earlier run.
    pub(crate) fn replied(reply: String, trace: TraceId) -> Self {
        Self {
            outcome: TurnOutcome::Replied,
            reply: Some(reply),
            last: None,
            stream: None,
            fallback: None,
            usage: Usage::default(),
            iterations: 0,
            trace,
        }
    }
}

impl std::fmt::Debug for TurnIo<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TurnIo")
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}
