//! One turn: model, tools, model, until there is something to say.
//!
//! Decision: the engine is a loop over recorded steps. It journals the assistant message before
//! any of its calls runs and every result as it arrives, so that the messages it starts from may
//! as well be those of a turn that was interrupted: calls without a result come first, then the
//! loop goes on. Which provider answers is the router's business, where the messages come from
//! and where the reply goes is the agent's.

mod call_step;
mod compact;
mod cut;
mod hint;
mod loop_guard;
mod options;
mod readable;
mod result_file;
mod stream_tap;
mod text_calls;
mod turn;
mod visible;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use nanobot_context::ContextBuilder;
use nanobot_session::{MessageEntry, SessionError};
use nanobot_types::{
    ChannelName, ChatId, ChatKind, DeliveryContext, Map, MessageId, Origin, SenderId, SessionKey,
    StreamId, ToolCall, ToolSpec, TraceId, Usage,
};
use tokio_util::sync::CancellationToken;

pub use options::TurnOptions;
pub use turn::TurnEngine;
pub use watch::{Answered, RequestWatch};

pub(crate) use call_step::{FATAL_NOTE, UNKNOWN_OUTCOME};
pub(crate) use cut::{CUT_KEY, Cut};
pub(crate) use loop_guard::without_repetition_note;
pub(crate) use result_file::CUT;
pub(crate) use result_file::ResultFiles;

use crate::{Observer, Step};

/// Where a turn records its steps.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Records messages. When it returns `Ok`, they are durable.
    async fn record(&mut self, messages: Vec<MessageEntry>) -> Result<(), SessionError>;

    /// Notes the step that is taken next, as evidence for the case that the process dies of it.
    /// Optional: without such notes an attempt is counted when the turn begins.
    fn under_way(&self, _step: Step) {}
}

/// Messages that people send while the turn runs.
#[async_trait]
pub trait Steering: Send + Sync {
    /// What came since the last call, ready to be recorded; never waits for more.
    async fn take(&mut self) -> Vec<MessageEntry>;
}

/// The circumstances of a turn: facts that its tools see.
#[derive(Clone, Debug)]
pub struct TurnFacts {
    /// The session.
    pub session: SessionKey,
    /// The channel the turn's message came through.
    pub channel: ChannelName,
    /// Its chat.
    pub chat_id: ChatId,
    /// Its id in the platform's spelling.
    pub message_id: Option<MessageId>,
    /// Who sent it, where somebody did.
    pub sender: Option<SenderId>,
    /// Who else hears it, where the channel says so.
    pub chat: Option<ChatKind>,
    /// Where a reply belongs.
    pub delivery: DeliveryContext,
    /// Its metadata.
    pub metadata: Map,
    /// Who or what made it.
    pub origin: Origin,
}

/// What a turn works with beside its messages.
pub struct TurnIo<'a> {
    /// The circumstances.
    pub facts: &'a TurnFacts,
    /// The system prompt.
    pub system: Arc<str>,
    /// The tools, as they are sent.
    pub tools: Arc<[ToolSpec]>,
    /// Makes of stored messages what is sent: files are read here.
    pub context: &'a ContextBuilder,
    /// Where steps are recorded.
    pub journal: &'a mut dyn Journal,
    /// Where messages of people come in meanwhile.
    pub steering: &'a mut dyn Steering,
    /// Who watches.
    pub observer: Arc<dyn Observer>,
    /// Who is told of its requests.
    pub requests: &'a mut dyn RequestWatch,
    /// Fires when the turn is stopped.
    pub cancel: CancellationToken,
}

/// How far a turn came before it was interrupted; nothing for a turn that begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// How often the model was asked.
    pub model_calls: u32,
    /// How many tools were called, the pending calls included.
    pub tool_calls: u32,
    /// Calls of the last answer without a result, in order.
    pub pending: Vec<ToolCall>,
}

/// How a turn came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnResult {
    /// The model had its say.
    Completed,
    /// Somebody stopped it.
    Stopped,
    /// It used up its iterations or went round in circles.
    Limited,
    /// No model could answer.
    Failed,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// How it ended.
    pub result: TurnResult,
    /// The visible reply; `None` when the model had nothing to say, or the turn was stopped.
    pub reply: Option<String>,
    /// The last message of the model, to be recorded together with the end of the turn.
    pub last: Option<MessageEntry>,
    /// The stream that showed the reply while it was written.
    pub stream: Option<StreamId>,
    /// Tokens of all its model calls.
    pub usage: Usage,
    /// Model calls made, those of an interrupted run before included.
    pub iterations: u32,
    /// The turn.
    pub trace: TraceId,
}

impl TurnOutcome {
    /// The end of a turn whose last word was recorded by an earlier run.
    pub(crate) fn replied(reply: String, trace: TraceId) -> Self {
        Self {
            result: TurnResult::Completed,
            reply: Some(reply),
            last: None,
            stream: None,
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
