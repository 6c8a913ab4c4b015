//! Replies of a scripted model, independent of the API that serves them.
//!
//! The same [`Reply`] is rendered as OpenAI JSON, OpenAI SSE, Anthropic JSON, Anthropic SSE or as
//! stream events of the `Provider` contract, depending on the request. Only [`Reply::raw`] is bound
//! to HTTP.

use std::time::Duration;

use nanobot_types::Usage;
use serde_json::Value;

use crate::TestkitError;
use crate::corpus::CorpusRow;
use crate::gate::Gate;
use crate::http::Response;

/// One reply of a scripted model.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) shape: ReplyKind,
    pub(crate) gate: Option<Gate>,
}

#[derive(Clone, Debug)]
pub(crate) enum ReplyKind {
    ScriptedAnswer(Box<ScriptedAnswer>),
    ScriptedFailure(ScriptedFailure),
    Raw(Response),
    Hang,
}

/// A well-formed message and the way its delivery ends.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedAnswer {
    pub(crate) reasoning: Option<Reasoning>,
    pub(crate) deltas: Vec<String>,
    pub(crate) delay: Duration,
    /// Gate before the text that follows the first piece.
    pub(crate) hold: Option<Gate>,
    pub(crate) calls: Vec<ScriptedCall>,
    pub(crate) finish: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) ending: AnswerEnding,
}

#[derive(Clone, Debug)]
pub(crate) struct Reasoning {
    pub(crate) text: String,
    pub(crate) signature: String,
}

#[derive(Clone, Debug)]
pub(crate) enum AnswerEnding {
    Complete,
    Stall,
    Cut,
    Fail { kind: String, message: String },
}

#[derive(Clone, Debug)]
pub(crate) struct ScriptedFailure {
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
    /// The id; generated (unique within the server) if absent.
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// The arguments as the model wrote them, valid JSON or not.
    pub arguments: String,
}

