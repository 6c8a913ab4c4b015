//! Client for Anthropic's `/v1/messages`.
//!
//! Decision: a small client of our own, because this API differs from OpenAI's: the system prompt
//! is separate, roles alternate, signed thinking blocks must be sent back, and `cache_control`
//! marks say what to cache. Four marks are set: on the last built-in tool, on the system prompt
//! (which covers all tools), and on the two newest user messages, where they move along with the
//! conversation.

pub(crate) mod events;
mod request;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures_util::{Stream, StreamExt as _};
use http::HeaderMap;
use nanobot_provider::{ChatRequest, ChatStream, Provider, ProviderError, StreamEvent};
use nanobot_types::{ProviderName, json};
use reqwest::Url;
use serde_json::Value;

use self::events::EventReader;
use crate::client::network_error;
use crate::fault::ErrorClassifier;
use crate::refusal::UnsupportedParams;
use crate::{HttpClients, body};

pub(crate) use self::request::render;

/// Version of the API, sent as `anthropic-version`.
pub(crate) const VERSION: &str = "2023-06-01";

/// A provider that speaks `/v1/messages`.
#[derive(Debug)]
pub(crate) struct Anthropic {
    pub(crate) name: ProviderName,
    /// URL of the `messages` endpoint.
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) faults: ErrorClassifier,
    pub(crate) http: Arc<HttpClients>,
    pub(crate) refusals: UnsupportedParams,
}

#[async_trait]
impl Provider for Anthropic {
    fn name(&self) -> &ProviderName {
        &self.name
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ProviderError> {
        let mut refused = self.refusals.params();
        loop {
            let body = request::body(&self.name, &request, &refused);
            match self.exchange(&body).await {
                Ok(stream) => {
                    self.refusals.remember(refused);
                    return Ok(stream);
                }
                Err(error)
                    if self
                        .refusals
                        .add(&mut refused, request::OPTIONAL, &body, &error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Anthropic {
    async fn exchange(&self, body: &Value) -> Result<ChatStream, ProviderError> {
        let http = self.http.client_for(&self.url)?;
        let request = http
            .post(self.url.clone())
            .headers(self.headers.clone())
            .json(body);
        let response = request
            .send()
            .await
            .map_err(|error| network_error(&self.url, error))?;
        let status = response.status();
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = body::error_body(response).await;
            return Err(self.faults.of_status(status.as_u16(), &headers, &body));
        }
        let frames = body::lines(response).await?.eventsource();
        let state = EventStreamState {
            frames,
            reader: EventReader::new(self.faults.clone()),
            ready: VecDeque::new(),
            ended: false,
        };
        Ok(futures_util::stream::unfold(state, |mut state| async move {
            state.next().await.map(|item| (item, state))
        })
        .boxed())
    }
}

struct EventStreamState<S> {
    frames: S,
    reader: EventReader,
    ready: VecDeque<StreamEvent>,
    ended: bool,
}

impl<S: Stream<Item = Result<Event, EventStreamError<ProviderError>>> + Unpin> EventStreamState<S> {
    async fn next(&mut self) -> Option<Result<StreamEvent, ProviderError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            let read = match self.frames.next().await {
                Some(frame) => frame
                    .map_err(unwrap_transport)
                    .and_then(|frame| self.read(&frame)),
                None => {
                    self.ended = true;
                    self.reader.end().map(|event| event.into_iter().collect())
                }
            };
            match read {
                Ok(events) if events.is_empty() => {
                    return (!self.ended).then(|| Ok(StreamEvent::Text(String::new())));
                }
                Ok(events) => self.ready.extend(events),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }

    fn read(&mut self, frame: &Event) -> Result<Vec<StreamEvent>, ProviderError> {
        if frame.data.trim() == "[DONE]" {
            return Ok(Vec::new());
        }
        let event = json::from_str(&frame.data).map_err(|error| {
            ProviderError::Malformed(format!("a piece of the answer is not JSON: {error}"))
        })?;
        self.reader.read(&event)
    }
}

fn unwrap_transport(error: EventStreamError<ProviderError>) -> ProviderError {
    match error {
        EventStreamError::Transport(error) => error,
        other => ProviderError::Malformed(format!("the answer is not an event stream: {other}")),
    }
}
