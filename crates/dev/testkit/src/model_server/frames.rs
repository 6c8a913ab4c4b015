//! Server-sent events of an answer, modified by its scripted ending.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::http::{Framing, Response, ResponseStep};
use crate::reply::{AnswerEnding, ScriptedAnswer};

/// The frames of a streamed answer.
#[derive(Default)]
pub(super) struct Frames {
    /// Frames up to the last piece of content.
    content: Vec<StreamFrame>,
    /// Closing frames, which tell the client that the answer is complete.
    close: Vec<String>,
    /// The vendor's format of an error inside a stream.
    error: Option<fn(&str, &str) -> String>,
}

struct StreamFrame {
    text: String,
    is_delta: bool,
}

impl Frames {
    pub(super) fn new(error: fn(&str, &str) -> String) -> Self {
        Self {
            error: Some(error),
            ..Self::default()
        }
    }

    /// Adds a frame without visible text.
    pub(super) fn push(&mut self, text: String) {
        self.content.push(StreamFrame {
            text,
            is_delta: false,
        });
    }

    /// Adds a piece of the visible text, sent after the scripted pause.
    pub(super) fn push_delta(&mut self, text: String) {
        self.content.push(StreamFrame {
            text,
            is_delta: true,
        });
    }

    pub(super) fn push_close(&mut self, text: String) {
        self.close.push(text);
    }

    pub(super) fn respond(mut self, answer: &ScriptedAnswer) -> Response {
        let mut after = Vec::new();
        match &answer.ending {
            AnswerEnding::Complete => after.extend(self.close.into_iter().map(ResponseStep::text)),
            AnswerEnding::Stall => after.push(ResponseStep::Hang),
            AnswerEnding::Cut => {
                if let Some(last) = self.content.last_mut() {
                    last.text = first_half(&last.text);
                }
                after.push(ResponseStep::Reset);
            }
            AnswerEnding::Fail { kind, message } => {
                after.extend(
                    self.error
                        .map(|error| ResponseStep::text(error(kind, message))),
                );
                after.push(ResponseStep::Fin);
            }
        }
        let mut steps = Vec::new();
        let mut hold = answer.hold.clone();
        for frame in self.content {
            if frame.is_delta && answer.delay > Duration::ZERO {
                steps.push(ResponseStep::Wait(answer.delay));
            }
            steps.push(ResponseStep::text(frame.text));
            if frame.is_delta {
                steps.extend(hold.take().map(ResponseStep::Until));
            }
        }
        steps.extend(after);
        Response::chunked(200, "text/event-stream", steps).with_header("cache-control", "no-cache")
    }
}

/// Returns the answer as one JSON body.
pub(super) fn respond_whole(
    answer: &ScriptedAnswer,
    message: &Value,
    error: fn(&str, &str) -> Value,
) -> Response {
    let body = message.to_string();
    let mut response = Response::bytes(200, "application/json", Vec::new());
    response.framing = Framing::Length(body.len());
    let pause = answer
        .delay
        .saturating_mul(u32::try_from(answer.deltas.len()).unwrap_or(u32::MAX));
    response.steps = match &answer.ending {
        AnswerEnding::Complete => vec![ResponseStep::text(body)],
        AnswerEnding::Stall => vec![ResponseStep::text(first_half(&body)), ResponseStep::Hang],
        AnswerEnding::Cut => vec![ResponseStep::text(first_half(&body)), ResponseStep::Reset],
        AnswerEnding::Fail { kind, message } => return Response::json(500, &error(kind, message)),
    };
    if pause > Duration::ZERO {
        response.steps.insert(0, ResponseStep::Wait(pause));
    }
    response
        .steps
        .splice(0..0, answer.hold.clone().map(ResponseStep::Until));
    response
}

/// Formats an event; `event:` is included only if the vendor names its events.
pub(super) fn event(name: Option<&str>, data: &Value) -> String {
    match name {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

fn first_half(text: &str) -> String {
    let half = Bytes::copy_from_slice(text.as_bytes()).slice(..text.len() / 2);
    String::from_utf8_lossy(&half).into_owned()
}