impl ScriptedCall {
    /// Creates a call with well-formed arguments and a generated id.
    #[must_use]
    pub fn new(name: impl Into<String>, arguments: &Value) -> Self {
        Self {
            id: None,
            name: name.into(),
            arguments: arguments.to_string(),
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// Default usage of an answer: ten prompt tokens, five completion tokens, nothing cached.
const USUAL: Usage = Usage {
    prompt_tokens: 10,
    completion_tokens: 5,
    cached_tokens: 0,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
};

impl Reply {
    /// Creates an answer with the text in one piece.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::deltas([text])
    }

    /// Creates an answer with the text in these pieces.
    #[must_use]
    pub fn deltas<I>(deltas: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self::of(ReplyKind::ScriptedAnswer(Box::new(ScriptedAnswer {
            reasoning: None,
            deltas: deltas.into_iter().map(Into::into).collect(),
            delay: Duration::ZERO,
            hold: None,
            calls: Vec::new(),
            finish: None,
            usage: USUAL,
            ending: AnswerEnding::Complete,
        })))
    }

    /// Creates an answer with one tool call and no text.
    #[must_use]
    pub fn call(name: impl Into<String>, arguments: &Value) -> Self {
        Self::calls([ScriptedCall::new(name, arguments)])
    }

    /// Creates an answer with tool calls and no text.
    #[must_use]
    pub fn calls(calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        Self::deltas(Vec::<String>::new()).and_calls(calls)
    }

    /// Creates an error status with `message` in the vendor's error object.
    #[must_use]
    pub fn error(status: u16, message: impl Into<String>) -> Self {
        let body = FailureBody::Message {
            text: message.into(),
            code: None,
        };
        Self::of(ReplyKind::ScriptedFailure(ScriptedFailure {
            status,
            headers: Vec::new(),
            body,
        }))
    }

    /// Creates an error status whose error object also has a code, such as `insufficient_quota`.
    #[must_use]
    pub fn error_code(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        let body = FailureBody::Message {
            text: message.into(),
            code: Some(code.into()),
        };
        Self::of(ReplyKind::ScriptedFailure(ScriptedFailure {
            status,
            headers: Vec::new(),
            body,
        }))
    }

    /// Creates a status with exactly this body.
    #[must_use]
    pub fn status(status: u16, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        let body = FailureBody::Exactly {
            content_type: content_type.into(),
            text: body.into(),
        };
        Self::of(ReplyKind::ScriptedFailure(ScriptedFailure {
            status,
            headers: Vec::new(),
            body,
        }))
    }

    /// Creates a reply that never comes, not even a status line.
    #[must_use]
    pub fn hang() -> Self {
        Self::of(ReplyKind::Hang)
    }

    /// Creates a reply that writes exactly this response to the socket. In process it is a
    /// malformed answer.
    #[must_use]
    pub fn raw(response: Response) -> Self {
        Self::of(ReplyKind::Raw(response))
    }

    /// Creates the reply that the `http` object of a corpus row describes.
    ///
    /// # Errors
    /// Returns [`TestkitError::Corpus`] if the row has none.
    pub fn corpus(row: &CorpusRow) -> Result<Self, TestkitError> {
        Ok(Self::raw(row.response()?))
    }

    /// Adds tool calls after the text.
    #[must_use]
    pub fn and_calls(self, calls: impl IntoIterator<Item = ScriptedCall>) -> Self {
        self.answer(|answer| answer.calls.extend(calls))
    }

    /// Adds reasoning before the text: `reasoning_content` for OpenAI, a thinking block with that
    /// signature for Anthropic, and both in process unless the signature is empty.
    #[must_use]
    pub fn with_reasoning(self, text: impl Into<String>, signature: impl Into<String>) -> Self {
        let reasoning = Reasoning {
            text: text.into(),
            signature: signature.into(),
        };
        self.answer(|answer| answer.reasoning = Some(reasoning))
    }

    /// Sets the token counts. Each shape reports only the counts that its vendor reports: cache
    /// writes for Anthropic, reasoning tokens for OpenAI.
    #[must_use]
    pub fn with_usage(self, usage: Usage) -> Self {
        self.answer(|answer| answer.usage = usage)
    }

    /// Adds a pause before each piece of text.
    #[must_use]
    pub fn with_delay(self, delay: Duration) -> Self {
        self.answer(|answer| answer.delay = delay)
    }

    /// Holds everything after the first piece of text until the gate opens.
    #[must_use]
    pub fn holding(self, gate: &Gate) -> Self {
        self.answer(|answer| answer.hold = Some(gate.clone()))
    }

    /// Sets the finish reason, in OpenAI's terms (`length`, `content_filter`); it is translated for
    /// Anthropic.
    #[must_use]
    pub fn with_finish(self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        self.answer(|answer| answer.finish = Some(reason))
    }

    /// Stalls after the content, before any end marker.
    #[must_use]
    pub fn then_stall(self) -> Self {
        self.answer(|answer| answer.ending = AnswerEnding::Stall)
    }

    /// Resets the connection in the middle of the last content frame.
    #[must_use]
    pub fn then_cut(self) -> Self {
        self.answer(|answer| answer.ending = AnswerEnding::Cut)
    }

    /// Ends the stream with an error object instead of a finish reason.
    #[must_use]
    pub fn then_fail(self, kind: impl Into<String>, message: impl Into<String>) -> Self {
        let ending = AnswerEnding::Fail {
            kind: kind.into(),
            message: message.into(),
        };
        self.answer(|answer| answer.ending = ending)
    }

    /// Adds a header field to an error, such as `retry-after`.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let ReplyKind::ScriptedFailure(failure) = &mut self.shape {
            failure.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Holds the whole reply until the gate opens.
    #[must_use]
    pub fn after(self, gate: &Gate) -> Self {
        Self {
            gate: Some(gate.clone()),
            ..self
        }
    }

    fn of(shape: ReplyKind) -> Self {
        Self { shape, gate: None }
    }

    /// Changes the answer; a reply without a message stays as it is.
    fn answer(mut self, change: impl FnOnce(&mut ScriptedAnswer)) -> Self {
        if let ReplyKind::ScriptedAnswer(answer) = &mut self.shape {
            change(answer);
        }
        self
    }
}

impl ScriptedAnswer {
    pub(crate) fn text(&self) -> String {
        self.deltas.concat()
    }

    /// Returns OpenAI's finish reason of the answer.
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
