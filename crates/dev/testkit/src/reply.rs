//! What a scripted model answers, in one vocabulary for every shape it can be served in.
//!
//! The same [`Reply`] is rendered as OpenAI JSON, OpenAI SSE, Anthropic JSON, Anthropic SSE or as
//! stream events of the `Provider` contract, whichever the request asks for. Only
//! [`Reply::raw`] is bound to HTTP.

use std::sync::Arc;
use std::time::Duration;

use nanobot_types::Usage;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::TestkitError;
use crate::corpus::Row;
use crate::http::Response;

/// One answer of a scripted model.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) shape: Shape,
    pub(crate) gate: Option<Gate>,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Answer(Box<Answer>),
    Failure(Failure),
    Raw(Response),
    Hang,
}

/// Holds replies back until a test opens it: how tests act in the middle of a model call. Clones
/// are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<CancellationToken>);

impl PartialEq for Gate {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Gate {}

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets every reply behind it go, now and later.
    pub fn open(&self) {
        self.0.cancel();
    }

    pub(crate) async fn passed(&self) {
        self.0.cancelled().await;
    }
}

/// A well-formed message and how its delivery ends.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) reasoning: Option<Reasoning>,
    pub(crate) deltas: Vec<String>,
    pub(crate) delay: Duration,
    /// What the text waits for behind its first piece.
    pub(crate) hold: Option<Gate>,
    pub(crate) calls: Vec<ScriptedCall>,
    pub(crate) finish: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) ending: Ending,
}

#[derive(Clone, Debug)]
pub(crate) struct Reasoning {
    pub(crate) text: String,
    pub(crate) signature: String,
}

#[derive(Clone, Debug)]
pub(crate) enum Ending {
    Complete,
    Stall,
    Cut,
    Fail { kind: String, message: String },
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: FailureBody,
}

#[derive(Clone, Debug)]
pub(crate) enum FailureBody {
    /// Wrapped in the vendor's own error object.
    Message { text: String, code: Option<String> },
    /// Sent as it is.
    Exactly { content_type: String, text: String },
}

/// A tool call of a scripted answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedCall {
    /// The id; made up (unique within the server) when absent.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments as the model wrote them, valid JSON or not.
    pub arguments: String,
}

impl ScriptedCall {
    /// A call with well-formed arguments and a made-up id.
    #[must_use]
    pub fn new(name: impl Into<String>, arguments: &Value) -> Self {
        Self {
            id: None,
            name: name.into(),
            arguments: arguments.to_string(),
        }
    }

    /// The same with an id of its own.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// What an answer costs unless it says otherwise: ten tokens in, five out, nothing cached.
const USUAL: Usage = Usage {
    prompt_tokens: 10,
    completion_tokens: 5,
    cached_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
};

impl Reply {
    /// A text in one piece.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::deltas([text])
    }

    /// A text in these pieces.
    #[must_use]
    pub fn deltas<I>(deltas: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::of(Shape::Answer(Box::new(Answer {
            reasoning: None,
            deltas: deltas.into_iter().map(Into::into).collect(),
            delay: Duration::ZERO,
            hold: None,
            calls: Vec::new(),
            finish: None,
            usage: USUAL,
            ending: Ending::Complete,
        })))
    }

    /// One tool call without text.
    #[must_use]
    pub fn call(name: impl Into<String>, arguments: &Value) -> Self {
        Self::calls([ScriptedCall::new(name, arguments)])
    }

    /// Tool calls without text.
    #[must_use]
    pub fn calls(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        Self::deltas(Vec::<String>::new()).and_calls(calls)
    }

    /// An error status with the vendor's error object around `message`.
    #[must_use]
    pub fn error(status: u16, message: impl Into<String>) -> Self {
        let body = FailureBody::Message {
            text: message.into(),
            code: None,
        };
        Self::of(Shape::Failure(Failure {
            status,
            headers: Vec::new(),
            body,
        }))
    }

    /// An error status whose error object also has a code, such as `insufficient_quota`.
    #[must_use]
    pub fn error_code(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        let body = FailureBody::Message {
            text: message.into(),
            code: Some(code.into()),
        };
        Self::of(Shape::Failure(Failure {
            status,
            headers: Vec::new(),
            body,
        }))
    }

