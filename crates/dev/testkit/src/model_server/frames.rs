//! Server-sent events of an answer, modified by its scripted ending.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::http::{Framing, Response, Step};
use crate::reply::{Answer, Ending};

/// The frames of a streamed answer.
#[derive(Default)]
pub(super) struct Frames {
    /// Frames up to the last piece of content.
    content: Vec<Frame>,
    /// Closing frames, which tell the client that the answer is complete.
    close: Vec<String>,
    /// The vendor's format of an error inside a stream.
    error: Option<fn(&str, &str) -> String>,
}

struct Frame {
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
        self.content.push(Frame {
            text,
            is_delta: false,
        });
    }

    /// Adds a piece of the visible text, sent after the scripted pause.
    pub(super) fn push_delta(&mut self, text: String) {
        self.content.push(Frame {
            text,
            is_delta: true,
        });
    }

    pub(super) fn push_close(&mut self, text: String) {
        self.close.push(text);
    }

    pub(super) fn respond(mut self, answer: &Answer) -> Response {
        let mut after = Vec::new();
        match &answer.ending {
            Ending::Complete => after.extend(self.close.into_iter().map(Step::text)),
            Ending::Stall => after.push(Step::Hang),
            Ending::Cut => {
                if let Some(last) = self.content.last_mut() {
                    last.text = first_half(&last.text);
                }
                after.push(Step::Reset);
            }
            Ending::Fail { kind, message } => {
                after.extend(self.error.map(|error| Step::text(error(kind, message))));
                after.push(Step::Fin);
            }
        }
        let mut steps = Vec::new();
        let mut hold = answer.hold.clone();
        for frame in self.content {
            if frame.is_delta && answer.delay > Duration::ZERO {
                steps.push(Step::Wait(answer.delay));
            }
            steps.push(Step::text(frame.text));
            if frame.is_delta {
                steps.extend(hold.take().map(Step::Until));
            }
        }
        steps.extend(after);
        Response::chunked(200, "text/event-stream", steps).with_header("cache-control", "no-cache")
    }
}

/// Returns the answer as one JSON body.
pub(super) fn respond_whole(
    answer: &Answer,
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
        Ending::Complete => vec![Step::text(body)],
        Ending::Stall => vec![Step::text(first_half(&body)), Step::Hang],
        Ending::Cut => vec![Step::text(first_half(&body)), Step::Reset],
        Ending::Fail { kind, message } => return Response::json(500, &error(kind, message)),
    };
    if pause > Duration::ZERO {
        response.steps.insert(0, Step::Wait(pause));
    }
    response
        .steps
        .splice(0..0, answer.hold.clone().map(Step::Until));
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
