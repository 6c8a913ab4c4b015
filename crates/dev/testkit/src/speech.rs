//! A fake speech-to-text service with the API shapes of all supported vendors.
//!
//! It matches the ends of paths, below any prefix: `/audio/transcriptions` with a form (OpenAI,
//! Groq, SiliconFlow) or JSON (OpenRouter), `/chat/completions` (Xiaomi MiMo), `/audio/asr/sse`
//! (StepFun), `/upload` and `/transcript` (AssemblyAI). A request that does not have exactly the
//! vendor's shape is refused with status 400 and the reason, a wrong key with 401. Nothing is
//! transcribed: the test sets the transcript of every recording.

mod shape;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::TestkitError;
use crate::http::{Request, Response, ResponseStep, Server};
use crate::sync::Watched;
use shape::RequestFormat;

/// A recording received with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRecording {
    /// The requested model.
    pub model: String,
    /// The requested language.
    pub language: Option<String>,
    /// Media type of the recording, or its container if the request has no media type.
    pub kind: String,
    /// The recording.
    pub recording: Bytes,
}

/// State of the service.
#[derive(Debug, Default)]
struct SpeechState {
    says: String,
    polls: usize,
    instead: VecDeque<Response>,
    requests: Vec<String>,
    heard: Vec<ReceivedRecording>,
    /// Uploaded recordings, by URL.
    uploads: BTreeMap<String, Bytes>,
    /// Number of polls for the current job.
    looks: usize,
}

/// A running service on loopback; it stops on drop.
#[derive(Debug)]
pub struct SpeechFake {
    server: Server,
    state: Watched<SpeechState>,
}

impl SpeechFake {
    /// Starts the service; `key` is the only valid key.
    ///
    /// # Errors
    /// Returns [`TestkitError::Listen`] if no loopback port can be bound.
    pub async fn start(key: &str) -> Result<Self, TestkitError> {
        let state = Watched::new(SpeechState {
            says: "hello there".to_owned(),
            ..SpeechState::default()
        });
        let (shared, key) = (state.clone(), Arc::<str>::from(key));
        let server = Server::start(move |request| {
            let response = shared.change(|state| state.answer(&request, &key));
            async { response }
        });
        Ok(Self {
            server: server.await?,
            state,
        })
    }

    /// Returns `http://127.0.0.1:<port>`, without a trailing slash.
    #[must_use]
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Sets the transcript of every later recording.
    pub fn set_transcript(&self, text: &str) {
        self.state.change(|state| text.clone_into(&mut state.says));
    }

    /// Sets the number of polls that find a job unfinished, from now on.
    pub fn set_polls(&self, polls: usize) {
        self.state.change(|state| state.polls = polls);
    }

    /// Answers the next requests with these responses, whatever the requests are.
    pub fn push_responses(&self, responses: impl IntoIterator<Item = Response>) {
        self.state.change(|state| state.instead.extend(responses));
    }

    /// Returns every request so far, as `POST /path`.
    #[must_use]
    pub fn requests(&self) -> Vec<String> {
        self.state.read(|state| state.requests.clone())
    }

    /// Returns the recordings received so far, in order.
    #[must_use]
    pub fn recordings(&self) -> Vec<ReceivedRecording> {
        self.state.read(|state| state.heard.clone())
    }
}

impl SpeechState {
    fn answer(&mut self, request: &Request, key: &str) -> Response {
        self.requests
            .push(format!("{} {}", request.method, request.target));
        if let Some(instead) = self.instead.pop_front() {
            return instead;
        }
        let Some(shape) = RequestFormat::of(request) else {
            return Response::json(
                404,
                &json!({ "error": { "message": "there is nothing here" } }),
            );
        };
        if request.header("authorization") != Some(shape.authorization(key).as_str()) {
            return shape.refusal(401, "Invalid API key");
        }
        self.serve(shape, request)
            .unwrap_or_else(|why| shape.refusal(400, &why))
    }

    fn serve(&mut self, shape: RequestFormat, request: &Request) -> Result<Response, String> {
        let text = Value::from(self.says.as_str());
        let heard = match shape {
            RequestFormat::Form => shape::form(request)?,
            RequestFormat::Inline => shape::inline(request)?,
            RequestFormat::Chat => shape::chat(request)?,
            RequestFormat::Events => shape::events(request)?,
            RequestFormat::Upload => {
                let recording = shape::upload(request)?;
                let place = format!("https://cdn.test/upload/{}", self.uploads.len());
                self.uploads.insert(place.clone(), recording);
                return Ok(Response::json(200, &json!({ "upload_url": place })));
            }
            RequestFormat::Job => shape::job(request, &self.uploads)?,
            RequestFormat::Look => return Ok(Response::json(200, &self.poll_job(request)?)),
        };
        self.heard.push(heard);
        Ok(match shape {
            RequestFormat::Events => events(&self.says),
            RequestFormat::Chat => {
                let message = json!({ "role": "assistant", "content": text });
                let choice = json!({ "index": 0, "finish_reason": "stop", "message": message });
                Response::json(
                    200,
                    &json!({ "object": "chat.completion", "choices": [choice] }),
                )
            }
            RequestFormat::Job => {
                self.looks = 0;
                let id = format!("job-{}", self.heard.len());
                Response::json(200, &json!({ "id": id, "status": "queued", "text": null }))
            }
            _ => Response::json(200, &json!({ "text": text })),
        })
    }

    /// Counts a poll and returns the state of a job.
    fn poll_job(&mut self, request: &Request) -> Result<Value, String> {
        let known = format!("/transcript/job-{}", self.heard.len());
        if !request.path().ends_with(&known) {
            return Err("there is no such transcript".to_owned());
        }
        self.looks += 1;
        Ok(match self.looks {
            looks if looks > self.polls => {
                json!({ "status": "completed", "text": self.says, "error": null })
            }
            1 => json!({ "status": "queued", "text": null }),
            _ => json!({ "status": "processing", "text": null }),
        })
    }
}

/// Returns an SSE response with the text in two deltas and then as a whole, with the keep-alives
/// that servers send.
fn events(text: &str) -> Response {
    let middle = text
        .char_indices()
        .nth(text.chars().count() / 2)
        .map_or(0, |(at, _)| at);
    let (begin, end) = text.split_at(middle);
    let event = |event: &Value| ResponseStep::text(format!("data: {event}\n\n"));
    let delta = |delta: &str| event(&json!({ "type": "transcript.text.delta", "delta": delta }));
    let done = event(
        &json!({ "type": "transcript.text.done", "text": text, "usage": { "type": "tokens" } }),
    );
    let steps = vec![
        ResponseStep::text(": keepalive\n\n"),
        delta(begin),
        delta(end),
        done,
    ];
    Response::chunked(200, "text/event-stream", steps)
}