    /// A status with exactly this body.
    #[must_use]
    pub fn status(status: u16, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        let body = FailureBody::Exactly {
            content_type: content_type.into(),
            text: body.into(),
        };
        Self::of(Shape::Failure(Failure {
            status,
            headers: Vec::new(),
            body,
        }))
    }

    /// Never answers, not even with a status line.
    #[must_use]
    pub fn hang() -> Self {
        Self::of(Shape::Hang)
    }

    /// Exactly this on the socket. In process it is a malformed answer.
    #[must_use]
    pub fn raw(response: Response) -> Self {
        Self::of(Shape::Raw(response))
    }

    /// The `http` object of a corpus row.
    ///
    /// # Errors
    /// [`TestkitError::Corpus`] when the row has none.
    pub fn corpus(row: &Row) -> Result<Self, TestkitError> {
        Ok(Self::raw(row.response()?))
    }

    /// The same with tool calls after the text.
    #[must_use]
    pub fn and_calls(self, calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        self.answer(|answer| answer.calls.extend(calls))
    }

    /// The same with reasoning before the text: `reasoning_content` for OpenAI, a thinking block with
    /// that signature for Anthropic, and both in process unless the signature is empty.
    #[must_use]
    pub fn with_reasoning(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        let reasoning = Reasoning {
            text: text.into(),
            signature: signature.into(),
        };
        self.answer(|answer| answer.reasoning = Some(reasoning))
    }

    /// The same with these token counts. Each shape tells of them what its vendor tells: cache writes are
    /// Anthropic's, reasoning tokens OpenAI's.
    #[must_use]
    pub fn with_usage(self, usage: Usage) -> Self {
        self.answer(|answer| answer.usage = usage)
    }

    /// The same with this pause before each piece of text.
    #[must_use]
    pub fn with_delay(self, delay: Duration) -> Self {
        self.answer(|answer| answer.delay = delay)
    }

    /// The same, but nothing comes behind the first piece of text until the gate opens.
    #[must_use]
    pub fn holding(self, gate: &Gate) -> Self {
        self.answer(|answer| answer.hold = Some(gate.clone()))
    }

    /// The same with this reason to stop, in OpenAI's words (`length`, `content_filter`); they are
    /// translated for Anthropic.
    #[must_use]
    pub fn with_finish(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        self.answer(|answer| answer.finish = Some(reason))
    }

    /// The same, but falling silent after the content, before any sign of its end.
    #[must_use]
    pub fn then_stall(self) -> Self {
        self.answer(|answer| answer.ending = Ending::Stall)
    }

    /// The same, but the connection is reset in the middle of the last frame of content.
    #[must_use]
    pub fn then_cut(self) -> Self {
        self.answer(|answer| answer.ending = Ending::Cut)
    }

    /// The same, but an error object ends the stream instead of a reason to stop.
    #[must_use]
    pub fn then_fail(self, kind: impl Into<String>, message: impl Into<String>) -> Self {
        let ending = Ending::Fail {
            kind: kind.into(),
            message: message.into(),
        };
        self.answer(|answer| answer.ending = ending)
    }

    /// An error with one more header field, such as `retry-after`.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Shape::Failure(failure) = &mut self.shape {
            failure.headers.push((name.into(), value.into()));
        }
        self
    }

    /// The same, held back until the gate opens.
    #[must_use]
    pub fn after(self, gate: &Gate) -> Self {
        Self {
            gate: Some(gate.clone()),
            ..self
        }
    }

    fn of(shape: Shape) -> Self {
        Self { shape, gate: None }
    }

    /// Applies to answers only: what has no message has nothing to change.
    fn answer(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Shape::Answer(answer) = &mut self.shape {
            change(answer);
        }
        self
    }
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        self.deltas.concat()
    }

    /// OpenAI's word for why the answer ended.
    pub(crate) fn finish_reason(&self) -> &str {
        let natural = if self.calls.is_empty() {
            "stop"
        } else {
            "tool_calls"
        };
        self.finish.as_deref().unwrap_or(natural)
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}
